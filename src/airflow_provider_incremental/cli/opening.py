"""The store that a command works on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.migrations.run import check
from airflow_provider_incremental.stores.registry import has_tables
from airflow_provider_incremental.wiring.stores import is_embedded, open_store_url, store_url

__all__ = ["opened", "url_of"]


def url_of(given: str | None) -> str:
    """Return the URL of the store, with its password.

    :param given: a URL or ``conn:`` and a connection's id; None for the one that is configured.
    :raises ConfigurationError: when it leads to no store.
    """
    return store_url(given, where="--store") if given else store_url()


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[WatermarkStore, None]:
    """Open the store of a URL from :func:`url_of` for as long as the block lasts.

    :raises StoreError: when it cannot be reached or its tables are not ready.
    """
    if not is_embedded(url) and has_tables(url):
        await check(url)  # opening a SQLite file that is not there would make it
    async with open_store_url(url) as store:
        yield store
