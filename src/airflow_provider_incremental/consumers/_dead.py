"""Telling of a batch that was set aside: in the log always, and to whom the DAG's author names."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_incremental.core.upkeep import DeadBatch

__all__ = ["OnDead", "Undertaker"]

log = logging.getLogger(__name__)

OnDead = Callable[[DeadBatch], object]


class Undertaker:
    """Says that a batch is dead.

    :param on_dead: called with the batch; what it raises is logged, since the batch is dead all the same.
    """

    def __init__(self, on_dead: OnDead | None = None) -> None:
        self._on_dead = on_dead

    def tell(self, dead: DeadBatch) -> None:
        """Log it, and call who wants to know."""
        key, seq = dead.batch.key, dead.batch.seq
        log.error(
            "batch %d of %s (%d items) is dead for %s after %d attempts: %s. It is kept; when the cause is gone, "
            "`airflow-incremental replay %s --dead` gives it again",
            *(seq, key, dead.batch.count, dead.consumer, dead.attempts, dead.error, key),
        )
        if self._on_dead is None:
            return
        try:
            self._on_dead(dead)
        except Exception:
            log.exception("on_dead failed for batch %d of %s", seq, key)
