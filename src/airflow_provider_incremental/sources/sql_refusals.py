"""Why a selection cannot be polled: what the database says of its columns and keys, each fault with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_columns import TIMESTAMPS, Column, Kind
from airflow_provider_incremental.sources.sql_readers import Shape

__all__ = ["Refusal", "looks_at_transactions", "refusals"]

_WITHOUT_DISTANCE = (Kind.TEXT, Kind.UUID, Kind.BYTES)
_TELLING = ("postgresql", "mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One fault.

    :param about: what is at fault.
    :param message: what, where, and what to do.
    """

    about: Literal["columns", "types", "uniqueness", "visibility"]
    message: str


def looks_at_transactions(selection: SqlSelection, dialect: str) -> bool:
    """Whether a poll follows the open transactions: ``visibility``, or its default for the database."""
    if selection.visibility is None:
        return dialect in _TELLING
    return selection.visibility == "committed"


def refusals(
    selection: SqlSelection, shape: Shape, *, parameter: Literal["cursor", "primary_key"] = "cursor"
) -> Iterator[Refusal]:
    """Yield every fault for which a selection is not polled, the gravest first.

    :param parameter: the one that names the cursor's columns.
    """
    known = {column.name: column for column in shape.columns}
    place = f"{selection} at {shape.place}"
    missing = list(_missing(selection, known, place, parameter))
    yield from missing
    if len(known) < len(shape.columns):
        every = [column.name for column in shape.columns]
        twice = next(name for name in every if every.count(name) > 1)
        msg = f"{place} returns two columns named {twice!r}; give each a name of its own (SELECT ... AS ...)"
        yield Refusal("columns", msg)
    if missing:
        return
    for name in selection.cursor:
        yield from _unorderable(place, known[name], empty=shape.empty)
    first = known[selection.cursor[0]]
    if selection.lateness and first.kind in _WITHOUT_DISTANCE:
        msg = (
            f"lateness={selection.lateness:g} cannot be used: column {first.name} of {place} is {first.kind.value}, "
            "which has no distance to another; leave it out, or let the cursor begin with a time or a number"
        )
        yield Refusal("types", msg)
    if shape.keys is not None and not selection.unique:
        yield from _without_total_order(place, selection, known, shape.keys, parameter)
    if selection.max_hold is not None and first.kind is Kind.XID:
        msg = (
            f"max_hold={selection.max_hold:g} cannot be used: column {first.name} of {place} is xid8, and a poll below "
            "the server's oldest transaction passes none; leave max_hold out, and end transactions that hang "
            "(idle_in_transaction_session_timeout)"
        )
        yield Refusal("visibility", msg)
    if looks_at_transactions(selection, shape.dialect):
        yield from _blind(place, first, shape)


def _missing(selection: SqlSelection, known: dict[str, Column], place: str, parameter: str) -> Iterator[Refusal]:
    # The columns of a key are its own.
    columns = () if parameter == "primary_key" else selection.columns or ()
    for given, names in ((parameter, selection.cursor), ("columns", columns)):
        for name in names:
            if name not in known:
                msg = f"{given}={list(names)!r}: {place} has no column {name!r}; it has {', '.join(known)}"
                yield Refusal("columns", msg)


def _unorderable(place: str, column: Column, *, empty: bool) -> Iterator[Refusal]:
    if column.disorder is not None:
        msg = f"{place}: column {column.name} is {column.type_name}, which cannot serve in a cursor: {column.disorder}"
        yield Refusal("types", msg)
    elif column.kind is None and not empty:
        msg = (
            f"{place}: column {column.name} is {column.type_name}, which cannot serve in a cursor; take a column of "
            "numbers, texts, dates, timestamps, UUIDs or bytes, or watch a query that converts it"
        )
        yield Refusal("types", msg)


def _without_total_order(
    place: str, selection: SqlSelection, known: dict[str, Column], keys: Sequence[frozenset[str]], parameter: str
) -> Iterator[Refusal]:
    inside = [key for key in keys if key <= set(selection.cursor)]
    if _whole(inside, known):
        return
    cursor = list(selection.cursor)
    offered = [sorted(key) for key in _whole(keys, known)]
    if parameter == "primary_key":
        give = f"give primary_key={offered[0]!r}" if offered else "add a primary key or a unique index"
        msg = (
            f"primary_key={cursor!r} does not tell the rows of {place} apart: no primary key and no unique index "
            f"without NULL lies within these columns; {give}"
        )
        yield Refusal("uniqueness", msg)
        return
    if inside:
        name = next(name for key in inside for name in sorted(key) if known[name].nullable)
        problem = f"its unique column {name!r} may be NULL, and rows with NULL are not in order; declare it NOT NULL"
    else:
        problem = "no primary key and no unique index lies within these columns, so that two rows could share a place"
        add = f"add the column(s) {offered[0]} at the end" if offered else "add a primary key or a unique index"
        problem += f" and a limit would lose one; {add}"
    msg = f"cursor={cursor!r} gives {place} no total order: {problem}, or give unique=True if no two rows agree in it"
    yield Refusal("uniqueness", msg)


def _blind(place: str, first: Column, shape: Shape) -> Iterator[Refusal]:
    """A row that commits late would be missed here, whatever is looked at."""
    if shape.dialect not in _TELLING:
        msg = (
            f"visibility='committed' cannot be used: {place} does not say which transactions are open; leave it out, "
            "and give a settle that is longer than any transaction, or lateness"
        )
        yield Refusal("visibility", msg)
    elif shape.blind is not None:
        msg = (
            f"{place}: {shape.blind}, so that a row that commits late would be missed; give visibility='none' with a "
            "settle that is longer than any delay, or lateness"
        )
        yield Refusal("visibility", msg)
    elif first.ahead > 1 and first.kind not in TIMESTAMPS:
        msg = (
            f"{place}: the sequence of column {first.name} hands out {first.ahead} numbers at once, and a session may "
            "use one of them in a later transaction, behind greater ones that were read. Run ALTER SEQUENCE ... CACHE "
            "1; or give visibility='none', which misses such rows"
        )
        yield Refusal("visibility", msg)


def _whole(keys: Sequence[frozenset[str]], known: dict[str, Column]) -> list[frozenset[str]]:
    """Return the keys without a column that may be NULL: to a key, no NULL equals another."""
    return [key for key in keys if not any(known[name].nullable for name in key)]
