"""The complete listing of a prefix, page by page: the only place that talks to S3.

A page is handed out as soon as it is read, so whoever consumes pages may use what they saw only after the last one:
an answer that is wrong anywhere raises instead of ending the listing.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import unquote_to_bytes

from airflow_provider_incremental.sources.s3_errors import Place, broken_answer, listing_failed

__all__ = ["ListedObject", "ListingClient", "ListingClientFactory", "Position", "S3Listing", "Scan"]

Position = tuple[dt.datetime, str]
"""Where an object stands in the order of all: when it was last modified (aware, UTC), then its key."""


class ListingClient(Protocol):
    """What is needed of an S3 client: aiobotocore's has it."""

    async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
        """Return one page of a listing."""


ListingClientFactory = Callable[[], Awaitable[AbstractAsyncContextManager[Any]]]
"""Makes the context of a client: ``S3Hook(...).get_async_conn`` is one."""


class ListedObject(NamedTuple):
    """One object as a listing shows it. Tuples of them sort in the source's order."""

    last_modified: dt.datetime
    key: str
    etag: str
    size: int
    storage_class: str

    @property
    def position(self) -> Position:
        """Where it stands in the order."""
        return self.last_modified, self.key


class S3Listing:
    """Lists one prefix.

    :param client: a client, which stays the caller's; or a factory of its context, which is entered at the first
        listing and left by :meth:`aclose`, or with the error, after one that other credentials may cure.
    :param monotonic: seconds that never go backwards.
    """

    def __init__(
        self, *, place: Place, client: ListingClient | ListingClientFactory, monotonic: Callable[[], float]
    ) -> None:
        self.place = place
        self._given = client
        self._context: AbstractAsyncContextManager[Any] | None = None
        self._client: ListingClient | None = None
        self._monotonic = monotonic

    async def begin(self) -> Scan:
        """Ask for the first page of a new listing.

        :raises S3ListingError: when there is none, or when it does not say what time it is at the server.
        """
        began = self._monotonic()
        first = await self.page()
        # The server stamped its answer at an unknown moment of the exchange: take the earliest.
        exchange = dt.timedelta(seconds=math.ceil(max(self._monotonic() - began, 0.0)))
        return Scan(self, first, _server_time(first, self.place) - exchange)

    async def page(self, **continuation: str) -> Mapping[str, Any]:
        """Return one answer of the server.

        :raises S3ListingError: for whatever the client raises.
        """
        place = self.place
        try:
            client = self._client or await self._opened()
            return await client.list_objects_v2(
                Bucket=place.bucket, Prefix=place.prefix, EncodingType="url", **continuation
            )
        except Exception as error:
            failure = listing_failed(error, place)
            if not failure.temporary:
                with suppress(Exception):  # the error that made it useless says more than one of closing it
                    await self._give_back(error)
            raise failure from error

    async def aclose(self) -> None:
        """Give back the client, unless it is the caller's."""
        await self._give_back(None)

    async def _give_back(self, error: Exception | None) -> None:
        context, self._context, self._client = self._context, None, None
        if context is not None:
            await context.__aexit__(type(error) if error else None, error, None)

    async def _opened(self) -> ListingClient:
        if not callable(self._given):
            self._client = self._given
        else:
            context = await self._given()
            self._client = cast("ListingClient", await context.__aenter__())
            self._context = context
        return self._client


class Scan:
    """One listing under way. ``asked_at`` is a moment, by the server's clock, before its first page was put together.

    An object that was there before that moment is on a page; one that came later may be or not.
    """

    def __init__(self, listing: S3Listing, first: Mapping[str, Any], asked_at: dt.datetime) -> None:
        self.asked_at = asked_at
        self._listing = listing
        self._first = first

    async def pages(self) -> AsyncGenerator[list[ListedObject], None]:
        """Yield the objects of every page, in no order that matters.

        :raises S3ListingError: when the listing cannot be completed; what was yielded then counts for nothing.
        """
        place, answer = self._listing.place, self._first
        tokens = _Tokens(place)
        while True:
            yield _objects(answer, place)
            token = tokens.after(answer)
            if token is None:
                return
            answer = await self._listing.page(ContinuationToken=token)


class _Tokens:
    """Follows continuation tokens, and notices when they go round in a circle of any length, in constant memory."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._remembered: str | None = None
        self._steps = 0
        self._remember_at = 1

    def after(self, response: Mapping[str, Any]) -> str | None:
        """Return the token of the next page, or None after the last."""
        truncated = response.get("IsTruncated")
        if truncated is None:
            raise broken_answer(self._place, "the answer does not say whether it is complete (no IsTruncated)")
        if not truncated:
            return None
        token = response.get("NextContinuationToken")
        if not token:
            raise broken_answer(self._place, "the answer is truncated, but has no NextContinuationToken")
        if token == self._remembered:
            raise broken_answer(self._place, "the answers go round in a circle, a NextContinuationToken came again")
        self._steps += 1
        if self._steps == self._remember_at:
            self._remembered, self._remember_at = token, 2 * self._steps
        return cast("str", token)


def _objects(response: Mapping[str, Any], place: Place) -> list[ListedObject]:
    encoded = response.get("EncodingType") == "url"
    try:
        return [_object(entry, encoded) for entry in response.get("Contents", ())]
    except (KeyError, TypeError, ValueError) as error:
        raise broken_answer(place, f"an object of the answer cannot be read ({error!r})") from error


def _object(entry: Mapping[str, Any], encoded: bool) -> ListedObject:
    last_modified: dt.datetime = entry["LastModified"]
    if last_modified.tzinfo is None:
        msg = "LastModified without a time zone"
        raise ValueError(msg)
    return ListedObject(
        last_modified.astimezone(dt.UTC),
        _decoded(entry["Key"]) if encoded else entry["Key"],
        str(entry.get("ETag", "")).strip('"'),
        int(entry["Size"]),
        str(entry.get("StorageClass") or "STANDARD"),
    )


def _decoded(key: str) -> str:
    """Return a key as it is stored: bytes that are no UTF-8 stay apart from each other, as lone surrogates."""
    if "%" not in key and "+" not in key:
        return key
    return unquote_to_bytes(key.replace("+", " ")).decode("utf-8", "surrogateescape")


def _server_time(response: Mapping[str, Any], place: Place) -> dt.datetime:
    date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if not date:
        raise broken_answer(place, "the answer has no Date header, which says how far objects can be taken as complete")
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError) as error:
        raise broken_answer(place, f"the Date header {date!r} of the answer cannot be read") from error
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
