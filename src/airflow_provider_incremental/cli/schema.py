"""What ``airflow-incremental db`` does."""

from __future__ import annotations

import asyncio
from argparse import Namespace

from airflow_provider_incremental.cli.opening import opened, url_of
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.migrations import HEAD, run
from airflow_provider_incremental.stores.registry import has_tables, make_store
from airflow_provider_incremental.stores.sql.engine import shown, store_url

__all__ = ["check", "sql", "upgrade"]


def upgrade(given: Namespace) -> str:
    """Make or upgrade the store's tables; say whether there was anything to do."""
    url = _database(given)
    changed = asyncio.run(run.upgrade(url))
    return f"store {shown(store_url(url))}: {'now' if changed else 'already'} at revision {HEAD}"


def check(given: Namespace) -> str:
    """Say that the store is there and ready; anything else is an error."""
    url = url_of(given.store)
    if not has_tables(url):
        return asyncio.run(_answering(url))
    asyncio.run(run.check(url))
    return f"store {shown(store_url(url))}: ready, at revision {HEAD}"


async def _answering(url: str) -> str:
    async with opened(url) as store:
        count = len(await store.list_watermarks())  # its identity alone may be remembered
        return f"store {store!r}: it answers, with {count} watermarks; there are no tables to be made from here"


def sql(given: Namespace) -> str:
    """Return the SQL that makes the tables."""
    return run.sql(given.dialect or _database(given)).rstrip()


def _database(given: Namespace) -> str:
    url = url_of(given.store)
    if not has_tables(url):
        make_store(url)  # which has better words for what is no store at all
        scheme = url.partition("://")[0]
        msg = (
            f"the store {scheme}:// has no tables here: memory is for tests, object storage and stores that other "
            "packages bring need none, and those behind an API are made where the API runs"
        )
        raise ConfigurationError(msg)
    return url
