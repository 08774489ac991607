"""What a SQL source records of itself in its memory, for those who make queries of its batches' bounds elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_incremental.core.source import NOTHING, Memory, Pieces
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.sources.sql_columns import Column

__all__ = ["LATENESS", "SHAPE", "Recorded", "Recorder", "recorded_in"]

LATENESS = "lateness"
"""The piece that is there since a watermark has had lateness for the first time."""

SHAPE = "rows/shape"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is known of the rows behind a watermark.

    :param dialect: SQLAlchemy's name of the database's; None when nothing was recorded yet.
    :param kinds: the names of the cursor columns' kinds.
    :param parted: whether rows came in batches of their own because a column marks them as deleted.
    :param late: whether rows came, or could come, behind the watermark.
    """

    dialect: str | None = None
    kinds: tuple[str, ...] = ()
    parted: bool = False
    late: bool = False


class Recorder:
    """Records the database's dialect, the cursor's kinds, and whether a column parts the rows, with rows that came."""

    def __init__(self) -> None:
        self._kept: bytes | None = None
        self._parted = False

    async def pieces(self, memory: Memory, dialect: str, cursor: Sequence[Column], *, parted: bool) -> Pieces:
        """Return what to remember beside rows that were found; nothing once the memory has it.

        :param parted: whether some of these rows are marked as deleted; of a watermark, that stays so.
        """
        self._parted = self._parted or parted
        if self._kept == self._written(dialect, cursor):
            return NOTHING
        kept = dict(await memory.read(prefix=SHAPE, limit=1))
        self._parted = self._parted or recorded_in(kept.items()).parted
        self._kept = kept.get(SHAPE)
        written = self._written(dialect, cursor)
        return NOTHING if self._kept == written else {SHAPE: written}

    def _written(self, dialect: str, cursor: Sequence[Column]) -> bytes:
        kinds = [column.kind.name if column.kind else "" for column in cursor]
        return dumps({"dialect": dialect, "kinds": kinds, "parted": self._parted}).encode()


def recorded_in(pieces: Iterable[tuple[str, bytes]]) -> Recorded:
    """Return what pieces of a memory record; a piece in a form that is not known records nothing."""
    kept = dict(pieces)
    shape = _shape(kept.get(SHAPE, b""))
    dialect, kinds = shape.get("dialect"), shape.get("kinds")
    return Recorded(
        dialect=dialect if isinstance(dialect, str) else None,
        kinds=tuple(map(str, kinds)) if isinstance(kinds, list) else (),
        parted=shape.get("parted") is True,
        late=LATENESS in kept,
    )


def _shape(piece: bytes) -> dict[str, Any]:
    try:
        shape = loads(piece.decode())
    except (TypeError, ValueError):
        return {}
    return shape if isinstance(shape, dict) else {}
