"""A bucket in memory with the conditional writes of S3, and requests that fail before or after they have had effect."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Literal

from botocore.exceptions import ClientError

__all__ = ["DictBucket", "answered"]

_PAGE = 5
Fault = Literal["before", "after"] | None


class _Body:
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        """Return everything."""
        return self._body


class DictBucket:
    """Stands for an aiobotocore client.

    :ivar fault: says of each request, by operation and key, whether its connection breaks before or after its effect.
    :ivar requests: the operations that were asked for.
    """

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, bytes, dt.datetime]] = {}
        self.fault: Callable[[str, str], Fault] = lambda *_: None
        self.now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
        self.requests: list[str] = []

    async def __call__(self) -> AbstractAsyncContextManager[Any]:
        """Return the context of one use."""
        return nullcontext(self)

    async def get_object(self, **given: Any) -> dict[str, Any]:
        """Return an object, or a part of it."""
        return self._answered("get_object", given, self._get)

    async def put_object(self, **given: Any) -> dict[str, Any]:
        """Write an object, if its condition is met."""
        return self._answered("put_object", given, self._put)

    async def list_objects_v2(self, **given: Any) -> dict[str, Any]:
        """Return a few objects of a prefix."""
        return self._answered("list_objects_v2", given, self._list)

    async def delete_objects(self, **given: Any) -> dict[str, Any]:
        """Delete objects."""
        return self._answered("delete_objects", given, self._delete)

    def _answered(
        self, operation: str, given: dict[str, Any], work: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        self.requests.append(operation)
        fault = self.fault(operation, given.get("Key", given.get("Prefix", "")))
        if fault == "before":
            raise ConnectionResetError(operation)
        answer = work(given)
        if fault == "after":
            raise ConnectionResetError(operation)
        return answer

    def _get(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["Key"] not in self.objects:
            raise answered("NoSuchKey", 404)
        etag, body, _ = self.objects[given["Key"]]
        if given.get("IfNoneMatch") == etag:
            raise answered("304", 304)
        if "Range" in given:
            first, last = given["Range"].removeprefix("bytes=").split("-")
            body = body[int(first) : int(last) + 1]
        return {"ETag": etag, "Body": _Body(body)}

    def _put(self, given: dict[str, Any]) -> dict[str, Any]:
        there = self.objects.get(given["Key"])
        if ("IfMatch" in given and (there is None or there[0] != given["IfMatch"])) or (
            given.get("IfNoneMatch") == "*" and there is not None
        ):
            raise answered("PreconditionFailed", 412)
        etag = f'"{hashlib.md5(given["Body"], usedforsecurity=False).hexdigest()}"'
        self.objects[given["Key"]] = (etag, given["Body"], self.now())
        return {"ETag": etag}

    def _list(self, given: dict[str, Any]) -> dict[str, Any]:
        after = given.get("ContinuationToken", "")
        rest = sorted(key for key in self.objects if key.startswith(given["Prefix"]) and key > after)
        found = rest[:_PAGE]
        return {
            "NextContinuationToken": found[-1] if found else "",
            "Contents": [
                {"Key": key, "ETag": self.objects[key][0], "LastModified": self.objects[key][2]} for key in found
            ],
            "IsTruncated": len(rest) > len(found),
        }

    def _delete(self, given: dict[str, Any]) -> dict[str, Any]:
        for each in given["Delete"]["Objects"]:
            self.objects.pop(each["Key"], None)
        return {}


def answered(code: str, status: int) -> ClientError:
    """Return what a client raises for an answer that is no success."""
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "request")
