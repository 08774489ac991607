"""A database without a hook in a provider of Airflow's: DuckDB, read for real through its SQLAlchemy dialect."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

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
