"""Upgrades: safe to repeat, to interrupt and to run at once; honest about a database that is not ours or not there."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from unittest.mock import Mock

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import (
    ConfigurationError,
    StoreError,
    StoreNotMigratedError,
    StoreUnavailableError,
)
from airflow_provider_incremental.migrations import scripts, steps
from airflow_provider_incremental.migrations.current import current_revision
from airflow_provider_incremental.migrations.run import check, upgrade
from airflow_provider_incremental.migrations.scripts import downgrade_connection, upgrade_connection
from airflow_provider_incremental.stores.sql.tables import identity, metadata, version_table, watermarks


def identity_of(connection: sa.engine.Connection) -> tuple:
    return tuple(connection.execute(sa.select(identity)).one())


def tables_of(connection: sa.engine.Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def executing(*statements: str):
    def work(connection: sa.engine.Connection) -> None:
        for statement in statements:
            connection.execute(sa.text(statement))

    return work


async def test_makes_a_store_with_an_identity(database, on):
    """An upgrade of an empty database makes every table, and one row with a random identity and the present time."""
    before = dt.datetime.now(dt.UTC)
    assert await upgrade(database) is True
    number, name, created_at = await on(database, identity_of)
    assert (number, uuid.UUID(name).version, str(uuid.UUID(name))) == (1, 4, name)
    assert before - dt.timedelta(seconds=2) <= created_at <= dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
    assert await on(database, tables_of) == {*metadata.tables, version_table}
    await check(database)


async def test_again_changes_nothing(database, on):
    """A second upgrade finds nothing to do and leaves the identity as it is."""
    await upgrade(database)
    before = await on(database, identity_of)
    assert await upgrade(database) is False
    assert await on(database, identity_of) == before


async def test_two_stores_differ(database, second_database, on):
    """No two stores share an identity."""
    await upgrade(database)
    await upgrade(second_database)
    assert (await on(database, identity_of))[1] != (await on(second_database, identity_of))[1]


async def test_downgrade_drops_only_our_tables(database, on):
    """Going back to the base leaves everybody else's tables, and Airflow's version table, as they are."""
    foreign = "CREATE TABLE alembic_version (version_num VARCHAR(32))", "INSERT INTO alembic_version VALUES ('airflow')"
    await on(database, executing(*foreign))
    await upgrade(database)
    await on(database, lambda connection: downgrade_connection(connection, "here", "base"))
    assert await on(database, tables_of) == {"alembic_version", version_table}
    assert await on(database, current_revision) is None
    assert await upgrade(database) is True
    await check(database)


async def test_adopts_tables_without_a_version(database, on, shape):
    """Tables that lost their version table, as a partial restore leaves them, keep their data and their identity."""
    await upgrade(database)
    before, described = await on(database, identity_of), await on(database, shape)
    await on(database, executing(f"DROP TABLE {version_table}"))
    assert await upgrade(database) is True
    assert (await on(database, identity_of), await on(database, shape)) == (before, described)
    await check(database)


async def test_finishes_what_was_interrupted(database, second_database, on, shape, monkeypatch):
    """An upgrade that dies before its last table is finished by the next, to the same schema."""
    make = steps.create_table

    def dies(name, *parts, **options):
        if name == "asset_watermark_claims":
            raise ConnectionResetError(name)
        make(name, *parts, **options)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "create_table", dies)
        with pytest.raises(StoreUnavailableError, match="asset_watermark_claims"):
            await upgrade(database)
    with pytest.raises(StoreNotMigratedError):
        await check(database)
    await upgrade(database)
    await upgrade(second_database)
    assert await on(database, shape) == await on(second_database, shape)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
async def test_interrupted_leaves_nothing_where_ddl_is_transactional(database, on, monkeypatch):
    """On SQLite and PostgreSQL an upgrade that dies half way has changed nothing."""
    monkeypatch.setattr(steps, "create_index", Mock(side_effect=ConnectionResetError))
    with pytest.raises(StoreUnavailableError):
        await upgrade(database)
    assert await on(database, tables_of) == set()


async def test_refuses_tables_that_are_not_ours(database, on):
    """Somebody else's table of the same name is named, with its columns, and left alone."""
    await on(database, executing("CREATE TABLE asset_watermarks (id INTEGER, mood INTEGER)"))
    with pytest.raises(StoreNotMigratedError, match=r"asset_watermarks is there.*missing: .*asset_hash.*unknown: mood"):
        await upgrade(database)
    columns = await on(database, lambda connection: sa.inspect(connection).get_columns("asset_watermarks"))
    assert [column["name"] for column in columns] == ["id", "mood"]


async def test_refuses_a_newer_release(database, on):
    """A database that a newer release migrated is neither used nor changed, and the error says what to upgrade."""
    await upgrade(database)
    await on(database, executing(f"UPDATE {version_table} SET version_num = '9999'"))
    for operation in (check, upgrade):
        with pytest.raises(StoreNotMigratedError, match=r"revision 9999, which a newer release made.*upgrade airflow-"):
            await operation(database)
    assert await on(database, current_revision) == "9999"


async def test_check_names_setting_and_command(database):
    """A check of an empty database names the setting and the command, and makes nothing."""
    with pytest.raises(StoreNotMigratedError) as refusal:
        await check(database)
    assert "[incremental] store" in str(refusal.value)
    assert "airflow-incremental db upgrade" in str(refusal.value)


@pytest.mark.parametrize("operation", [check, upgrade])
@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
async def test_wrong_password_is_not_shown(operation, database):
    """A login that the server refuses is an unreachable store, named with its setting and without its password."""
    wrong = sa.engine.make_url(database).set(username="nobody", password="hunter2")
    with pytest.raises(StoreUnavailableError) as refusal:
        await operation(wrong.render_as_string(hide_password=False))
    assert "[incremental] store" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("operation", [check, upgrade])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
async def test_no_server(operation, scheme):
    """A server that does not answer is an unreachable store."""
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1"):
        await operation(f"{scheme}://app:hunter2@127.0.0.1:1/none")


async def test_unknown_database():
    """A database that no store is made for is refused with those that there are."""
    with pytest.raises(ConfigurationError, match="postgresql://"):
        await upgrade("oracle://app@db/x")


async def test_no_right_to_make_tables(postgres_database, on):
    """A login without the right to make tables is told so by the database's own words."""
    login = f"guest_{uuid.uuid4().hex[:8]}"
    url = sa.engine.make_url(postgres_database)
    await on(postgres_database, executing(f"CREATE ROLE {login} LOGIN PASSWORD 'guest'"))
    try:
        guest = url.set(username=login, password="guest").render_as_string(hide_password=False)
        with pytest.raises(StoreError, match="permission denied"):
            await upgrade(guest)
    finally:
        await on(postgres_database, executing(f"DROP ROLE {login}"))


async def test_a_waiting_upgrade_does_not_hold_up_the_loop(database):
    """While an upgrade waits for another one in this process, everything else in the loop goes on."""
    with scripts._alembic_turn:
        waiting = [asyncio.create_task(upgrade(database)) for _ in range(3)]
        for _ in range(10):
            with pytest.raises(StoreNotMigratedError):
                await check(database)
        assert not any(task.done() for task in waiting)
    assert sorted(await asyncio.gather(*waiting)) == [False, False, True]


async def test_data_survives(database, on):
    """What the store holds is there after another upgrade, to the microsecond."""
    await upgrade(database)
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=dt.UTC)
    row = {column.name: 0 for column in watermarks.columns if isinstance(column.type, sa.BigInteger)}
    row |= {"id": "i" * 32, "asset_hash": "h" * 32, "asset_name": "ä" * 1500, "namespace": "n", "key": "k"}
    row |= {"cursor": "x" * 100_000, "created_at": moment}
    await on(database, lambda connection: connection.execute(sa.insert(watermarks).values(**row)))
    await on(database, executing(f"DROP TABLE {version_table}"))
    await upgrade(database)
    found = await on(database, lambda connection: connection.execute(sa.select(watermarks)).mappings().one())
    assert {name: found[name] for name in row} == row


async def test_upgrade_leaves_the_callers_transaction_alone(postgres_database, on):
    """On a connection that somebody gives, the upgrade is part of their transaction: rolled back with it."""

    def work(connection):
        upgrade_connection(connection, "here")
        connection.rollback()

    await on(postgres_database, work)
    assert await on(postgres_database, tables_of) == set()


@pytest.mark.parametrize("database", ["mysql"], indirect=True)
async def test_the_lock_covers_the_whole_upgrade(database, on):
    """Where the lock is not the transaction's, all is committed before the next in turn gets it."""

    def work(connection: sa.engine.Connection) -> None:
        upgrade_connection(connection, "here")
        engine = sa.create_engine(database.replace("mysql:", "mysql+pymysql:"))
        with engine.begin() as other:
            assert upgrade_connection(other, "there") is False
        engine.dispose()

    await on(database, work)
    await check(database)
