"""A store of your own, to copy: put your service in place of the four statements, and keep what each of them promises.

The service is here a table in a file of SQLite. Anything that can write under a condition serves: DynamoDB, etcd,
Consul, Redis, a document database. A package names ``open_ledger`` as an entry point of the group
``airflow_provider_incremental.stores`` under the scheme ``ledger``; then ``[incremental] store = ledger:///srv/ledger.db``.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import sqlite3
import uuid
from collections.abc import Sequence
from urllib.parse import urlsplit

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.objects.own_storage import ConditionalStorage, store_on

TABLE = "CREATE TABLE IF NOT EXISTS ledger (name TEXT PRIMARY KEY, body BLOB, tag TEXT, written TEXT)"
REPLACE = "UPDATE ledger SET body = :body, tag = :new, written = :now WHERE name = :name AND tag = :tag"
ADD = "INSERT OR IGNORE INTO ledger (name, body, tag, written) VALUES (:name, :body, :new, :now)"
NAMES = "SELECT name, tag, written FROM ledger WHERE substr(name, 1, length(:prefix)) = :prefix"


class LedgerStorage(ConditionalStorage):
    """Objects in a table; each write is one statement, which the database makes atomic."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def read(self, name: str) -> tuple[bytes, str] | None:
        """Return an object and its tag."""
        rows, _ = await self._run("SELECT body, tag FROM ledger WHERE name = :name", {"name": name})
        return rows[0] if rows else None

    async def write(self, name: str, body: bytes, tag: str | None) -> str | None:
        """Write an object under the condition."""
        values = {"name": name, "body": body, "tag": tag, "new": uuid.uuid4().hex, "now": dt.datetime.now(dt.UTC)}
        _, changed = await self._run(ADD if tag is None else REPLACE, values | {"now": values["now"].isoformat()})
        return values["new"] if changed else None

    async def names(self, prefix: str) -> Sequence[tuple[str, str, dt.datetime]]:
        """Return the objects whose names begin with a prefix."""
        rows, _ = await self._run(NAMES, {"prefix": prefix})
        return [(name, tag, dt.datetime.fromisoformat(written)) for name, tag, written in rows]

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects."""
        for name in names:
            await self._run("DELETE FROM ledger WHERE name = :name", {"name": name})

    async def _run(self, statement: str, values: dict[str, object]) -> tuple[list[tuple], int]:
        # In a thread: nothing may hold up the event loop, which all triggers share.
        return await asyncio.to_thread(self._run_now, statement, values)

    def _run_now(self, statement: str, values: dict[str, object]) -> tuple[list[tuple], int]:
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=10)) as connection, connection:
                connection.execute(TABLE)
                done = connection.execute(statement, values)
                return done.fetchall(), done.rowcount
        except sqlite3.OperationalError as error:  # somebody else writes for longer than that: it is tried again
            raise ConnectionError(str(error)) from error


def open_ledger(url: str, clock: Clock | None = None) -> WatermarkStore:
    """Return the store of an address such as ``ledger:///srv/ledger.db``; nothing connects yet."""
    return store_on(LedgerStorage(urlsplit(url).path), place=url, clock=clock)
