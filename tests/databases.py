"""Databases with the store's tables in them, for tests."""

from __future__ import annotations

import datetime as dt
import uuid

import sqlalchemy as sa

from airflow_provider_incremental.stores.sql import tables
from airflow_provider_incremental.stores.sql.engine import create_engine, store_url

__all__ = ["emptied", "migrated"]


async def migrated(url: str) -> str:
    """Make the tables in an empty database, and return its address."""
    engine = create_engine(store_url(url))
    async with engine.begin() as connection:
        await connection.run_sync(tables.metadata.create_all)
        row = {"id": 1, "identity": str(uuid.uuid4()), "created_at": dt.datetime.now(dt.UTC)}
        await connection.execute(sa.insert(tables.identity), row)
    await engine.dispose()
    return url


async def emptied(url: str) -> str:
    """Delete everything but the store's identity from the tables, and return the address."""
    engine = create_engine(store_url(url))
    async with engine.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            if table is not tables.identity:
                await connection.execute(sa.delete(table))
    await engine.dispose()
    return url
