"""The requests that a store makes to the object storage: each bounded in time, with what came of it.

Every write has a condition, also where its name alone makes it new: so a bucket whose policy demands conditions will
do, and a write whose answer was lost can be made again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.faults import StorageFaultError, code_of, fault_of, status_of
from airflow_provider_incremental.stores.objects.server_clock import ServerClock

__all__ = ["Bucket", "ClientFactory", "Listed", "MissingObjectError", "Stored", "patience"]

T = TypeVar("T")

ClientFactory = Callable[[], Awaitable[AbstractAsyncContextManager[Any]]]
"""Gives the context of one use of an aiobotocore S3 client; it stays open as long as one context of it is."""

_ANSWERS_WITHIN = 5.0, 15.0  # at least, at most
_BYTES_A_SECOND = 1_000_000  # of a slow line, on top of that
_MOST_KEYS = 1000  # of one DeleteObjects: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 3.0
_UNCHANGED = 304
_NOT_FOUND = 404
_THERE = 412
_NOT_MET = frozenset({404, 409, _THERE})
"""What a conditional write is answered that lost: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html"""
_random = random.SystemRandom()


class MissingObjectError(StoreError):
    """An object that another one names is not there."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was read or written."""

    etag: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Listed:
    """An object of a listing."""

    name: str
    etag: str
    written_at: dt.datetime


def patience(attempt: int) -> float:
    """Return the seconds to wait before another attempt: growing, and never the same for two who wait."""
    return _random.uniform(0.5, 1.0) * min(_FIRST_PAUSE * 2.0 ** min(attempt, 16), _LONGEST_PAUSE)


class Bucket:
    """The objects below a prefix. Names do not have the prefix.

    :param address: where they are.
    :param client: gives the client; called in the event loop that uses it.
    :param clock: learns the service's time from its answers.
    :ivar requests: how many were made, by operation.
    :ivar pause: the seconds to wait before another attempt.
    """

    def __init__(self, *, address: ObjectAddress, client: ClientFactory, clock: ServerClock) -> None:
        self.address = address
        self.requests: dict[str, int] = {}
        self.pause = patience
        # Half of the time that there is, for one may hang: aiohttp makes a write that broke again, without its body.
        least, most = _ANSWERS_WITHIN
        self._answers_within = min(max(address.timeout / 2, least), most)
        self._factory = client
        self._clock = clock
        self._lease: AbstractAsyncContextManager[Any] | None = None
        self._opening = asyncio.Lock()

    async def read(self, name: str, known: Stored | None = None) -> Stored | None:
        """Return an object, the one that is known if it is still that; None when there is none."""
        condition = {"IfNoneMatch": known.etag} if known else {}

        async def once() -> Stored | None:
            try:
                return await self._get(name, 2 * self._answers_within, condition)
            except Exception as error:
                if status_of(error) == _UNCHANGED:
                    return known
                if code_of(error) == "NoSuchKey":
                    return None
                raise

        return await self._patiently("get_object", once)

    async def read_part(self, name: str, start: int, size: int) -> bytes:
        """Return bytes of an object that another one names.

        :raises MissingObjectError: when it is not there.
        """
        part = {"Range": f"bytes={start}-{start + size - 1}"}

        async def once() -> bytes:
            try:
                return (await self._get(name, self._seconds(size), part)).body
            except Exception as error:
                if status_of(error) == _NOT_FOUND and code_of(error) != "NoSuchBucket":
                    raise self._missing(name) from error
                raise

        body = await self._patiently("get_object", once) if size else b""
        return body[start : start + size] if len(body) > size else body  # a service may ignore the range

    async def read_whole(self, name: str) -> bytes:
        """Return an object that another one names.

        :raises MissingObjectError: when it is not there.
        """
        found = await self.read(name)
        if found is None:
            raise self._missing(name)
        return found.body

    async def write(self, name: str, body: bytes, etag: str | None) -> str | StorageFaultError | None:
        """Write an object if it is still the one with this tag, or, without a tag, if there is none.

        :return: its new tag; None when the condition was not met; a fault when nobody knows what came of it.
        :raises StorageFaultError: when it was refused, and will be refused again.
        """
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        try:
            return await self._put(name, body, condition)
        except Exception as error:
            if status_of(error) in _NOT_MET and code_of(error) != "NoSuchBucket":
                return None
            fault = await self._fault(error, "put_object")
            if fault.temporary:
                return fault
            raise fault from error

    async def create(self, name: str, body: bytes) -> None:
        """Write an object under a name that nobody else has; one that is there is this one."""

        async def once() -> None:
            try:
                await self._put(name, body, {"IfNoneMatch": "*"})
            except Exception as error:
                # Nothing else says that it is there: a request that meets its own first attempt is answered 409.
                if status_of(error) != _THERE:
                    raise

        await self._patiently("put_object", once)

    async def names(self, prefix: str) -> list[Listed]:
        """Return the objects whose names begin with a prefix, in order."""
        found: list[Listed] = []
        page: dict[str, str] = {}
        while True:

            async def once(page: dict[str, str] = page) -> Any:
                return await self._call("list_objects_v2", 2 * self._answers_within, Prefix=self._key(prefix), **page)

            answer = await self._patiently("list_objects_v2", once)
            for each in answer.get("Contents", ()):
                name = each["Key"].removeprefix(self.address.prefix)
                found.append(Listed(name, each["ETag"], each["LastModified"]))
            if not answer.get("IsTruncated"):
                return found
            page = {"ContinuationToken": answer["NextContinuationToken"]}

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects; those that are gone are no error."""
        for at in range(0, len(names), _MOST_KEYS):
            keys = [{"Key": self._key(name)} for name in names[at : at + _MOST_KEYS]]

            async def once(keys: list[dict[str, str]] = keys) -> Any:
                return await self._call(
                    "delete_objects", 2 * self._answers_within, Delete={"Objects": keys, "Quiet": True}
                )

            answer = await self._patiently("delete_objects", once)
            for each in answer.get("Errors", ()):
                msg = f"the store {self.address}: {each.get('Key')} cannot be deleted: {each.get('Code')}"
                raise StorageFaultError(msg)

    async def aclose(self) -> None:
        """Give the client back."""
        await self._leave(None)

    def _key(self, name: str) -> str:
        return self.address.prefix + name

    def _seconds(self, size: int) -> float:
        return self._answers_within + size / _BYTES_A_SECOND

    async def _put(self, name: str, body: bytes, condition: dict[str, str]) -> str:
        given = {"Key": self._key(name), "Body": body, **condition}
        return str((await self._call("put_object", self._seconds(len(body)), **given))["ETag"])

    async def _get(self, name: str, seconds: float, condition: dict[str, str]) -> Stored:
        answer = await self._call("get_object", seconds, Key=self._key(name), **condition)
        return Stored(answer["ETag"], answer["Body"])

    async def _patiently(self, operation: str, once: Callable[[], Awaitable[T]]) -> T:
        """Do it again while it may only be a matter of time."""
        loop = asyncio.get_running_loop()
        deadline, attempt = loop.time() + self.address.timeout, 0
        while True:
            try:
                return await once()
            except MissingObjectError:
                raise
            except StorageFaultError as error:
                fault = error
            except Exception as error:
                fault = await self._fault(error, operation)
                fault.__cause__ = error
            attempt += 1
            wait = self.pause(attempt + 2)
            if not fault.temporary or loop.time() + wait > deadline:
                raise fault
            await asyncio.sleep(wait)

    async def _call(self, operation: str, seconds: float, **arguments: Any) -> Any:
        self.requests[operation] = self.requests.get(operation, 0) + 1
        async with asyncio.timeout(seconds), self._client() as client:
            began = self._clock.local()
            try:
                answer = await getattr(client, operation)(Bucket=self.address.bucket, **arguments)
            except Exception as error:
                self._clock.learn(getattr(error, "response", None), began)
                raise
            self._clock.learn(answer, began)
            return answer | {"Body": await answer["Body"].read()} if "Body" in answer else answer

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        if self._lease is None:
            async with self._opening:
                if self._lease is None:
                    lease = await self._factory()
                    await lease.__aenter__()
                    self._lease = lease
        use = await self._factory()
        client = await use.__aenter__()
        try:
            yield client
        finally:
            await use.__aexit__(None, None, None)

    async def _fault(self, error: Exception, operation: str) -> StorageFaultError:
        fault = fault_of(error, self.address, operation)
        if fault.expired:
            await self._leave(error)
        return fault

    async def _leave(self, error: Exception | None) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.__aexit__(type(error) if error else None, error, None)

    def _missing(self, name: str) -> MissingObjectError:
        return MissingObjectError(
            f"the store {self.address}: the object {self._key(name)} is missing, although the store needs it; was it "
            "deleted by hand, or by a lifecycle rule of the bucket? Restore it from a version or a copy"
        )
