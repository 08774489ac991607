"""``pending_batches``: what waits for a consumer, as plain JSON for dynamic task mapping."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow_provider_incremental.consumers._consumer import LEASE, Consumer
from airflow_provider_incremental.consumers._dead import OnDead
from airflow_provider_incremental.consumers._run import current_run, name_of
from airflow_provider_incremental.consumers._work import ClaimedBatch, Work
from airflow_provider_incremental.core.checks import Seconds
from airflow_provider_incremental.core.errors import BatchHeldError, ConfigurationError
from airflow_provider_incremental.core.pace import MAX_ATTEMPTS, RETRY_DELAY, Patience
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.core.values import Json, decode, encode
from airflow_provider_incremental.core.watermark import Cursor, WatermarkKey
from airflow_provider_incremental.wiring.airflow import AirflowSkipException
from airflow_provider_incremental.wiring.sync import StoreSession, store_session

__all__ = ["PendingBatch", "pending_batches"]


def pending_batches(
    asset: Any,
    *,
    consumer: str | None = None,
    namespace: str | None = None,
    key: str | None = None,
    start: ConsumerStart = "earliest",
    limit: int = 1000,
) -> list[dict[str, Json]]:
    """Return the batches that a consumer could take now, oldest first, for ``expand()``.

    Plain JSON, a few hundred bytes each, without items. Nothing is claimed: each mapped task does that with
    ``PendingBatch.from_json(batch).processing()``.

    :param asset: and the others: as for :func:`consume`.
    :param limit: at most so many (default 1,000, as many as Airflow maps by default).
    :raises WrongStoreError: when the run was started by batches in another store than this worker's.
    """
    selector = Selector(name_of(asset), namespace, key)
    run = current_run(selector.asset_name)
    name = run.consumer(consumer)
    with store_session() as session:
        Consumer(selector=selector, run=run, name=name, start=start).open(session)
        batches = session.run(session.store.pending(selector, name, limit, free=True))
    return [
        {
            "asset": batch.key.asset_name,
            "namespace": batch.key.namespace,
            "key": batch.key.key,
            "consumer": name,
            "id": batch.id,
            "seq": batch.seq,
            "low": encode(batch.low),
            "high": encode(batch.high),
            "count": batch.count,
            "kind": batch.kind,
        }
        for batch in batches
    ]


@dataclass(frozen=True, kw_only=True)
class PendingBatch:
    """A batch that waits, as :func:`pending_batches` described it."""

    asset: str
    namespace: str
    key: str
    consumer: str
    id: str
    seq: int
    low: Cursor
    high: Cursor
    count: int
    kind: str

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> PendingBatch:
        """Return the batch that an entry of :func:`pending_batches` describes.

        :raises ConfigurationError: when the entry is something else.
        """
        try:
            known = {name: form[name] for name in cls.__dataclass_fields__}
        except (KeyError, TypeError) as error:
            raise ConfigurationError(f"{form!r:.200} is not an entry of pending_batches(...)") from error
        return cls(**{**known, "low": decode(form["low"]), "high": decode(form["high"])})

    @contextmanager
    def processing(
        self,
        *,
        lease: Seconds = LEASE,
        max_attempts: int | None = MAX_ATTEMPTS,
        retry_delay: float = RETRY_DELAY,
        on_dead: OnDead | None = None,
    ) -> Generator[ClaimedBatch, None, None]:
        """Claim the batch for the block, acknowledge it at its end, give it back when the block raises.

        :param lease: and the others: as for :func:`consume`.
        :raises AirflowSkipException: when the batch was processed already, or is not in the log any more: the task is
            skipped.
        :raises BatchHeldError: when another worker holds it, or it waits to be tried again; let the task be retried.

        >>> @task  # doctest: +SKIP
        ... def load(batch):
        ...     with PendingBatch.from_json(batch).processing() as claimed:
        ...         copy_to_warehouse(claimed.items)
        """
        selector = Selector(self.asset, self.namespace, self.key)
        run = current_run(self.asset)
        with store_session() as session:
            who = Consumer(
                selector=selector,
                run=run,
                name=self.consumer,
                lease=lease,
                patience=Patience(max_attempts=max_attempts, retry_delay=retry_delay),
                on_dead=on_dead,
            )
            intake = who.open(session)
            taken = session.run(intake.claim(self.id))
            if taken is None:
                raise self._not_available(session, selector)
            work = Work([taken], intake, session, who.undertaker)
            try:
                yield work.batch
            except BaseException as error:
                work.end(describe(error))
                raise
            work.end()

    def _not_available(self, session: StoreSession, selector: Selector) -> Exception:
        if session.run(session.store.acknowledged(selector, self.consumer, self.id)):
            return AirflowSkipException(f"batch {self.seq} of {self.asset} was processed by {self.consumer} already")
        if why := self._never_to_come(session, selector):
            return AirflowSkipException(f"batch {self.seq} of {self.asset} {why}: there is nothing to process")
        return BatchHeldError(
            f"batch {self.seq} of {self.asset} is held by another worker of {self.consumer}, waits to be tried again, "
            "or is dead. It is free when its holder gives it back or its lease runs out, when its delay ends, or when "
            "it is replayed. Let the task be retried (retries=..., retry_delay=...)"
        )

    def _never_to_come(self, session: StoreSession, selector: Selector) -> str | None:
        """Return why nobody is given this batch any more; None while it may come."""
        key = WatermarkKey(self.asset, self.namespace, self.key)
        there = session.run(session.store.history(key, self.seq + 1, 1))
        if not any(batch.id == self.id for batch in there):
            return "is not in the log any more: its time was over, or its watermark was forgotten"
        for known in session.run(session.store.consumers(selector)):
            if known.key == key and known.consumer == self.consumer and self.seq <= known.start_seq:
                return f"is not for {self.consumer}, since {self.consumer} began after it"
        return None
