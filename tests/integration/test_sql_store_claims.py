"""Claims on real databases: two never get the same batch, none is left behind, and leases agree between machines."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_incremental.core.batch import Claim, NewBatch
from airflow_provider_incremental.core.clock import SystemClock
from airflow_provider_incremental.core.errors import LeaseLostError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing.fakes import FakeClock

ASSET = Selector("orders")
WATCHES = Watches("table orders", "id")
OpenStore = Callable[..., SqlStore]
KEY = WatermarkKey("orders")


async def fill(store: SqlStore, count: int, key: WatermarkKey = KEY) -> list[str]:
    """Commit so many batches, and make the consumer known."""
    watermark = await store.register(key, WATCHES)
    new = [NewBatch(low=number, high=number + 1, items=[number], count=1) for number in range(count)]
    _, batches = await store.commit(watermark, count, new, PollReport())
    await store.subscribe(ASSET, "load", "earliest")
    return [batch.id for batch in batches]


async def drain(store: SqlStore, holder: str, crash_every: int = 0) -> list[Claim]:
    """Claim and acknowledge until nothing waits; give every so-manieth batch back once instead."""
    done: list[Claim] = []
    number = 0
    while claim := await store.claim(ASSET, "load", f"{holder}-{number}", 3600):
        number += 1
        if crash_every and claim.attempt == 1 and number % crash_every == 0:
            await store.release(claim, "boom")
            continue
        await store.acknowledge(claim)
        done.append(claim)
    return done


async def done_seq(store: SqlStore) -> int:
    """Up to where the consumer has finished everything, as the database has it."""
    async with store.database.engine.connect() as connection:
        return (await connection.exec_driver_sql("SELECT done_seq FROM asset_watermark_consumers")).scalar_one()


async def test_many_claimers_share_the_batches(database: str, opened: OpenStore) -> None:
    """Twenty claimers on two engines process a hundred batches: each once, none left, whatever is given back."""
    stores = [opened(database), opened(database)]
    ids = await fill(stores[0], 100)
    drains = await asyncio.gather(*(drain(stores[n % 2], f"worker{n}", crash_every=7) for n in range(20)))
    # A claimer that gave the last batch back may have been the last one there.
    drains.append(await drain(stores[0], "last"))
    processed = Counter(claim.batch.id for done in drains for claim in done)
    assert processed == Counter(ids)
    assert await stores[1].pending(ASSET, "load") == []
    assert await done_seq(stores[0]) == len(ids)


async def test_a_candidate_that_another_claimer_took_is_passed_over(
    database: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two claimers that read the same candidates before either takes one: each gets another batch."""
    slow, fast = opened(database), opened(database)
    first, second = await fill(slow, 2)
    read = slow._claims._waiting
    rival: list[Claim | None] = []

    async def overtaken(*asked: Any, **how: Any) -> Any:
        found = await read(*asked, **how)
        rival.append(await fast.claim(ASSET, "load", "fast", 60))
        return found

    monkeypatch.setattr(slow._claims, "_waiting", overtaken)
    claim = await slow.claim(ASSET, "load", "slow", 60)
    assert claim is not None
    assert [taken.batch.id for taken in rival if taken] == [first]
    assert claim.batch.id == second
    assert claim.attempt == 1


async def test_an_expired_lease_is_taken_over_once(
    database: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two claimers that both saw a lease run out: one takes the batch, in attempt 2, the other gets nothing."""
    clock = FakeClock()
    slow, fast = opened(database, clock=clock), opened(database, clock=clock)
    await fill(slow, 1)
    lost = await slow.claim(ASSET, "load", "dead", 60)
    clock.advance(60)
    read = slow._claims._waiting
    rival: list[Claim | None] = []

    async def overtaken(*asked: Any, **how: Any) -> Any:
        found = await read(*asked, **how)
        if not rival:
            rival.append(await fast.claim(ASSET, "load", "fast", 60))
        return found

    monkeypatch.setattr(slow._claims, "_waiting", overtaken)
    assert await slow.claim(ASSET, "load", "slow", 60) is None
    assert rival[0] is not None
    assert rival[0].attempt == 2
    assert lost is not None
    with pytest.raises(LeaseLostError):
        await slow.acknowledge(lost)


async def test_a_lease_renewed_in_time_is_not_taken_over(
    database: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claimer that saw a lease run out, just before its holder renewed it, does not get the batch."""
    clock = FakeClock()
    store = opened(database, clock=clock)
    await fill(store, 1)
    held = await store.claim(ASSET, "load", "holder", 60)
    assert held is not None
    clock.advance(60)
    read = store._claims._waiting

    async def renewed(*asked: Any, **how: Any) -> Any:
        found = await read(*asked, **how)
        await store.renew(held, 60)
        return found

    monkeypatch.setattr(store._claims, "_waiting", renewed)
    assert await store.claim(ASSET, "load", "thief", 60) is None
    await store.acknowledge(held)


async def test_a_batch_of_a_watermark_made_anew_is_not_mistaken(
    database: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watermark is forgotten and made anew between read and claim: the new batch is claimed, with its own items."""
    store = opened(database)
    await fill(store, 1)
    read = store._claims._waiting
    fresh: list[str] = []

    async def forgotten(*asked: Any, **how: Any) -> Any:
        found = await read(*asked, **how)
        if not fresh:
            await store.forget(KEY)
            fresh.extend(await fill(store, 1))
        return found

    monkeypatch.setattr(store._claims, "_waiting", forgotten)
    claim = await store.claim(ASSET, "load", "holder", 60)
    assert claim is not None
    assert [claim.batch.id] == fresh
    assert claim.attempt == 1


async def test_acknowledgements_at_once_move_the_edge_to_the_end(database: str, opened: OpenStore) -> None:
    """Whichever of the acknowledgements comes last, the edge below which all is done ends at the last batch."""
    store = opened(database)
    await fill(store, 30)
    claims = [await store.claim(ASSET, "load", f"w{number}", 3600) for number in range(30)]
    await asyncio.gather(*(store.acknowledge(claim) for claim in claims if claim))
    assert await done_seq(store) == 30


async def test_the_edge_never_passes_a_batch_that_waits(database: str, opened: OpenStore) -> None:
    """The edge stays below the oldest unfinished batch, and below batches that come later."""
    store = opened(database)
    await fill(store, 3)
    one, two, three = [await store.claim(ASSET, "load", f"w{number}", 3600) for number in range(3)]
    assert one
    assert two
    assert three
    edges = []
    for claim in (two, one, three):
        await store.acknowledge(claim)
        edges.append(await done_seq(store))
    assert edges == [0, 2, 3]
    await fill(store, 1)
    assert await done_seq(store) == 3
    assert len(await store.pending(ASSET, "load")) == 1


async def test_watermarks_beyond_one_statement_are_served_in_order_of_commit(database: str, opened: OpenStore) -> None:
    """An asset of 120 watermarks: the oldest batch of all comes first, whichever watermark it is in."""
    clock = FakeClock()
    store = opened(database, clock=clock)
    ids = []
    for number in range(120):
        clock.advance(1)
        ids += await fill(store, 1, WatermarkKey("orders", "default", f"part{(number * 37) % 120}"))
    assert [batch.id for batch in await store.pending(ASSET, "load")] == ids
    for wanted in ids[:5]:
        claim = await store.claim(ASSET, "load", wanted, 60)
        assert claim is not None
        assert claim.batch.id == wanted


async def test_batches_of_a_watermark_stay_in_order_when_a_clock_steps_back(database: str, opened: OpenStore) -> None:
    """A clock that goes back an hour between two commits does not let the second batch overtake the first."""
    clock = FakeClock()
    store = opened(database, clock=clock)
    (first,) = await fill(store, 1)
    clock.set_wall(-3600)
    (second,) = await fill(store, 1)
    assert [batch.id for batch in await store.pending(ASSET, "load")] == [first, second]


class SkewedClock(SystemClock):
    """A machine whose wall clock is wrong by so many hours."""

    def __init__(self, hours: float) -> None:
        self._wrong = dt.timedelta(hours=hours)

    def now(self) -> dt.datetime:
        """Return the wrong instant."""
        return super().now() + self._wrong


@pytest.mark.parametrize("hours", [-3, 3])
async def test_leases_agree_between_machines_whose_clocks_differ(
    postgres: str, opened: OpenStore, hours: float
) -> None:
    """A lease of a minute is one for a worker that is hours ahead or behind: it goes by the database's clock."""
    await leases_agree(postgres, opened, hours)


async def test_leases_agree_on_mysql_too(mysql: str, opened: OpenStore) -> None:
    """The same goes for MySQL and MariaDB, whose session has a zone."""
    await leases_agree(mysql, opened, 3)


async def leases_agree(url: str, opened: OpenStore, hours: float) -> None:
    """Claim on a right and on a wrong machine, and compare."""
    right, wrong = opened(url), opened(url, local=SkewedClock(hours))
    await fill(right, 2)
    mine = await right.claim(ASSET, "load", "right", 60)
    theirs = await wrong.claim(ASSET, "load", "wrong", 60)
    assert mine is not None
    assert theirs is not None
    assert theirs.batch.id != mine.batch.id
    assert await right.claim(ASSET, "load", "right again", 60) is None
    assert await wrong.claim(ASSET, "load", "wrong again", 60) is None
    assert abs((theirs.lease_until - mine.lease_until).total_seconds()) < 30
    assert abs((theirs.lease_until - dt.datetime.now(dt.UTC)).total_seconds()) < 90


@pytest.mark.parametrize("name", ["", " load", "load ", "x" * 251, "a\x00b"])
async def test_a_name_that_a_database_would_change_is_refused(sqlite: str, opened: OpenStore, name: str) -> None:
    """A consumer's name is kept exactly, or refused with the reason."""
    store = opened(sqlite)
    for act in (store.subscribe(ASSET, name, "earliest"), store.claim(ASSET, name, "holder", 60)):
        with pytest.raises(ValueError, match="consumer="):
            await act
