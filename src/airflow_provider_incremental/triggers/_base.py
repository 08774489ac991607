"""``IncrementalTrigger``: the trigger to extend. A subclass names a source; the order of things is the base's.

What is true at every ``await``: nothing leaves ``run()`` but cancellation; what this object holds (the store, the
source) is in ``_resources`` and is given back by ``cleanup()``; everything that must outlive it is in the store.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Hashable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, ClassVar, TypedDict

from airflow_provider_incremental.core.announcement import INLINE_BYTES, Announcement
from airflow_provider_incremental.core.checks import (
    SHORTEST,
    Seconds,
    as_count,
    as_flag,
    as_names,
    as_part,
    as_seconds,
    as_start,
)
from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.contained import contained
from airflow_provider_incremental.core.errors import ConfigurationError, IncrementalError
from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import RETENTION, FeedSettings, StartAt, backoff
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.source import Found, Source
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.trouble import Trouble, told_to_stop
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watermark, WatermarkKey
from airflow_provider_incremental.triggers._ack import AcknowledgedStream
from airflow_provider_incremental.triggers._answers import as_found, as_source
from airflow_provider_incremental.triggers._arguments import Rebuildable
from airflow_provider_incremental.wiring.airflow import (
    BaseEventTrigger,
    SharedStreamProducer,
    TriggerEvent,
    unwatched_asset,
)
from airflow_provider_incremental.wiring.asset_watermark import AssetWatermark
from airflow_provider_incremental.wiring.stores import open_store

__all__ = ["IncrementalTrigger", "TriggerOptions"]

log = logging.getLogger(__name__)

_RETRY = 5.0
_INFER_AFTER = 10.0
"""Seconds after which an event counts as stored where Airflow does not tell: its loops take one or two."""


class TriggerOptions(TypedDict, total=False):
    """What every incremental trigger takes; :class:`IncrementalTrigger` describes each."""

    namespace: str
    key: str
    start: Any
    announce_interval: Seconds | None
    redeliver_after: Seconds
    consumers: Sequence[str]
    retention: Seconds | None
    items_in_events: bool


class IncrementalTrigger(Rebuildable, BaseEventTrigger):
    """Watches a source and hands each new slice of it to the DAGs that are scheduled on an asset.

    To add a source, subclass it, name your parameters in ``__init__``, pass the others on, and return a
    :class:`~airflow_provider_incremental.Source` from :meth:`create_source`; ``example_dags/example_custom_source.py``
    does it in about thirty lines. The class must be importable where the triggerer runs.

    :param asset_name: the name of the asset that this trigger's watcher belongs to.
    :param namespace: and :param key: set several watermarks of one asset apart (default: ``"default"``).
    :param start: where the first poll ever begins: ``"earliest"`` (the default) with everything that is there,
        ``"latest"`` with what comes from now on, or a position in the source.
    :param max_items: at most so many items a batch (default 1,000); the next batch follows at once.
    :param poll_interval: seconds between two polls (default 60).
    :param announce_interval: seconds that two events of this watermark are apart at least (default: poll_interval).
    :param redeliver_after: seconds (default 300) after which a batch that a known consumer has not acknowledged is
        announced again.
    :param consumers: names of the DAGs (or other consumers) that process the asset: known from the first poll on, so
        that batches are announced again for them even before their first run (default: each is known once it has run).
    :param retention: seconds (default 30 days) for which the log keeps a batch that every known consumer has finished;
        None keeps it for ever. What somebody still needs, or the lateness window, stays anyway.
    :param items_in_events: whether events carry the items of small batches (default True). Airflow logs events and
        keeps them in its database; False keeps items in the store alone, where ``consume`` finds them.
    :raises ConfigurationError: in a DAG file, for a parameter that cannot be used. Never in the triggerer: there, the
        fault is logged and shown in the watermark's status.
    """

    _unwatched: ClassVar[dict[WatermarkKey, str]] = {}

    def __init__(
        self,
        *,
        asset_name: str,
        namespace: str = "default",
        key: str = "default",
        start: Any = "earliest",
        max_items: int = 1000,
        poll_interval: Seconds = 60,
        announce_interval: Seconds | None = None,
        redeliver_after: Seconds = 300,
        consumers: Sequence[str] = (),
        retention: Seconds | None = RETENTION,
        items_in_events: bool = True,
    ) -> None:
        self.recover()
        if type(self).create_source is IncrementalTrigger.create_source:
            raise ConfigurationError(f"{type(self).__name__} does not say what it watches: implement create_source()")
        self.asset_watermark = AssetWatermark(asset_name, as_part("namespace", namespace), as_part("key", key))
        self.start = as_start(start)
        self.max_items = as_count("max_items", max_items)
        self.poll_interval = as_seconds("poll_interval", poll_interval, least=SHORTEST)
        self.announce_interval = (
            self.poll_interval
            if announce_interval is None
            else as_seconds("announce_interval", announce_interval, least=SHORTEST)
        )
        self.redeliver_after = as_seconds("redeliver_after", redeliver_after, least=SHORTEST)
        self.consumers = as_names("consumers", consumers)
        self.retention = None if retention is None else as_seconds("retention", retention, least=SHORTEST)
        self.items_in_events = as_flag("items_in_events", items_in_events)

    def recover(self) -> None:
        """Set what the object needs to be run and cleaned up, also when its constructor cannot finish."""
        BaseEventTrigger.__init__(self)
        self.clock: Clock = SystemClock()
        self._resources = AsyncExitStack()
        self._feed: Feed | None = None
        self._troubles: Trouble | None = None

    def create_source(self) -> Source:
        """Return the source to watch. Called in the triggerer, on its event loop: connect at the first poll, not here.

        :raises ConfigurationError: when the source cannot be read as configured.
        """
        raise NotImplementedError

    def start_cursor(self) -> Cursor:
        """Return the cursor for a ``start`` other than "earliest" and "latest"; by default the value as given."""
        return self.start

    @property
    def low_watermark(self) -> Cursor:
        """The cursor that the present poll started above; None before the first poll and at the very start."""
        return None if self._feed is None else self._feed.low

    async def get_high_watermark(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Poll: return what lies above ``low``, and how far that reaches. By default, the source's own poll."""
        return await self._source.poll(low, limit, seen)

    async def persist_watermark(self, watermark: Watermark, found: Found, report: PollReport) -> Watermark:
        """Commit: move the watermark over what was found, together with its batch, or neither."""
        if self._feed is None:
            raise RuntimeError("persist_watermark() is called by a running trigger only")
        return await self._feed.commit(watermark, found, report)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each announcement, for ever. Airflow calls this where it has no ack mode."""
        async for announcement in self.announcements(confirm_after=_INFER_AFTER):
            yield TriggerEvent(announcement.payload)

    async def announcements(self, *, confirm_after: float | None) -> AsyncGenerator[Announcement, None]:
        """Open the store and the source, and run the order of things over them; never ends, never raises.

        :param confirm_after: see :class:`~airflow_provider_incremental.core.pace.FeedSettings`.
        """
        failures = 0
        while True:
            try:
                with contained():
                    feed = self._feed = await self._open_feed(confirm_after)
                    failures = 0
                    self._trouble().ends("opening")
                    async with aclosing(feed.announcements()) as announcements:
                        async for announcement in announcements:
                            yield announcement
            except (Exception, asyncio.CancelledError) as error:
                if told_to_stop(error):
                    raise
                failures += 1
                self._trouble().begins("opening", error)
                await self.cleanup()
                await self.clock.sleep(backoff(_RETRY, failures))

    async def confirm(self, announcement: Announcement) -> None:
        """Mark the batches of an announcement delivered: Airflow has stored its event."""
        if self._feed is not None:
            await self._feed.confirm(announcement)

    def drop(self, announcement: Announcement) -> None:
        """Let the batches of an announcement be announced again: Airflow has not stored its event."""
        if self._feed is not None:
            self._feed.drop(announcement)

    async def cleanup(self) -> None:
        """Give back the store and the source. What fails at that is logged: Airflow would not tell."""
        self._feed = None
        try:
            with contained():
                await self._resources.aclose()
        except (Exception, asyncio.CancelledError) as error:
            if told_to_stop(error):
                raise
            log.warning("%s was not closed cleanly: %s", self, describe(error))

    def shared_stream_key(self) -> Hashable | None:
        """A stream of this object's own: ack mode, where Airflow has it, with nobody to share with."""
        return (*self.serialize()[0].split("."), json.dumps(self.arguments, sort_keys=True), id(self))

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Return the producer that Airflow asks for events and tells what it has stored."""
        return AcknowledgedStream(cls(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each payload of the stream."""
        self._note_unwatched_asset()
        async for payload in shared_stream:
            yield TriggerEvent(payload)

    async def _open_feed(self, confirm_after: float | None) -> Feed:
        store = await self._resources.enter_async_context(open_store())
        try:
            with contained():
                return self._new_feed(store, confirm_after)
        except Exception as error:
            await self._show(store, error)
            raise

    def _new_feed(self, store: WatermarkStore, confirm_after: float | None) -> Feed:
        if self.fault is not None:
            raise ConfigurationError(self.fault)
        self._source = as_source(self, self.create_source())
        self._resources.push_async_callback(self._source.aclose)
        feed = Feed(
            key=self.asset_watermark.record_key,
            store=store,
            source=self._source,
            settings=self._settings(confirm_after),
            clock=self.clock,
            poll=self._poll,
            commit=self.persist_watermark,
        )
        feed.note = self._unwatched.get(feed.key)
        return feed

    async def _poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        with contained():
            return as_found(self, self._source, await self.get_high_watermark(low, limit, seen))

    async def _show(self, store: WatermarkStore, error: Exception) -> None:
        """Show in the watermark's status, where there is one, what keeps the trigger from running."""
        names = {name: self.arguments[name] for name in ("asset_name", "namespace", "key") if name in self.arguments}
        with suppress(TypeError, IncrementalError):  # no name that could have a watermark, or no store to show it
            await store.report(WatermarkKey(**names), PollReport(error=describe(error), failures=1))

    def _trouble(self) -> Trouble:
        if self._troubles is None:
            self._troubles = Trouble(str(self))
        return self._troubles

    def _settings(self, confirm_after: float | None) -> FeedSettings:
        explicit = self.start not in ("earliest", "latest")
        return FeedSettings(
            start=StartAt(self.start_cursor()) if explicit else self.start,
            limit=self.max_items,
            poll_interval=self.poll_interval,
            announce_interval=self.announce_interval,
            redeliver_after=self.redeliver_after,
            confirm_after=confirm_after,
            consumers=self.consumers,
            retention=self.retention,
            inline_bytes=INLINE_BYTES if self.items_in_events else 0,
        )

    def _note_unwatched_asset(self) -> None:
        """Show in the status when the asset's name was written twice, differently. The producer's feed picks it up."""
        if self.fault is not None:
            return
        key = self.asset_watermark.record_key
        note = unwatched_asset(self, key.asset_name)
        if note is None:
            self._unwatched.pop(key, None)
        else:
            self._unwatched[key] = note
            log.error("%s", note)
