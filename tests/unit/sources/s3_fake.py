"""A bucket as an S3 client sees it, with a clock, faults on any page, and writers that strike while a listing runs."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

from botocore.exceptions import ClientError

START = dt.datetime(2026, 3, 1, 12, 0, 0, tzinfo=dt.UTC)


def at(seconds: float) -> dt.datetime:
    """The instant so many seconds after the start of a test's time."""
    return START + dt.timedelta(seconds=seconds)


def client_error(code: str, status: int, message: str = "no", headers: Mapping[str, str] | None = None) -> ClientError:
    """What an S3 client raises for an answer with an error."""
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(headers or {})}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}, "ListObjectsV2")


class FakeBucket:
    """Objects by key. ``now`` is the server's clock, in seconds; time stands still unless a test moves it.

    Each of these happens once, by the number of the page in its listing: ``before_page`` right before the page is put
    together, ``after_page`` right after, before the answer is stamped with the time; ``errors`` are raised instead of a
    page, ``changes`` are made to an answer.

    :param page_size: keys a page.

    ``ignores_start`` makes it one of the servers that list from the first key whatever they are asked.
    """

    def __init__(self, *, page_size: int = 1000) -> None:
        self.now = 1000.0
        self.page_size = page_size
        self.ignores_start = False
        self.requests: list[dict[str, Any]] = []
        self.before_page: dict[int, Callable[[], object]] = {}
        self.after_page: dict[int, Callable[[], object]] = {}
        self.errors: dict[int, Exception] = {}
        self.changes: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._objects: dict[str, dict[str, Any]] = {}
        self._page = 0

    def put(
        self,
        key: str,
        *,
        modified: float | None = None,
        body: str = "x",
        size: int = 1,
        storage_class: str = "STANDARD",
        parts: int = 0,
    ) -> None:
        """Write an object; ``modified`` other than now is a multipart upload that began earlier.

        :param parts: of an upload in parts, as its etag shows them; 0: the etag is that of one in one piece.
        """
        when = self.now if modified is None else modified
        digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
        self._objects[key] = {
            "Key": key,
            "LastModified": at(float(int(when))),
            "ETag": f'"{digest}-{parts}"' if parts else f'"{digest}"',
            "Size": size,
            "StorageClass": storage_class,
        }

    def delete(self, key: str) -> None:
        """Remove an object."""
        del self._objects[key]

    def versions(self) -> set[tuple[str, dt.datetime, str]]:
        """What is there: key, time and etag of each object."""
        entries = self._objects.values()
        return {(entry["Key"], entry["LastModified"], entry["ETag"].strip('"')) for entry in entries}

    def listings(self) -> int:
        """How many listings were begun."""
        return sum("ContinuationToken" not in request for request in self.requests)

    async def list_objects_v2(self, **arguments: Any) -> dict[str, Any]:
        """Answer with one page, as S3 does."""
        self.requests.append(arguments)
        self._page = self._page + 1 if "ContinuationToken" in arguments else 1
        if act := self.before_page.pop(self._page, None):
            act()
        if error := self.errors.pop(self._page, None):
            raise error
        start = "" if self.ignores_start else arguments.get("StartAfter", "")
        after = arguments.get("ContinuationToken") or start
        keys = sorted(key for key in self._objects if key.startswith(arguments["Prefix"]) and key > after)
        answer = self._answer(keys)
        if act := self.after_page.pop(self._page, None):
            act()
        answer["ResponseMetadata"] = {"HTTPStatusCode": 200, "HTTPHeaders": {"date": self._date()}}
        if change := self.changes.pop(self._page, None):
            change(answer)
        return answer

    def _date(self) -> str:
        return format_datetime(at(float(int(self.now))), usegmt=True)

    def _answer(self, keys: list[str]) -> dict[str, Any]:
        page, rest = keys[: self.page_size], keys[self.page_size :]
        answer: dict[str, Any] = {
            "IsTruncated": bool(rest),
            "EncodingType": "url",
            "KeyCount": len(page),
            "Contents": [{**self._objects[key], "Key": quote(key, errors="surrogateescape")} for key in page],
        }
        if rest:
            answer["NextContinuationToken"] = page[-1]
        if not page:
            del answer["Contents"]
        return answer
