"""``IncrementalBatchSensor``: the batches that wait for a consumer, for a DAG that runs by time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_incremental.consumers._run import current_run, name_of
from airflow_provider_incremental.consumers.pending import pending_batches
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.store import ConsumerStart
from airflow_provider_incremental.core.values import Json
from airflow_provider_incremental.sensors.waiting import PendingBatchTrigger
from airflow_provider_incremental.wiring.airflow import BaseSensorOperator, PokeReturnValue, deferrable_by_default

__all__ = ["IncrementalBatchSensor"]


class IncrementalBatchSensor(BaseSensorOperator):
    """Waits until batches of an asset wait for a consumer that it could claim now, and returns them.

    It returns what :func:`pending_batches` returns, for ``expand()``; ``consume()`` in a later task works as well. It
    claims nothing: the same batches are returned to whoever asks before they are claimed.

    :param asset: the asset, or its name.
    :param consumer: who processes; by default the DAG, by its id.
    :param namespace: and :param key: only these watermarks of the asset; by default all of them.
    :param start: where a consumer begins that was never seen before: ``"earliest"`` (the default) or ``"latest"``.
    :param limit: at most so many batches (default 1,000).
    :param deferrable: wait in the triggerer and not in a worker (default: ``[operators] default_deferrable``).
    :param kwargs: as for every sensor: ``poke_interval`` (seconds, default 60), ``timeout`` (seconds, default 7 days),
        ``mode``, ``soft_fail``.
    :raises ConfigurationError: in the DAG file, for an asset that is none.

    >>> waiting = IncrementalBatchSensor(task_id="waiting", asset=orders, deferrable=True)  # doctest: +SKIP
    >>> load.expand(batch=waiting.output)  # doctest: +SKIP
    """

    template_fields: Sequence[str] = ("consumer", "namespace", "key")

    def __init__(
        self,
        *,
        asset: Any,
        consumer: str | None = None,
        namespace: str | None = None,
        key: str | None = None,
        start: ConsumerStart = "earliest",
        limit: int = 1000,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.asset_name = name_of(asset)
        self.consumer = consumer
        self.namespace = namespace
        self.key = key
        self.start = start
        self.limit = limit
        self.deferrable = deferrable_by_default() if deferrable is None else deferrable

    def poke(self, context: Any) -> PokeReturnValue:
        """Return the batches that wait, and whether there are any."""
        batches = self._batches()
        return PokeReturnValue(is_done=bool(batches), xcom_value=batches)

    def execute(self, context: Any) -> Any:
        """Wait in the worker, or ask once and go on waiting in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        return self._batches() or self._wait(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=self.timeout))

    def execute_complete(self, context: Any, event: Mapping[str, Any], until: str) -> list[dict[str, Json]]:
        """Return the batches; wait on when somebody else has claimed them meanwhile.

        :raises SourceError: when the triggerer could not wait.
        """
        if "error" in event:
            raise SourceError(f"{self.task_id}: {event['error']}")
        return self._batches() or self._wait(dt.datetime.fromisoformat(until))

    def _batches(self) -> list[dict[str, Json]]:
        return pending_batches(
            self.asset_name,
            consumer=self.consumer,
            namespace=self.namespace,
            key=self.key,
            start=self.start,
            limit=self.limit,
        )

    def _wait(self, until: dt.datetime) -> Any:
        trigger = PendingBatchTrigger(
            asset_name=self.asset_name,
            consumer=current_run(self.asset_name).consumer(self.consumer),
            namespace=self.namespace,
            key=self.key,
            start=self.start,
            poll_interval=self.poke_interval,
        )
        left = max(until - dt.datetime.now(dt.UTC), dt.timedelta())
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"until": until.isoformat()}, timeout=left)
