"""The store on tables that change under it, or that are not where tables usually are."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_incremental.stores.sql.engine import create_engine, store_url
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.databases import migrated
from tests.integration.sql_store_stage import everything

OpenStore = Callable[..., SqlStore]


async def test_a_migration_under_an_open_store_goes_unnoticed(postgres: str, opened: OpenStore) -> None:
    """Columns are added and widened while statements are prepared: every operation works at the first call."""
    store = opened(postgres)
    await everything(store)
    for change in (
        "ALTER TABLE asset_watermarks ALTER COLUMN note TYPE varchar(5000)",
        "ALTER TABLE asset_watermarks ADD COLUMN later text",
        "ALTER TABLE asset_watermark_batches ALTER COLUMN kind TYPE text",
        "ALTER TABLE asset_watermark_claims ALTER COLUMN holder TYPE text",
    ):
        async with store.database.engine.begin() as connection:
            await connection.exec_driver_sql(change)
        await everything(store)


async def test_a_schema_of_its_own(postgres_database: str, opened: OpenStore) -> None:
    """A search path in the address puts the store where a platform team wants it."""
    engine = create_engine(store_url(postgres_database))
    async with engine.begin() as connection:
        await connection.exec_driver_sql("CREATE SCHEMA platform")
    url = await migrated(postgres_database + "?options=-csearch_path%3Dplatform&application_name=watermarks")
    store = opened(url)
    await everything(store)
    async with engine.connect() as connection:
        rows = await connection.exec_driver_sql("SELECT count(*) FROM platform.asset_watermark_batches")
        assert rows.scalar_one() == 1
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'watermarks'"
        assert (await connection.exec_driver_sql(sessions)).scalar_one() > 0
    await engine.dispose()
