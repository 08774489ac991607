"""``consume``: the loop of a task that processes an asset's batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_incremental.consumers._run import Run, current_run, name_of
from airflow_provider_incremental.consumers._work import ClaimedBatch, Work
from airflow_provider_incremental.core.clock import SystemClock
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.intake import Intake
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.wiring.sync import StoreSession, store_session

__all__ = ["LEASE", "Consumer", "consume"]

LEASE = 300.0
"""Seconds after which the batch of a worker that died can be taken by another; a living one renews it."""


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """Who processes which watermarks in which run."""

    selector: Selector
    run: Run
    name: str
    start: ConsumerStart = "earliest"
    lease: float = LEASE

    def open(self, session: StoreSession) -> Intake:
        """Return the intake, after the store was found to be the right one and to know the consumer."""
        self.run.require_store(session.run(session.store.identity()))
        session.run(session.store.subscribe(self.selector, self.name, self.start, self.run.batch_ids))
        return Intake(
            store=session.store,
            selector=self.selector,
            consumer=self.name,
            holder=self.run.holder,
            lease=self.lease,
            clock=SystemClock(),
        )


def consume(
    asset: Any,
    *,
    consumer: str | None = None,
    namespace: str | None = None,
    key: str | None = None,
    start: ConsumerStart = "earliest",
    lease: float = LEASE,
    max_batches: int | None = None,
) -> Iterator[ClaimedBatch]:
    """Yield every batch of an asset that this consumer has not acknowledged, oldest first, whichever event came.

    When the loop's body ends, its batch is acknowledged, and never comes again. When the body raises (or leaves the
    loop by ``break`` or ``return`` without ``batch.acknowledge()``), the batch is given back, and comes again in the
    next run or try. A batch that another run of the same consumer holds at the time is left to it.

    :param asset: the asset, or its name.
    :param consumer: who processes; by default the DAG, by its id. Each consumer gets every batch.
    :param namespace: and :param key: only these watermarks of the asset; by default all of them.
    :param start: where a consumer begins that was never seen before: with every batch in the log (``"earliest"``), or
        with those that started its run and later ones (``"latest"``).
    :param lease: seconds after which the batch of a worker that died may be taken by another (default 300).
    :param max_batches: end after so many, and leave the rest to the next run (default: none are left).
    :raises ConfigurationError: when an argument cannot be used.
    :raises WrongStoreError: when the run was started by batches in another store than this worker's.
    :raises StoreError: when the store cannot be reached or is not migrated.
    :raises LeaseLostError: when a batch was processed for longer than its lease could be renewed, and another worker
        took it.

    >>> for batch in consume(orders):  # doctest: +SKIP
    ...     copy_to_warehouse(batch.items)
    """
    if start not in ("earliest", "latest"):
        raise ConfigurationError(f'start={start!r} is not where a consumer can begin; give "earliest" or "latest"')
    if not lease > 0:
        raise ConfigurationError(f"lease={lease!r} is not a length of time; give seconds above 0")
    if max_batches is not None and max_batches < 1:
        raise ConfigurationError(f"max_batches={max_batches!r} is not a number of batches; give 1 or more, or None")
    selector = Selector(name_of(asset), namespace, key)
    run = current_run(selector.asset_name)
    who = Consumer(selector=selector, run=run, name=run.consumer(consumer), start=start, lease=lease)
    return _batches(who, max_batches)


def _batches(consumer: Consumer, max_batches: int | None) -> Iterator[ClaimedBatch]:
    with store_session() as session:
        intake = consumer.open(session)
        number = 0
        while number != max_batches:
            taken = session.run(intake.claim())
            if taken is None:
                return
            number += 1
            work = Work(taken, intake, session)
            finished = False
            try:
                yield work.batch
                finished = True
            finally:
                # Python closes this generator when the body raises or leaves the loop: not finished, then.
                work.acknowledge() if finished else work.give_back("the loop's body did not finish")
