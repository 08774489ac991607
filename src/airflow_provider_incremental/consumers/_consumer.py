"""Who processes which watermarks in which run, and how: what ``consume`` and ``processing`` have in common."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from airflow_provider_incremental.consumers._dead import OnDead, Undertaker
from airflow_provider_incremental.consumers._run import Run
from airflow_provider_incremental.core.checks import SHORTEST, Seconds, as_count, as_flag, as_seconds
from airflow_provider_incremental.core.clock import SystemClock
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.intake import Intake
from airflow_provider_incremental.core.journal import was_brought
from airflow_provider_incremental.core.pace import Patience
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.wiring.sync import StoreSession

__all__ = ["LEASE", "Consumer"]

log = logging.getLogger(__name__)

LEASE = 300.0
"""Seconds after which the batch of a worker that died can be taken by another; a living one renews it."""

_ENTRIES = 1000


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """A consumer's name, what it may take, and how it goes about it."""

    selector: Selector
    run: Run
    name: str
    start: ConsumerStart = "earliest"
    lease: Seconds = LEASE
    ordered: bool = False
    patience: Patience = field(default_factory=Patience)
    on_dead: OnDead | None = None
    together: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        :raises ConfigurationError: naming the parameter, the value, and what to give.
        """
        most, delay = self.patience.max_attempts, self.patience.retry_delay
        if self.start not in ("earliest", "latest"):
            raise ConfigurationError(
                f'start={self.start!r} is not where a consumer can begin; give "earliest" or "latest"'
            )
        for name, part in (("namespace", self.selector.namespace), ("key", self.selector.key)):
            if part is not None and not (isinstance(part, str) and part):
                raise ConfigurationError(f"{name}={part!r} names no watermark; give the text that its trigger has")
        if self.on_dead is not None and not callable(self.on_dead):
            raise ConfigurationError(f"on_dead={self.on_dead!r} cannot be called; give a function of a DeadBatch")
        as_flag("ordered", self.ordered)
        as_seconds("lease", self.lease, least=SHORTEST)
        as_seconds("retry_delay", delay)
        if most is not None:
            as_count("max_attempts", most)

    @property
    def undertaker(self) -> Undertaker:
        """Who tells of dead batches."""
        return Undertaker(self.on_dead)

    def open(self, session: StoreSession) -> Intake:
        """Return the intake, after the store was found to be the right one and to know the consumer."""
        self._require_store(session)
        if not session.run(session.store.subscribe(self.selector, self.name, self.start, self.run.batch_ids)):
            self._nothing_is_watched()
        intake = Intake(
            store=session.store,
            selector=self.selector,
            consumer=self.name,
            holder=self.run.holder,
            lease=as_seconds("lease", self.lease, least=SHORTEST),
            clock=SystemClock(),
            ordered=self.ordered,
            patience=self.patience,
            together=self.together,
        )
        for dead in session.run(intake.bury()):
            self.undertaker.tell(dead)
        return intake

    def _require_store(self, session: StoreSession) -> None:
        """Refuse the store of other watermarks; one that these were copied to before the run began is the right one."""
        identity = session.run(session.store.identity())
        others = self.run.stores - {identity}
        earlier: set[str] = set()
        if others:
            for watermark in session.run(session.store.list_watermarks(self.selector)):
                copies = session.run(session.store.journal(watermark.key, _ENTRIES))
                details = [entry.detail for entry in copies if entry.operation == "copy"]
                earlier |= {store for store in others if any(was_brought(store, each) for each in details)}
        self.run.require_store(identity, frozenset(earlier))

    def _nothing_is_watched(self) -> None:
        """A name that nobody watches is a typing error, or the first run of all: only the run's events can tell."""
        named = {"asset": self.selector.asset_name, "namespace": self.selector.namespace, "key": self.selector.key}
        what = ", ".join(f"{name}={value!r}" for name, value in named.items() if value is not None)
        others = ", ".join(map(repr, sorted(self.run.announced)))
        if others:
            msg = (
                f"{what}: the store has no such watermark, and this run was started by batches of {others}. "
                "Give consume() the asset that the trigger watches"
            )
            raise ConfigurationError(msg)
        log.warning("%s: the store has no such watermark yet; nothing is there to process", what)
