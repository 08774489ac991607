"""What all operations of the object store are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores._memory_state import Record
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.bucket import Bucket, ClientFactory
from airflow_provider_incremental.stores.objects.document import Document
from airflow_provider_incremental.stores.objects.documents import Documents
from airflow_provider_incremental.stores.objects.founding import Founding
from airflow_provider_incremental.stores.objects.journal import Journal
from airflow_provider_incremental.stores.objects.pages import PAGE, Pages
from airflow_provider_incremental.stores.objects.pieces import Memories
from airflow_provider_incremental.stores.objects.segments import Segments
from airflow_provider_incremental.stores.objects.server_clock import ServerClock

__all__ = ["Parts", "records_of"]

T = TypeVar("T")


class Parts:
    """A bucket, and what is kept in it.

    :param address: where the store is.
    :param client: gives the client; called in the event loop that uses it.
    :param clock: what time it is; by default the object storage's own.
    :param page: batches of a page.
    """

    def __init__(
        self, *, address: ObjectAddress, client: ClientFactory, clock: Clock | None = None, page: int = PAGE
    ) -> None:
        self._clock = ServerClock(clock)
        self.bucket = Bucket(address=address, client=client, clock=self._clock)
        self._founding = Founding(bucket=self.bucket)
        self._segments = Segments(bucket=self.bucket)
        self._memories = Memories(bucket=self.bucket)
        self._pages = Pages(bucket=self.bucket, size=page)
        self._journal = Journal(bucket=self.bucket)
        self._documents = Documents(bucket=self.bucket, clock=self._clock, finish=self._finish)

    def __repr__(self) -> str:
        """Name the place."""
        return f"<ObjectStore {self.bucket.address}>"

    async def _change(self, key: WatermarkKey, change: Callable[[Document], Awaitable[T]]) -> T:
        await self._founding.require_conditions()
        return await self._documents.change(key, change)

    async def _finish(self, document: Document) -> bool:
        frozen = await self._pages.freeze(document)
        return await self._journal.shorten(document) or frozen

    async def _there(self, selector: Selector | None) -> list[Document]:
        """Return the documents of watermarks that were not forgotten, for a list."""
        return [each for each in await self._documents.selected(selector, lenient=True) if each.record]

    async def _empty_trash(self, document: Document) -> None:
        """Delete what no reader needs who has read this document, or a later one."""
        if document.trash:
            await self.bucket.delete([document.folder + name for name in document.trash])
            document.trash = []


def records_of(documents: list[Document]) -> list[Record]:
    """Return the records of documents."""
    return [each.record for each in documents if each.record]
