"""What a task has in its hands: one batch, or several that are processed as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_provider_incremental.consumers._dead import Undertaker
from airflow_provider_incremental.consumers._rows import range_of
from airflow_provider_incremental.core.batch import BatchKind, Claim
from airflow_provider_incremental.core.errors import LeaseLostError
from airflow_provider_incremental.core.intake import Intake, Taken
from airflow_provider_incremental.core.watermark import Cursor, WatermarkKey
from airflow_provider_incremental.sources.sql_range import ParamStyle, RangeCondition, RowRange
from airflow_provider_incremental.wiring.sync import StoreSession

__all__ = ["ClaimedBatch", "Work"]


class ClaimedBatch:
    """One slice ``(low, high]`` of a source, claimed by this task; its lease is renewed as long as the task works.

    :ivar id: the batch's id, the same whenever it is delivered: what to deduplicate by in a system of your own.
    :ivar ids: the ids of all batches that ``consume(max_items=...)`` put together here; otherwise the one.
    :ivar seq: its number in the watermark's log; of several the first.
    :ivar low: and :ivar high: the cursors between which it was found.
    :ivar items: what was found. For S3 a dictionary an object, for SQL a dictionary a row (empty for
        ``payload="range"``), with the types that the source has.
    :ivar count: how many items the slice holds.
    :ivar kind: ``"added"`` or ``"removed"``.
    :ivar attempt: 1 the first time that this consumer has it.
    :ivar watermark: the key of the watermark that it belongs to.
    """

    def __init__(
        self,
        claims: Sequence[Claim],
        *,
        acknowledge: Callable[[], None],
        give_back: Callable[[], None],
        rows: Callable[[], RowRange],
    ) -> None:
        first, last = claims[0], claims[-1]
        self.id: str = first.batch.id
        self.ids: tuple[str, ...] = tuple(claim.batch.id for claim in claims)
        self.seq: int = first.batch.seq
        self.low: Cursor = first.batch.low
        self.high: Cursor = last.batch.high
        self.items: list[Any] = [item for claim in claims for item in claim.batch.items or ()]
        self.count: int = sum(claim.batch.count for claim in claims)
        self.kind: BatchKind = first.batch.kind
        self.attempt: int = max(claim.attempt for claim in claims)
        self.watermark: WatermarkKey = first.batch.key
        self._acknowledge = acknowledge
        self._give_back = give_back
        self._rows = rows

    def __repr__(self) -> str:
        """Return a line that tells the batch from others."""
        return f"<batch {self.seq} of {self.watermark}: {self.count} {self.kind}, id {self.id}>"

    def acknowledge(self) -> None:
        """Say that the batch is finished. Needed only to leave the loop early: its end does it. Twice is once.

        When the store does not answer, the batch stays yours: call it again, or go on, and the body's end does.

        :raises LeaseLostError: when the lease ran out and another worker took the batch.
        """
        self._acknowledge()

    def give_back(self) -> None:
        """Say that the batch was not processed, and that nothing is wrong with it: it comes again, no attempt counts.

        Not in this loop: that goes on with the others, or ends when it is ``ordered``.
        Leaving the loop by ``break`` gives it back as well, but counts as an attempt that failed.
        """
        self._give_back()

    def where(
        self, paramstyle: ParamStyle = "pyformat", *, alias: str | None = None, dialect: str | None = None
    ) -> RangeCondition:
        """Return the condition of the batch's rows for a query of your own, and its parameters. SQL sources only.

        A ``where=`` of the trigger, and any condition within its ``sql``, is not part of it: repeat it in the query, or
        rows come that are not of the batch.

        What a query with it finds is what is there when it runs: of rows that were changed since the batch was found,
        those whose cursor has moved on are not in it any more, and come with a later batch.

        :param paramstyle: how the driver writes parameters: ``"pyformat"`` and ``"format"`` (psycopg, MySQL's),
            ``"qmark"`` (SQLite, ODBC), ``"named"`` (SQLAlchemy's text, Oracle), ``"numeric"``, ``"dollar"`` (asyncpg).
        :param alias: what the table is called in your query.
        :param dialect: whose quotes names get that need some, such as ``"mysql"``; by default the watched database's,
            as soon as its trigger has recorded it.
        :raises ConfigurationError: when the batch is not one of rows, was found before the watermark was let watch
            another source or cursor, no condition finds exactly its rows (those that are gone or came late, or of a
            watermark with ``lateness`` or ``deleted_column``), or an argument cannot be used.

        >>> condition, parameters = batch.where()  # doctest: +SKIP
        >>> hook.get_records(f"SELECT * FROM orders WHERE {condition}", parameters=parameters)  # doctest: +SKIP
        """
        return self._rows().condition(paramstyle, alias=alias, dialect=dialect)

    def where_clause(self, table: Any = None) -> Any:
        """Return the same condition for SQLAlchemy: ``select(orders).where(batch.where_clause(orders))``.

        :param table: the table, alias or subquery whose columns are meant; by default columns without a table.
        :raises ConfigurationError: when the batch is not one of rows, or no condition finds exactly them.
        """
        return self._rows().clause(table)


class Work:
    """Batches that this task has taken, until they are acknowledged or given back, whichever comes first.

    What the store did not answer is kept, with its lease, and can be said again; :meth:`end` says it once more.
    """

    def __init__(self, taken: Sequence[Taken], intake: Intake, session: StoreSession, undertaker: Undertaker) -> None:
        claims = [each.claim for each in taken]
        self.batch = ClaimedBatch(claims, acknowledge=self.acknowledge, give_back=self.give_back, rows=self._rows)
        self._batches = [claim.batch for claim in claims]
        self._taken = list(taken)
        self._intake = intake
        self._session = session
        self._undertaker = undertaker
        self._said: Callable[[], None] | None = None

    def acknowledge(self) -> None:
        """The batches are finished.

        :raises LeaseLostError: when the lease of one ran out and another worker took it; the others are acknowledged.
        """
        self._said = self.acknowledge
        lost: LeaseLostError | None = None
        while self._taken:
            try:
                self._session.run(self._intake.acknowledge(self._taken[0]))
            except LeaseLostError as error:
                lost = error
            del self._taken[0]
        if lost is not None:
            raise lost

    def give_back(self, error: str | None = None) -> None:
        """The batches are not finished, and come again; nothing happens to those that were acknowledged."""
        self._said = self.give_back
        alone = len(self.batch.ids) == 1
        while self._taken:
            dead = self._session.run(self._intake.give_back(self._taken[0], error, alone=alone))
            del self._taken[0]
            if dead is not None:
                self._undertaker.tell(dead)

    def end(self, error: str | None = None) -> None:
        """Do what the body said last and the store did not answer; else acknowledge, or give back what failed.

        What cannot be said now either is free for others when its lease ends.

        :param error: why the body did not finish; None when it did.
        """
        try:
            if self._said is not None:
                self._said()
            elif error is None:
                self.acknowledge()
            else:
                self.give_back(error)
        finally:
            for left in self._taken:
                self._session.run(self._intake.abandon(left))

    def _rows(self) -> RowRange:
        return range_of(self._session, self._batches)
