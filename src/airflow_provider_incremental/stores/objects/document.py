"""What the object of one watermark holds: its record, and the names of the objects that hold the rest."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from airflow_provider_incremental.core.upkeep import Act, JournalEntry
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores import _changes
from airflow_provider_incremental.stores._memory_state import Logged, Record

__all__ = [
    "Document",
    "Located",
    "MemoryPlace",
    "Page",
    "apart",
    "asset_folder",
    "document_name",
    "folder_of",
    "located",
    "new_token",
]

T = TypeVar("T")

_MANY = 1000
TOKENS = 100
"""Of the last writes, kept in the object: who did not hear what became of a write finds its token there."""


@dataclass(slots=True)
class Located(Logged):
    """A batch whose items and fingerprints are in a segment: there they stand one after the other.

    :param segment: its name in the watermark's folder; None where there is nothing to keep.
    :param marks: how many fingerprints there are.
    """

    segment: str | None = None
    offset: int = 0
    marks: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """An object with batches that nobody waits for; only its name and its edges are in the document."""

    name: str
    first: int
    last: int
    count: int
    oldest: dt.datetime


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where the source's memory is: an object that begins with an index of so many bytes."""

    name: str
    index_size: int


@dataclass(slots=True)
class Document:
    """The object of a watermark. Without a record, the watermark was forgotten and only its journal is left.

    :param generation: names the folder of everything that the record needs; another one after it was forgotten.
    :param trash: objects in the folder that no reader needs who reads this document.
    :param left: generations that were forgotten, and when, as long as their folders may have something in them.
    :param draft: what came until now of a watermark that moves in, in so many pages; nobody sees it.
    :param entries: the newest of the journal; older ones are in the object ``entries_before``, and so on.
    """

    key: WatermarkKey
    generation: str = ""
    record: Record | None = None
    pages: list[Page] = field(default_factory=list)
    memory: MemoryPlace | None = None
    trash: list[str] = field(default_factory=list)
    left: dict[str, dt.datetime] = field(default_factory=dict)
    entries: list[JournalEntry] = field(default_factory=list)
    entries_before: str | None = None
    swept_at: dt.datetime | None = None
    draft: Document | None = None
    draft_pages: int = 0
    tokens: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """Where the objects are that the record needs."""
        return folder_of(self.key.id, self.generation)

    def made(self, now: dt.datetime) -> Record:
        """Return the record, a new one if there is none."""
        if self.record is None:
            self.drop_draft(now)
            self.record, self.generation = _changes.new_record(self.key, now), new_token()
        return self.record

    def note(self, operation: str, detail: str, act: Act | None, now: dt.datetime) -> None:
        """Put an act into the journal."""
        if act is not None:
            self.entries.append(
                JournalEntry(at=now, key=self.key, operation=operation, detail=detail, who=act.who, why=act.why)
            )

    def drop_draft(self, now: dt.datetime) -> None:
        """Forget what came of a watermark that does not move in after all."""
        if self.draft is not None:
            self.left[self.draft.generation] = now
        self.draft, self.draft_pages = None, 0

    def forget(self, now: dt.datetime) -> None:
        """Leave the journal, and nothing else."""
        self.left[self.generation] = now
        self.record, self.generation, self.memory, self.swept_at = None, "", None, None
        self.pages, self.trash = [], []


async def apart(record: Record, work: Callable[..., T], *given: Any, **named: Any) -> T:
    """Do what looks at every batch of a record: in a thread when they are many, so that the event loop goes on."""
    many = len(record.log) > _MANY
    return await asyncio.to_thread(work, *given, **named) if many else work(*given, **named)


def located(logged: Logged) -> Located:
    """Return a batch of a document as what it is there."""
    return cast(Located, logged)


def document_name(key: WatermarkKey) -> str:
    """Return the name of a watermark's object: those of one asset are in one folder."""
    return f"{asset_folder(key.asset_name)}{key.id}"


def asset_folder(asset_name: str) -> str:
    """Return the folder of an asset's watermarks."""
    return f"watermarks/{hashlib.sha256(asset_name.encode()).hexdigest()[:32]}/"


def folder_of(key_id: str, generation: str) -> str:
    """Return the folder of what a record needs."""
    return f"data/{key_id}/{generation}/"


def new_token() -> str:
    """Return a text that nobody else has, short enough to be kept a hundred times."""
    return secrets.token_urlsafe(9)
