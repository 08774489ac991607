"""A store on a service of your own: four methods with a condition are enough, everything else is the object store's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from airflow_provider_incremental.stores.timeouts import TIMEOUT

__all__ = ["ConditionalStorage", "store_on"]


class ConditionalStorage(Protocol):
    """Named objects, each with a tag that another write changes.

    The names are ASCII, at most 1,000 characters, with slashes. The bodies are bytes: of a batch, all its items in one,
    and of a watermark some kilobytes more than what is not finished. A service with a greatest size, as DynamoDB and
    etcd have, needs a ``max_items`` whose items stay below it, or bodies cut in parts by its methods. What is written
    is read by everybody at once. ``OSError``, which includes ``ConnectionError`` and ``TimeoutError``, says
    that nobody knows what came of a call: it is made again. Every other error is final, and its text is shown.
    Calls run at the same time, in one event loop, and must not block it.
    """

    async def read(self, name: str) -> tuple[bytes, str] | None:
        """Return an object and its tag, or None when there is none."""

    async def write(self, name: str, body: bytes, tag: str | None) -> str | None:
        """Write an object if it still has this tag, or, without a tag, if there is none: one atomic step.

        A tag that the service never gave, of any text, is a condition that is not met.

        :return: its new tag, or None when the condition was not met and nothing was changed.
        """

    async def names(self, prefix: str) -> Sequence[tuple[str, str, dt.datetime]]:
        """Return the name, the tag and the aware time of writing of all objects whose names begin with a prefix."""

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects; those that are gone are no error."""


def store_on(
    storage: ConditionalStorage, *, place: str, clock: Clock | None = None, timeout: float = TIMEOUT
) -> WatermarkStore:
    """Return a store that keeps everything in a service of your own.

    :param storage: the service; nothing else may use the same names in it.
    :param place: what messages call it, such as its address; without secrets.
    :param clock: what time it is; by default this machine's, so the clocks of all that use the store must agree.
    :param timeout: seconds for which an operation is tried before it fails.
    :raises StoreUnavailableError: by its operations, when the service fails, or does not honour conditions.

    Example, the function that an entry point of ``airflow_provider_incremental.stores`` names::

        def open_ledger(url: str) -> WatermarkStore:
            return store_on(LedgerStorage(url), place="the ledger")
    """
    client = _Client(storage)

    async def lease() -> AbstractAsyncContextManager[Any]:
        return nullcontext(client)

    return ObjectStore(address=_Place(bucket="", conn_id="", shown=place, timeout=timeout), client=lease, clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place(ObjectAddress):
    shown: str

    def __str__(self) -> str:
        return self.shown


class _AnsweredError(Exception):
    """What a client of S3 raises for an answer that is no success."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


class _Body:
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        return self._body


class _Client:
    """The service in the shape of an S3 client, as far as the store uses one."""

    def __init__(self, storage: ConditionalStorage) -> None:
        self._storage = storage

    async def get_object(self, **given: Any) -> dict[str, Any]:
        found = await self._storage.read(given["Key"])
        if found is None:
            raise _AnsweredError("NoSuchKey", 404)
        body, tag = found
        if given.get("IfNoneMatch") == tag:
            raise _AnsweredError("NotModified", 304)
        if "Range" in given:
            first, last = given["Range"].removeprefix("bytes=").split("-")
            body = body[int(first) : int(last) + 1]
        return {"ETag": tag, "Body": _Body(body)}

    async def put_object(self, **given: Any) -> dict[str, Any]:
        tag = await self._storage.write(given["Key"], given["Body"], given.get("IfMatch"))
        if tag is None:
            raise _AnsweredError("PreconditionFailed", 412)
        return {"ETag": tag}

    async def list_objects_v2(self, **given: Any) -> dict[str, Any]:
        found = await self._storage.names(given["Prefix"])
        contents = [{"Key": name, "ETag": tag, "LastModified": written} for name, tag, written in sorted(found)]
        return {"Contents": contents, "IsTruncated": False}

    async def delete_objects(self, **given: Any) -> dict[str, Any]:
        await self._storage.delete([each["Key"] for each in given["Delete"]["Objects"]])
        return {}
