"""The file of a SQLite store: where it is made, who may read it, and what is said when it cannot be used."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing

import pytest

from airflow_provider_incremental.core.errors import StoreError, StoreNotMigratedError, StoreUnavailableError
from airflow_provider_incremental.migrations.run import check, upgrade, upgrade_embedded
from airflow_provider_incremental.migrations.scripts import downgrade_connection
from airflow_provider_incremental.stores.sql.store import SqlStore


async def test_check_makes_no_file(tmp_path):
    """A check of a SQLite file that is not there does not make it."""
    with pytest.raises(StoreNotMigratedError):
        await check(f"sqlite:///{tmp_path / 'store.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("operation", [check, upgrade])
async def test_no_database(operation, tmp_path):
    """A file that is no database is an unreachable store, and is left as it is."""
    path = tmp_path / "store.db"
    path.write_text("dear diary, " * 100)
    with pytest.raises(StoreUnavailableError, match=r"store\.db.*\[incremental\] store"):
        await operation(f"sqlite:///{path}")
    assert path.read_text().startswith("dear diary")


async def test_embedded_makes_its_folder(tmp_path):
    """The embedded default makes the folders it lies in, whatever their names, also where a loop runs."""
    path = tmp_path / "air flow%20" / "100% mine" / "incremental.db"
    assert upgrade_embedded(path) is True
    assert upgrade_embedded(path) is False
    assert path.is_file()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_sqlite_file_is_for_its_owner_alone(tmp_path, umask):
    """Items are in it: whatever the umask, nobody else may read the file, its write-ahead log, or its lock."""
    before = os.umask(umask)
    try:
        upgrade_embedded(tmp_path / "incremental.db")
        with closing(sqlite3.connect(tmp_path / "incremental.db")) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE asset_watermark_store SET identity = identity")
            database.commit()
            found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert found == dict.fromkeys([f"incremental.db{end}" for end in ("", "-wal", "-shm", ".lock")], 0o600)


def test_a_sqlite_file_that_was_made_for_several_stays_so(tmp_path):
    """Who makes the file beforehand, for a group, has decided."""
    path = tmp_path / "incremental.db"
    path.touch()
    path.chmod(0o660)
    upgrade_embedded(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


async def test_a_missing_folder_is_named(tmp_path):
    """SQLite says only that it cannot open a file: the folder that is not there is named, and not made."""
    url = f"sqlite:///{tmp_path}/nowhere/store.db"
    for operation in (check, upgrade):
        with pytest.raises(StoreError, match=f"there is no folder {tmp_path}/nowhere"):
            await operation(url)
    store = SqlStore(url=url)
    with pytest.raises(StoreError, match=f"there is no folder {tmp_path}/nowhere"):
        await store.list_watermarks()
    await store.aclose()
    assert not (tmp_path / "nowhere").exists()


def test_embedded_has_nowhere_to_be(tmp_path):
    """A folder that cannot be made is an unreachable store, named with its path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailableError, match="file"):
        upgrade_embedded(tmp_path / "file" / "incremental.db")


def test_embedded_is_no_database(tmp_path):
    """A file that is no database is an unreachable store, and is left as it is."""
    path = tmp_path / "incremental.db"
    path.write_text("dear diary, " * 100)
    with pytest.raises(StoreUnavailableError, match=r"incremental\.db"):
        upgrade_embedded(path)
    assert path.read_text().startswith("dear diary")


async def test_embedded_upgrades_an_older_file(tmp_path, on):
    """A file whose tables lack the newest revision is upgraded, not taken as done."""
    path = tmp_path / "incremental.db"
    upgrade_embedded(path)
    url = f"sqlite:///{path}"
    await on(url, lambda connection: downgrade_connection(connection, "here", "base"))
    assert upgrade_embedded(path) is True
    await check(url)
