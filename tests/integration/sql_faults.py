"""A network between a SQL source and its database that a test can break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_incremental.core.errors import SourceError
from harness.tcp_proxy import Proxy, proxy_to
from tests.integration.sql_stage import Database


@contextlib.asynccontextmanager
async def behind_proxy(database: Database) -> AsyncIterator[tuple[Database, Proxy]]:
    """The same database at the end of a network that the test holds in its hands."""
    parts = urlsplit(database.url)
    async with proxy_to(str(parts.hostname), int(parts.port or 0)) as proxy:
        there = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}")
        reached = replace(database, url=there.geturl(), _readers=[])
        try:
            yield reached, proxy
        finally:
            await reached.aclose()


async def until(action: Any) -> Any:
    """Do it again until it works; what a broken network has left behind ends in its own time."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await action()
            except (SourceError, ConnectionError):
                await asyncio.sleep(0.05)
