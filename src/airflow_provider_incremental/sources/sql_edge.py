"""The upper edge of a poll where it follows the open transactions: looked for, waited for shortly, and told of.

What is true at every ``await``: an edge that was found holds for every statement that begins later. A failed look makes
everything that was known of the transactions void, which delays rows and loses none.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.sources import sql_visibility_mysql as mysql
from airflow_provider_incremental.sources import sql_visibility_postgres as postgres
from airflow_provider_incremental.sources.sql_keyset import Statement, edge_parameters, low_parameters
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import STALE, SqlReader
from airflow_provider_incremental.sources.sql_visibility import Edge, Horizon, Look

__all__ = ["UpperEdge", "held"]

log = logging.getLogger(__name__)

_SHORTEST_WAIT = 0.01
_LONGEST_WAIT = 0.2
_UNSURE = 10  # looks
_MOST_DOUBLINGS = 4
_RANDOM = random.SystemRandom()


def held(edge: Edge) -> str:
    """Return what people are told of an edge that a transaction holds back."""
    if edge.holder is None:
        raise AssertionError
    began = edge.now - dt.timedelta(seconds=edge.holder.age)
    return (
        f"held back by {edge.holder.who} since {began.isoformat(sep=' ', timespec='seconds')}: rows wait until it "
        "ends; end it, or say with max_hold when to go on without waiting"
    )


class UpperEdge:
    """Finds out up to where every row of a selection is there.

    :param clock: what short transactions are waited by.
    :param risks: how many transactions were not waited for before.
    """

    def __init__(self, *, reader: SqlReader, plan: Plan, clock: Clock, risks: int = 0) -> None:
        self._reader = reader
        self._plan = plan
        self._clock = clock
        self._by_value = plan.edge_form == "instant"
        self._horizon = Horizon(by_value=self._by_value, max_hold=plan.selection.max_hold)
        self._on_postgres = plan.shape.dialect == "postgresql"
        self._probes: dict[int, Statement] = {}
        self._passed: set[str] = set()
        self.risks = risks
        self.note: str | None = None

    async def find(self, position: Sequence[Any]) -> Edge | None:
        """Return the edge above a position; None when no row lies above it.

        :raises SourceError: when the open transactions cannot be told.
        """
        try:
            edge = await self._found(position)
        except BaseException:
            self._horizon.forget()
            raise
        self.note = self._told(edge)
        return edge

    def parameters(self, edge: Edge) -> dict[str, Any] | None:
        """Return the parameters of a statement that reads up to an edge; None where nothing is complete yet."""
        if edge.value is None:
            return None
        return edge_parameters((edge.value,) if self._by_value else edge.value)

    async def check(self) -> None:
        """Find out whether the open transactions can be told at all.

        :raises SourceError: saying why not, and what to grant or to give instead.
        """
        if self._on_postgres:
            postgres.check(self._plan, await self._reader.fetch(postgres.facts(), {}))
        else:
            await mysql.fresh_look(self._reader, self._plan, (None,))

    async def _found(self, position: Sequence[Any]) -> Edge | None:
        edge = await self._seen(position)
        if edge is None or edge.holder is None or self._knows_starts:
            return edge
        # Most transactions are shorter than anybody wants to wait: look again instead of at the next poll.
        target, wait, patience = edge.mark, _SHORTEST_WAIT, self._plan.settle
        until = self._clock.monotonic() + patience
        while edge is not None and not edge.reaches(target) and self._is_short(edge, patience):
            if self._clock.monotonic() >= until:
                break
            await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
            edge = await self._seen(position)
        return edge

    @property
    def _knows_starts(self) -> bool:
        return self._by_value and self._on_postgres

    def _is_short(self, edge: Edge, patience: float) -> bool:
        return edge.holder is not None and edge.holder.age <= patience

    async def _seen(self, position: Sequence[Any]) -> Edge | None:
        statement = self._probes.get(len(position))
        if statement is None:
            probe_of = postgres.look_above if self._on_postgres else mysql.probe_of
            statement = self._probes[len(position)] = probe_of(self._plan, len(position))
        rows = await self._fetch(statement, position)
        if not rows:
            return None
        if not self._by_value:
            self._plan.check_found(rows[0][: len(self._plan.cursor)])
        if self._on_postgres:
            return self._horizon.look(postgres.look_from(self._plan, rows))
        return self._horizon.look(await self._mysql(rows[0]))

    async def _mysql(self, probe: Sequence[Any]) -> Look:
        for attempt in range(_UNSURE):
            look = await mysql.fresh_look(self._reader, self._plan, probe)
            if look is not None:
                return look
            # Each look, also one in vain, keeps the answer for all: who waits at random, and longer, gets out of step.
            await self._clock.sleep(STALE * (1 + _RANDOM.random() * 2 ** min(attempt, _MOST_DOUBLINGS)))
        msg = (
            f"{self._plan.where}: information_schema.innodb_trx gives an answer that it had kept, since somebody reads "
            "it more often than ten times a second; nothing was read. Look for a monitor that does"
        )
        raise ConnectionError(msg)

    async def _fetch(self, statement: Statement, position: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return await self._reader.fetch(statement, {**self._plan.selection.values_to_bind, **low_parameters(position)})

    def _told(self, edge: Edge | None) -> str | None:
        notes = []
        passed = () if edge is None else edge.passed
        if edge is not None and edge.holder is not None and edge.holder.age > self._plan.settle:
            notes.append(held(edge))
        if edge is not None:
            new = {each.id: self._risk(each.who) for each in passed if each.id not in self._passed}
            for risk in new.values():
                log.warning("%s: %s", self._plan.where, risk)
            self.risks += len(new)
            self._passed = {each.id for each in passed}
        if passed:
            notes.append(self._risk(passed[0].who))
        if self.risks:
            notes.append(f"risks taken by max_hold so far: {self.risks}")
        return "; ".join(notes) or None

    def _risk(self, who: str) -> str:
        seconds = self._plan.selection.max_hold
        return f"not waiting for {who}, open for longer than max_hold={seconds:g} s: a row of it may be missed"
