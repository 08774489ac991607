"""Every source passes the published suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.testing.fakes import ListSource
from airflow_provider_incremental.testing.source_contract import SourceContract, SourceStage
from tests.integration.sql_stage import Database, sqlite_database
from tests.unit.sources.s3_fake import FakeBucket, client_error

WINDOWS = pytest.mark.parametrize("lateness", [0.0, 10.0])


class ListStage:
    """A list in this process."""

    def __init__(self, lateness: float) -> None:
        self.lateness = lateness
        self.sources: list[ListSource] = []
        self.broken = False

    def open(self) -> Source:
        items = self.sources[0].items if self.sources else set()
        self.sources.append(ListSource(lateness=self.lateness))
        self.sources[-1].items = items
        self._tell()
        return self.sources[-1]

    async def add(self, at: int, name: str) -> None:
        if not self.sources:
            self.open()
        self.sources[0].add(at, name)

    def name_of(self, item: Any) -> str:
        return item["name"]

    async def fail(self) -> None:
        self.broken = True
        self._tell()

    async def work(self) -> None:
        self.broken = False
        self._tell()

    def _tell(self) -> None:
        for source in self.sources:
            source.errors.clear()
            if self.broken:
                source.errors.extend([SourceError("down")] * 100)


class BucketStage:
    """A bucket as an S3 client sees it; places are seconds, names are keys."""

    def __init__(self, lateness: float) -> None:
        self.lateness = lateness
        self.bucket = FakeBucket(page_size=3)
        self.bucket.now = 5000.0
        self.broken = False

    def open(self) -> Source:
        return S3KeySource(bucket="landing", client=self, lateness=self.lateness)

    async def list_objects_v2(self, **arguments: Any) -> dict[str, Any]:
        if self.broken:
            raise client_error("AccessDenied", 403)
        return await self.bucket.list_objects_v2(**arguments)

    async def add(self, at: int, name: str) -> None:
        self.bucket.put(name, modified=at)

    def name_of(self, item: Any) -> str:
        return item["key"]

    async def fail(self) -> None:
        self.broken = True

    async def work(self) -> None:
        self.broken = False


class TableStage:
    """A table; places are numbers in its first cursor column."""

    def __init__(self, database: Database, lateness: float) -> None:
        self.database = database
        self.lateness = lateness
        database.execute("CREATE TABLE items (place bigint, name varchar(100), PRIMARY KEY (place, name))")

    def open(self) -> Source:
        return self.database.source(table="items", cursor=["place", "name"], lateness=self.lateness)

    async def add(self, at: int, name: str) -> None:
        self.database.insert("items", [{"place": at, "name": name}])

    def name_of(self, item: Any) -> str:
        return item["name"]

    async def fail(self) -> None:
        self.database.execute("ALTER TABLE items RENAME TO hidden")

    async def work(self) -> None:
        self.database.execute("ALTER TABLE hidden RENAME TO items")


@WINDOWS
class TestListSource(SourceContract):
    """The fake that every other test of the domain trusts."""

    @pytest.fixture
    def stage(self, lateness: float) -> SourceStage:
        return ListStage(lateness)


@WINDOWS
class TestS3KeySource(SourceContract):
    """Listings in pages of three."""

    @pytest.fixture
    def stage(self, lateness: float) -> SourceStage:
        return BucketStage(lateness)


@WINDOWS
class TestSqlRowSource(SourceContract):
    """A table with a cursor of two columns, on each database."""

    @pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
    async def stage(
        self, request: pytest.FixtureRequest, tmp_path: Path, lateness: float
    ) -> AsyncIterator[SourceStage]:
        if request.param == "sqlite":
            database = sqlite_database(tmp_path)
        else:
            fixture = "postgres_database" if request.param == "postgresql" else "mysql_database"
            database = Database(request.getfixturevalue(fixture))
        yield TableStage(database, lateness)
        await database.aclose()
