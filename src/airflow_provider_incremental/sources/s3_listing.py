"""The complete listing of a prefix, page by page: the only place that talks to S3.

A page is handed out as soon as it is read, so whoever consumes pages may use what they saw only after the last one:
an answer that is wrong anywhere raises instead of ending the listing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Protocol, cast

from airflow_provider_incremental.sources.s3_errors import Place, broken_answer, listing_failed
from airflow_provider_incremental.sources.s3_pages import (
    OBJECTS,
    VERSIONS,
    Answer,
    ListedObject,
    Position,
    Tokens,
    key_order,
    objects_in,
    server_time,
)

__all__ = ["ListedObject", "ListingClient", "ListingClientFactory", "Position", "S3Listing", "Scan"]


class ListingClient(Protocol):
    """What is needed of an S3 client: aiobotocore's has it."""

    async def list_objects_v2(self, **arguments: Any) -> Mapping[str, Any]:
        """Return one page of a listing."""


ListingClientFactory = Callable[[], Awaitable[AbstractAsyncContextManager[Any]]]
"""Makes the context of a client: ``S3Hook(...).get_async_conn`` is one."""


class S3Listing:
    """Lists one prefix, or prefixes below it.

    :param client: a client, which stays the caller's; or a factory of its context, which is entered at the first
        listing and left by :meth:`aclose`, or with the error, after one that other credentials may cure.
    :param monotonic: seconds that never go backwards.
    :param versioned: list the newest version of each object, with its id.
    :param arguments: what every request says besides, such as ``ExpectedBucketOwner``.
    """

    def __init__(
        self,
        *,
        place: Place,
        client: ListingClient | ListingClientFactory,
        monotonic: Callable[[], float],
        versioned: bool = False,
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        self.place = place
        self.operation = VERSIONS if versioned else OBJECTS
        self._given = client
        self._arguments = arguments or {}
        self._context: AbstractAsyncContextManager[Any] | None = None
        self._client: ListingClient | None = None
        self._opening = asyncio.Lock()
        self._monotonic = monotonic

    async def begin(self, *, prefix: str | None = None, after: str = "", until: str | None = None) -> Scan:
        """Ask for the first page of a new listing.

        :param prefix: list the keys that begin with this; by default, with the prefix of the place.
        :param after: begin behind this key.
        :param until: end with this key.
        :raises S3ListingError: when there is none, or when it does not say what time it is at the server.
        """
        where = self.place.prefix if prefix is None else prefix
        began = self._monotonic()
        first = await self.page(where, **({self.operation.after: after} if after else {}))
        # The server stamped its answer at an unknown moment of the exchange: take the earliest.
        exchange = math.ceil(self.since(began))
        return Scan(self, where, first, began=began, exchange=exchange, after=after, until=until)

    def since(self, moment: float) -> float:
        """Return the seconds since a moment of the monotonic clock."""
        return max(self._monotonic() - moment, 0.0)

    async def page(self, prefix: str | None = None, **continuation: str) -> Answer:
        """Return one answer of the server.

        :raises S3ListingError: for whatever the client raises.
        """
        place = self.place
        client: ListingClient | None = None
        try:
            client = self._client or await self._opened()
            request = getattr(client, self.operation.method)
            answer: Answer = await request(
                Bucket=place.bucket,
                Prefix=place.prefix if prefix is None else prefix,
                EncodingType="url",
                **self._arguments,
                **continuation,
            )
        except Exception as error:
            failure = listing_failed(error, place)
            if not failure.temporary and client is self._client:  # a page beside this one may have done so
                with suppress(Exception):  # the error that made it useless says more than one of closing it
                    await self._give_back(error)
            raise failure from error
        return answer

    async def aclose(self) -> None:
        """Give back the client, unless it is the caller's."""
        await self._give_back(None)

    async def _give_back(self, error: Exception | None) -> None:
        context, self._context, self._client = self._context, None, None
        if context is not None:
            await context.__aexit__(type(error) if error else None, error, None)

    async def _opened(self) -> ListingClient:
        async with self._opening:  # pages that are asked for at once share one client, also after it was given back
            if self._client is None:
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

    def __init__(
        self,
        listing: S3Listing,
        prefix: str,
        first: Answer,
        *,
        began: float,
        exchange: int,
        after: str = "",
        until: str | None = None,
    ) -> None:
        self._stamped = server_time(first, listing.place)
        self._began = began
        self.asked_at = self._stamped - dt.timedelta(seconds=exchange)
        self.ends = False
        """Whether no page follows the one that was yielded."""
        self._listing = listing
        self._prefix = prefix
        self._first = first
        self._after = after
        self._until = None if until is None else key_order(until)

    def by_now(self) -> dt.datetime:
        """Return a moment, by the server's clock, that is not before now: it stamps whole seconds."""
        return self._stamped + dt.timedelta(seconds=1 + self._listing.since(self._began))

    async def pages(self) -> AsyncGenerator[Sequence[ListedObject], None]:
        """Yield the objects of every page, in the order of the answers.

        :raises S3ListingError: when the listing cannot be completed; what was yielded then counts for nothing.
        """
        listing, answer = self._listing, self._first
        tokens = Tokens(listing.operation, listing.place)
        while True:
            token = tokens.after(answer)
            objects = objects_in(answer, listing.operation, listing.place)
            if self._after and objects and key_order(objects[0].key) <= key_order(self._after):
                what = f"it was asked for keys behind {self._after!r}, and begins with {objects[0].key!r}"
                raise broken_answer(listing.place, what, unsplittable=True)
            if self._until is not None and objects and key_order(objects[-1].key) >= self._until:
                objects, token = [each for each in objects if key_order(each.key) <= self._until], None
            self.ends = token is None
            yield objects
            if token is None:
                return
            answer = await listing.page(self._prefix, **token)
