"""Shared stores: one for each address and event loop, open while anybody uses it, closed by the last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import Watches, WatermarkKey
from airflow_provider_incremental.stores import registry
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.registry import acquire, make_store, release, shared_store
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.databases import migrated

KEY = WatermarkKey("orders")


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """The address of a migrated SQLite file."""
    return await migrated(f"sqlite:///{tmp_path}/store.db")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a SQL store in the registry."""
    yield
    assert [place for place in registry._registry._shared if not place[2].startswith("memory:")] == []


def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, place: str) -> None:
    """Install a package that brings a store."""
    package = tmp_path / "brought-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{scheme} = {place}\n")
    (tmp_path / "brought.py").write_text(
        "from airflow_provider_incremental.stores.memory import MemoryStore\n"
        "def make(url):\n    return MemoryStore(identity=url)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


async def test_a_package_brings_a_store_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its function gets the address; there are no tables to make."""
    bring(tmp_path, monkeypatch, "ledger", "brought:make")
    assert await make_store("ledger://somewhere/else").identity() == "ledger://somewhere/else"
    assert not registry.has_tables("ledger://somewhere/else")


@pytest.mark.parametrize("url", ["asset-state:", "asset-state://", "Asset-State:orders"])
async def test_the_asset_state_store_of_airflow_is_refused(url: str) -> None:
    """With the reason, and with what to set in its place; no package can bring it either."""
    with pytest.raises(ConfigurationError, match=r"no compare-and-swap.*airflow db migrate.*type HTTP"):
        make_store(url)
    assert not registry.has_tables(url)


def test_a_package_that_names_no_function_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the scheme and the place."""
    bring(tmp_path, monkeypatch, "ledger", "brought:__name__")
    with pytest.raises(ConfigurationError, match="ledger:// is brought by brought:__name__, which is no function"):
        make_store("ledger://x")


async def test_a_package_cannot_take_our_schemes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is installed, memory stays memory."""
    bring(tmp_path, monkeypatch, "memory", "brought:make")
    assert await make_store("memory://").identity() != "memory://"


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "sqlite"])
def test_a_package_cannot_take_our_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """Nobody else is given an address with a password in it."""
    bring(tmp_path, monkeypatch, scheme, "brought:make")
    assert isinstance(make_store(f"{scheme}:////tmp/nowhere.db" if scheme == "sqlite" else f"{scheme}://h/d"), SqlStore)
    assert registry.has_tables(f"{scheme}://h/d")


def test_two_packages_for_one_scheme_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is taken by chance."""
    bring(tmp_path, monkeypatch, "s3", "brought:make")
    with pytest.raises(ConfigurationError, match=r"s3:// is brought by .*object_storage.* and by brought:make"):
        make_store("s3://bucket")


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which scheme and which module."""
    bring(tmp_path, monkeypatch, "ledger", "not_there:make")
    with pytest.raises(ConfigurationError, match="ledger:// is brought by not_there:make"):
        make_store("ledger://")


def test_an_api_is_a_store_without_tables_here() -> None:
    """Nobody runs migrations through it."""
    assert repr(make_store("api+https://:token@host/path")) == "<ApiStore https://host/path>"
    assert not registry.has_tables("api+https://:token@host/path")
    assert registry.has_tables("postgresql://db/watermarks")


def connections(store: WatermarkStore) -> int:
    """How many connections a store has open."""
    assert isinstance(store, SqlStore)
    pool = store.database.engine.pool
    return pool.checkedin() + pool.checkedout()


async def test_everybody_shares_one_store_and_the_last_one_closes_it(url: str) -> None:
    """A hundred triggers open the same store: one engine, a handful of connections, none after the last has left."""
    stores = [acquire(url) for _ in range(100)]
    assert len({id(store) for store in stores}) == 1
    await asyncio.gather(*(store.identity() for store in stores))
    assert 0 < connections(stores[0]) <= 15
    for _ in stores[1:]:
        await release(url)
    assert connections(stores[0]) > 0
    assert await stores[0].load(KEY) is None
    await release(url)
    assert connections(stores[0]) == 0


async def test_a_store_that_was_closed_is_made_anew(url: str) -> None:
    """Who comes after the last one left gets a store that works."""
    async with shared_store(url) as first:
        await first.register(KEY, Watches("a", "b"))
    async with shared_store(url) as second:
        assert second is not first
        assert await second.load(KEY) is not None


async def test_a_store_is_never_handed_out_while_it_closes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody opens the store while the last user is closing it: a new one is made, and it stays open."""
    old = acquire(url)
    assert isinstance(old, SqlStore)
    close = old.aclose
    met: list[WatermarkStore] = []

    async def slow() -> None:
        met.append(acquire(url))
        await close()

    monkeypatch.setattr(old, "aclose", slow)
    await release(url)
    assert met[0] is not old
    assert await met[0].load(KEY) is None
    await release(url)


async def test_a_store_is_given_back_when_the_block_raises_or_is_cancelled(url: str) -> None:
    """However a block ends, the store is closed by the last one."""
    inside = asyncio.Event()
    used: list[WatermarkStore] = []

    async def fail() -> None:
        async with shared_store(url) as store:
            await store.identity()
            used.append(store)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert connections(used[0]) == 0

    async def use() -> None:
        async with shared_store(url) as store:
            await store.identity()
            used.append(store)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connections(used[1]) == 0


async def test_other_addresses_have_other_stores(url: str, tmp_path: Path) -> None:
    """Two databases, two engines."""
    async with shared_store(url) as one, shared_store(f"sqlite:///{tmp_path}/other.db") as two:
        assert one is not two


def test_every_event_loop_has_its_own_store(tmp_path: Path) -> None:
    """Connections belong to the loop that opened them; a loop that died without closing leaves nothing to the next."""
    url = f"sqlite:///{tmp_path}/store.db"
    asyncio.run(migrated(url))

    async def abandon() -> WatermarkStore:
        return acquire(url)

    async def use() -> WatermarkStore:
        async with shared_store(url) as store:
            await store.identity()
            return store

    abandoned = [asyncio.run(abandon()) for _ in range(3)]
    used = [asyncio.run(use()) for _ in range(3)]
    assert len({id(store) for store in abandoned + used}) == 6
    assert len(registry._registry._shared) < 4


async def test_two_loops_at_once_do_not_share(url: str) -> None:
    """A task's sync face runs a loop in a thread beside the triggerer's."""

    async def use() -> WatermarkStore:
        async with shared_store(url) as store:
            await store.identity()
            return store

    async with shared_store(url) as mine:
        theirs = await asyncio.to_thread(asyncio.run, use())
        assert theirs is not mine
        assert await mine.load(KEY) is None


async def test_a_store_in_memory_lasts_as_long_as_the_process() -> None:
    """Triggers and consumers of a test meet in it, one after the other and in whichever loop."""
    async with shared_store("memory://lasting") as store:
        assert isinstance(store, MemoryStore)
        await store.register(KEY, Watches("a", "b"))

    async def look() -> bool:
        async with shared_store("memory://lasting") as store:
            return await store.load(KEY) is not None

    assert await asyncio.to_thread(asyncio.run, look())
    async with shared_store("memory://another") as other:
        assert await other.load(KEY) is None


async def test_an_address_that_cannot_be_used_leaves_nothing_behind() -> None:
    """A wrong setting is refused when the store is opened."""
    with pytest.raises(ConfigurationError):
        acquire("redis://db")


def test_a_store_can_be_made_for_oneself(tmp_path: Path) -> None:
    """Tools get a store that nobody else has, without any connection until it is used."""
    url = f"sqlite:///{tmp_path}/store.db"
    assert make_store(url) is not make_store(url)
    assert not (tmp_path / "store.db").exists()
