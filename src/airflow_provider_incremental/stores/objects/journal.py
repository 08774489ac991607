"""The journal of a watermark: its newest entries are in the document, older ones in a chain of immutable objects."""

from __future__ import annotations

import json

from airflow_provider_incremental.core.upkeep import JournalEntry
from airflow_provider_incremental.stores.objects.bucket import Bucket
from airflow_provider_incremental.stores.objects.codec import packed, read_entries, unpacked, write_entries
from airflow_provider_incremental.stores.objects.document import Document, new_token

__all__ = ["Journal"]

_IN_DOCUMENT = 20


class Journal:
    """The journals of a bucket."""

    def __init__(self, *, bucket: Bucket) -> None:
        self._bucket = bucket

    async def shorten(self, document: Document) -> bool:
        """Move entries out of a document that has many; whether it had."""
        if len(document.entries) <= _IN_DOCUMENT:
            return False
        name = f"journal/{document.key.id}/{new_token()}"
        text = json.dumps([document.entries_before, write_entries(document.entries)])
        await self._bucket.create(name, packed(text))
        document.entries, document.entries_before = [], name
        return True

    async def newest(self, document: Document, limit: int) -> list[JournalEntry]:
        """Return entries, newest first."""
        found, before = list(reversed(document.entries)), document.entries_before
        while before is not None and len(found) < limit:
            before, rows = json.loads(unpacked(await self._bucket.read_whole(before)))
            found += reversed(read_entries(document.key, rows))
        return found[:limit]
