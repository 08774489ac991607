"""The consumer's half of :mod:`core.order`: claim, keep the lease, acknowledge or give back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from airflow_provider_incremental.core.batch import Claim
from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.errors import LeaseLostError
from airflow_provider_incremental.core.pace import Patience
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.trouble import told_to_stop
from airflow_provider_incremental.core.upkeep import DeadBatch

__all__ = ["Intake", "Taken"]

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Taken:
    """A batch in this consumer's hands, with the task that keeps its lease.

    Until ``sure_until``, by the consumer's clock, nobody else can have it. ``lost`` is true when a renewal was refused,
    and ``ending`` once the store was told what becomes of the batch: a refusal says nothing then. ``returned`` is true
    when it was given back though nothing was wrong with it.
    """

    claim: Claim
    sure_until: float
    keeper: asyncio.Task[None] = field(init=False)
    lost: bool = False
    ending: bool = False
    returned: bool = False


class Intake:
    """Takes batches for one consumer: claim, keep the lease while they are processed, acknowledge or give back.

    :param ordered: of each watermark, never take a batch before the ones that were committed earlier are finished.
    :param patience: what becomes of a batch that was not processed.
    :param together: whether batches are processed together in their first attempt, and alone from the second on.
    """

    def __init__(
        self,
        *,
        store: WatermarkStore,
        selector: Selector,
        consumer: str,
        holder: str,
        lease: float,
        clock: Clock,
        ordered: bool = False,
        patience: Patience | None = None,
        together: bool = False,
    ) -> None:
        self._store = store
        self._selector = selector
        self._consumer = consumer
        self._holder = holder
        self._lease = lease
        self._clock = clock
        self.ordered = ordered
        self._patience = patience or Patience()
        self._together = together

    async def bury(self) -> list[DeadBatch]:
        """Set aside what was taken too often by workers that all died; those that live give back what they fail at."""
        most = self._patience.max_attempts
        if most is None:
            return []
        # A first attempt may be that of a batch which was only held while another one killed the worker.
        return await self._store.bury(self._selector, self._consumer, max(most, 2) if self._together else most)

    async def claim(self, batch_id: str | None = None) -> Taken | None:
        """Take the oldest batch that waits, or the one that is named; None when there is none to be had."""
        sure_until = self._clock.monotonic() + self._lease
        claim = await self._store.claim(
            self._selector, self._consumer, self._holder, self._lease, batch_id, ordered=self.ordered
        )
        if claim is None:
            return None
        taken = Taken(claim, sure_until)
        taken.keeper = asyncio.create_task(self._keep(taken), name=f"lease of {claim.batch.id}")
        return taken

    async def acknowledge(self, taken: Taken) -> None:
        """The batch is processed. The lease is kept until the store has answered: what it raises leaves all as it was.

        :raises LeaseLostError: when another worker took it meanwhile, so that it is processed there as well.
        """
        taken.ending = True
        try:
            await self._store.acknowledge(taken.claim)
        except LeaseLostError:
            taken.keeper.cancel()
            raise
        taken.keeper.cancel()

    async def give_back(self, taken: Taken, error: str | None, *, alone: bool = True) -> DeadBatch | None:
        """The batch is not processed: it comes again, or is set aside when it failed too often; then it is returned.

        The lease is kept until the store has answered.

        :param error: what went wrong; None when nothing did, and the attempt does not count.
        :param alone: whether it was processed alone; of several, nobody knows which one failed, and none is set aside.
        """
        taken.ending = True
        claim = taken.claim
        if error is None or not (alone and self._patience.gives_up(claim.attempt)):
            wait = 0.0 if error is None else self._patience.delay(claim.attempt)
            await self._store.release(claim, error, retry_after=wait)
            taken.returned = error is None
            taken.keeper.cancel()
            return None
        await self._store.release(claim, error, dead=True)
        taken.keeper.cancel()
        listed = replace(claim.batch, items=None)
        now = self._clock.now()
        return DeadBatch(batch=listed, consumer=claim.consumer, attempts=claim.attempt, error=error, since=now)

    async def abandon(self, taken: Taken) -> None:
        """Say nothing more of the batch: it is free for others when its lease ends."""
        taken.keeper.cancel()

    async def lost(self, taken: Iterable[Taken]) -> list[Taken]:
        """Return those that another worker took: where a lease may have run out unnoticed, the store is asked.

        :raises StoreError: when it does not answer, so that nobody knows.
        """
        return [each for each in taken if not await self._holds(each)]

    async def _holds(self, taken: Taken) -> bool:
        if not taken.lost and self._clock.monotonic() >= taken.sure_until:
            await self._renew(taken)
        return not taken.lost

    async def _renew(self, taken: Taken) -> None:
        sure_until = self._clock.monotonic() + self._lease
        try:
            await self._store.renew(taken.claim, self._lease)
        except LeaseLostError as error:
            if not (taken.lost or taken.ending):
                batch = taken.claim.batch
                log.warning("batch %s of %s: %s", batch.id, batch.key, describe(error))
            taken.lost = True
        else:
            taken.sure_until = sure_until

    async def _keep(self, taken: Taken) -> None:
        while not taken.lost:
            await self._clock.sleep(self._lease / 3)
            try:
                await self._renew(taken)
            except (Exception, asyncio.CancelledError) as error:
                if told_to_stop(error):
                    raise
                name = taken.claim.batch.id
                log.warning("batch %s: the lease was not renewed, trying again: %s", name, describe(error))
