"""A database to watch, on each server alike: tables made in it, sources that read it, and a watcher that restarts."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_engine import EngineReader
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_rows import SqlRowSource

__all__ = ["NOON", "Database", "Watcher", "arguments_of", "make_orders", "order", "sqlite_database", "stamp"]

NOON = dt.datetime.fromisoformat("2026-01-31 12:00")

_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql", "sqlite": "sqlite"}
_TIMESTAMPS = {"postgresql": "timestamp", "mysql": "datetime(6)", "sqlite": "timestamp"}


def arguments_of(url: str) -> dict[str, Any]:
    """Return what the wiring takes from an Airflow connection for asyncpg."""
    parts = urlsplit(url)
    login = {"user": parts.username, "password": parts.password, "database": parts.path.lstrip("/")}
    return {"host": parts.hostname, "port": parts.port, **login}


@dataclass
class Database:
    """A database of one of the three kinds; ``url`` has no name of a driver."""

    url: str
    _readers: list[SqlReader] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """PostgreSQL, mysql (which MariaDB speaks) or sqlite."""
        return urlsplit(self.url).scheme

    @property
    def timestamp(self) -> str:
        """The type of a timestamp without zone, to the microsecond."""
        return _TIMESTAMPS[self.kind]

    def engine(self, **arguments: Any) -> sa.engine.Engine:
        """Return an engine that opens a connection for each use, as the wiring makes it from a hook."""
        url = self.url.replace(self.kind, _DRIVERS[self.kind], 1)
        return sa.create_engine(url, poolclass=sa.pool.NullPool, future=True, **arguments)

    def execute(self, *statements: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run statements in one transaction and return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with self.engine().begin() as connection:
            for statement in statements:
                result = connection.execute(sa.text(statement), parameters)
                rows = [tuple(row) for row in result] if result.returns_rows else []
        return rows

    def insert(self, table: str, rows: list[Mapping[str, Any]]) -> None:
        """Insert rows that all have the same columns, in one transaction."""
        names = list(rows[0])
        values = ", ".join(f":{name}" for name in names)
        with self.engine().begin() as connection:
            connection.execute(sa.text(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"), rows)

    def reader(self, **options: Any) -> SqlReader:
        """Return a reader as the wiring makes it for this kind of connection."""
        if self.kind == "postgresql":
            reader: SqlReader = PostgresReader(arguments=answering(arguments_of(self.url)), **options)
        else:
            reader = EngineReader(engine=answering(self.engine()), **options)
        self._readers.append(reader)
        return reader

    def source(self, *, reader: SqlReader | None = None, **arguments: Any) -> SqlRowSource:
        """Return a source; what is not given is as for a table ``orders`` with the cursor ``updated_at, id``."""
        if "sql" not in arguments:
            arguments.setdefault("table", "orders")
        arguments.setdefault("unique", "sql" in arguments)
        selection = check_sql_arguments(**{"cursor": ["updated_at", "id"], "settle": 0.0, **arguments})
        return SqlRowSource(reader=reader or self.reader(), conn_id="shop", selection=selection)

    async def aclose(self) -> None:
        """Close every reader that was made."""
        for reader in self._readers:
            await reader.aclose()


def answering(value: Any) -> Callable[[], Awaitable[Any]]:
    """Return a function that answers with a value, as the wiring's look-up of a connection does."""

    async def answer() -> Any:
        return value

    return answer


def make_orders(database: Database) -> None:
    """Create the table that most tests watch."""
    database.execute(
        f"CREATE TABLE orders (id bigint PRIMARY KEY, updated_at {database.timestamp} NOT NULL, name varchar(100))"
    )


def order(number: int, at: dt.datetime = NOON, name: str = "") -> dict[str, object]:
    """Return a row of that table."""
    return {"id": number, "updated_at": at.isoformat(" "), "name": name}


def stamp(database: Database, at: dt.datetime) -> object:
    """Return what the driver returns for a timestamp that was written as text."""
    return at.isoformat(" ") if database.kind == "sqlite" else at


def sqlite_database(folder: Path) -> Database:
    """Return a database in a file of a folder, in the mode in which readers and writers do not wait for each other."""
    path = folder / "watched.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    return Database(f"sqlite:///{path}")


@dataclass
class Watcher:
    """Polls as a trigger does that is restarted after each poll: the watermark goes through its JSON form."""

    make: Callable[[], Source]
    limit: int = 1000
    watermark: str = "null"
    items: list[Any] = field(default_factory=list)
    polls: int = 0
    note: str | None = None

    async def poll(self) -> list[Any]:
        """Poll once, from the watermark, with a source of its own; return what was found."""
        found = await self.make().poll(loads(self.watermark), self.limit, frozenset())
        self.polls += 1
        self.note = found.note
        self.watermark = dumps(found.high)
        items = [loads(dumps(item)) for item in found.items]
        self.items += items
        self.more = found.more
        self.count = found.size
        return items

    async def drain(self) -> list[Any]:
        """Poll until nothing more is said to be there; return everything that was found on the way."""
        begun = len(self.items)
        await self.poll()
        while self.more:
            await self.poll()
        return self.items[begun:]

    @property
    def ids(self) -> list[int]:
        """The ids of all rows that were found, in order."""
        return [item["id"] for item in self.items]
