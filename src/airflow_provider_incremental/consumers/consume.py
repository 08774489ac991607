"""``consume``: the loop of a task that processes an asset's batches."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from airflow_provider_incremental.consumers._consumer import LEASE, Consumer
from airflow_provider_incremental.consumers._dead import OnDead
from airflow_provider_incremental.consumers._grouping import Groups
from airflow_provider_incremental.consumers._run import current_run, name_of
from airflow_provider_incremental.consumers._work import ClaimedBatch, Work
from airflow_provider_incremental.core.checks import Seconds, as_count
from airflow_provider_incremental.core.pace import MAX_ATTEMPTS, RETRY_DELAY, Patience
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.wiring.sync import closed_at_exit, store_session

__all__ = ["consume"]


def consume(
    asset: Any,
    *,
    consumer: str | None = None,
    namespace: str | None = None,
    key: str | None = None,
    start: ConsumerStart = "earliest",
    lease: Seconds = LEASE,
    max_batches: int | None = None,
    max_items: int | None = None,
    ordered: bool = False,
    max_attempts: int | None = MAX_ATTEMPTS,
    retry_delay: float = RETRY_DELAY,
    on_dead: OnDead | None = None,
) -> Generator[ClaimedBatch, None, None]:
    """Yield every batch of an asset that this consumer has not finished, oldest first, whichever event came.

    When the loop's body ends, its batch is acknowledged, and never comes again. When the body raises (or leaves the
    loop by ``break`` or ``return`` without ``batch.acknowledge()`` or ``batch.give_back()``), the batch is given back,
    and comes again in a later run or try. A batch that another run of the same consumer holds is left to it.

    :param asset: the asset, or its name.
    :param consumer: who processes; by default the DAG, by its id. Each consumer gets every batch.
    :param namespace: and :param key: only these watermarks of the asset; by default all of them.
    :param start: where a consumer begins that was never seen before: with every batch in the log (``"earliest"``), or
        with those that started its run and later ones (``"latest"``).
    :param lease: seconds after which the batch of a worker that died may be taken by another (default 300).
    :param max_batches: end after so many, and leave the rest to the next run (default: none are left).
    :param max_items: put small batches of one watermark together, up to so many items, and process them as one; they
        are acknowledged or given back together. A bigger batch comes alone, and so does one that failed before: at
        least once, before it is set aside as dead.
    :param ordered: stop at a batch that failed or that another run holds, until it is finished or dead (default: go on
        with the others). The order is that of each watermark.
    :param max_attempts: a batch that failed so often is set aside as dead: kept, listed, and given again by a replay
        (default 20, over about twelve hours; None: never).
    :param retry_delay: seconds before the third attempt, doubled with each further one up to an hour (default 30); the
        second may come at once.
    :param on_dead: called with the :class:`DeadBatch` when one is set aside, to alert somebody; it is logged anyway.
    :raises ConfigurationError: when an argument cannot be used, or when nothing watches the asset that is named and
        the run was started by batches of another.
    :raises WrongStoreError: when the run was started by batches in another store than this worker's.
    :raises StoreError: when the store cannot be reached or is not migrated.
    :raises LeaseLostError: when a batch was processed for longer than its lease could be renewed, and another worker
        took it.

    >>> for batch in consume(orders):  # doctest: +SKIP
    ...     copy_to_warehouse(batch.items)
    """
    for name, value in (("max_batches", max_batches), ("max_items", max_items)):
        if value is not None:
            as_count(name, value)
    selector = Selector(name_of(asset), namespace, key)
    run = current_run(selector.asset_name)
    who = Consumer(
        selector=selector,
        run=run,
        name=run.consumer(consumer),
        start=start,
        lease=lease,
        ordered=ordered,
        patience=Patience(max_attempts=max_attempts, retry_delay=retry_delay),
        on_dead=on_dead,
        together=max_items is not None,
    )
    return closed_at_exit(_batches(who, max_batches, max_items))


def _batches(consumer: Consumer, max_batches: int | None, max_items: int | None) -> Generator[ClaimedBatch, None, None]:
    with store_session() as session, Groups(consumer.open(session), session, max_batches, max_items) as groups:
        for taken in groups:
            work = Work(taken, groups.intake, session, consumer.undertaker)
            # Python closes this generator when the body raises or leaves the loop: not finished, then.
            error: str | None = "the loop's body did not finish"
            try:
                yield work.batch
                error = None
            finally:
                work.end(error)
