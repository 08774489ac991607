"""A database without a hook in a provider of Airflow's: DuckDB, read for real through its SQLAlchemy dialect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_engine import EngineReader
from airflow_provider_incremental.sources.sql_preflight import preflight
from airflow_provider_incremental.sources.sql_rows import SqlRowSource
from tests.integration.sql_stage import Watcher, answering


async def test_rows_of_a_query_come_once(tmp_path: Path) -> None:
    """Ties and limits, with the upper edge taken from DuckDB's own clock."""
    engine = sa.create_engine(f"duckdb:///{tmp_path}/shop.duckdb", poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE orders (id bigint, updated_at timestamp NOT NULL, amount decimal(9, 2))"
        )
        connection.exec_driver_sql(
            "INSERT INTO orders SELECT n, timestamp '2026-01-31 12:00:00.000001' + to_seconds(n // 4), n / 100 "
            "FROM range(20) AS r(n)"
        )
    reader = EngineReader(engine=answering(engine))
    selection = check_sql_arguments(sql="SELECT * FROM orders", cursor=["updated_at", "id"], unique=True)
    assert (await preflight(reader, selection)).ok
    watcher = Watcher(lambda: SqlRowSource(reader=reader, conn_id="shop", selection=selection), limit=3)
    await watcher.drain()
    assert watcher.ids == list(range(20))
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO orders VALUES (20, now() AT TIME ZONE 'UTC' - INTERVAL 1 HOUR, 1.5)")
    await watcher.drain()
    assert watcher.ids == list(range(21))
    await reader.aclose()


@pytest.mark.parametrize(
    ("declared", "name", "cast"),
    [("priority", "ENUM", "CAST(place AS VARCHAR)"), ("timestamp_ns", "TIMESTAMP_NS", "CAST(place AS TIMESTAMP)")],
)
async def test_a_column_without_one_order_is_refused(tmp_path: Path, declared: str, name: str, cast: str) -> None:
    """An enumeration, which is sorted and compared differently, and digits that the driver drops, before any row."""
    engine = sa.create_engine(f"duckdb:///{tmp_path}/shop.duckdb", poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TYPE priority AS ENUM ('urgent', 'normal')")
        connection.exec_driver_sql(f"CREATE TABLE orders (id bigint, place {declared})")
    reader = EngineReader(engine=answering(engine))
    selection = check_sql_arguments(sql="SELECT * FROM orders", cursor=["place", "id"], unique=True)
    source = SqlRowSource(reader=reader, conn_id="shop", selection=selection)
    with pytest.raises(SourceError, match=rf"column place is of type {name}.*{re.escape(cast)}"):
        await source.poll(None, 10, frozenset())
    await reader.aclose()


async def test_a_table_is_refused_with_the_query_to_watch(tmp_path: Path) -> None:
    """Its catalogue cannot be read as PostgreSQL's, which the dialect tries, on any release of SQLAlchemy."""
    engine = sa.create_engine(f"duckdb:///{tmp_path}/shop.duckdb", poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id bigint)")
    reader = EngineReader(engine=answering(engine))
    selection = check_sql_arguments(table="orders", cursor="id")
    source = SqlRowSource(reader=reader, conn_id="shop", selection=selection)
    with pytest.raises(SourceError, match="watch it as a query, with sql='FROM orders' and unique=True"):
        await source.poll(None, 10, frozenset())
    await reader.aclose()
