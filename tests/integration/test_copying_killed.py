"""The command that copies a store is killed for good in the middle, and given again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from airflow_provider_incremental.core.copying import contents_of
from airflow_provider_incremental.core.snapshot import staging
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing._stage import KEY, NOTHING, ORDERS, WATCHES, done, slice_of

_HALF = "SELECT version FROM asset_watermarks WHERE asset_name = 'airflow-incremental copy' FOR UPDATE"


async def test_a_copy_that_is_killed_is_given_again(postgres_database: str, tmp_path: Path) -> None:
    """After kill -9 between two pages the new store shows nothing; the second run copies all of it."""
    urls = f"sqlite:///{tmp_path}/store.db", postgres_database
    for url in urls:
        await upgrade(url)
    source, target = (SqlStore(url=url) for url in urls)
    watermark = await source.register(KEY, WATCHES)
    for _ in range(10):
        new = [slice_of(None, number, [{"number": number, "text": "x" * 10_000}]) for number in range(100)]
        watermark, _ = await source.commit(watermark, 1, new, NOTHING)
    await source.subscribe(ORDERS, "load", "earliest")
    await done(source, 3)
    command = [sys.executable, "-m", "airflow_provider_incremental.cli", "copy", "--from", urls[0], "--to", urls[1]]
    command += ["--force"]
    env = os.environ | {"AIRFLOW_HOME": str(tmp_path)}
    first = await asyncio.create_subprocess_exec(*command, env=env)
    await _kill_half_way(target, first)
    assert await first.wait() == -signal.SIGKILL
    assert await target.load(KEY) is None
    assert await target.history(KEY) == []
    assert [each.key for each in await target.list_watermarks()] == [staging(KEY)]
    second = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.PIPE)
    said, _ = await second.communicate()
    assert (second.returncode, "1 copied." in said.decode()) == (0, True)
    assert await contents_of(target, KEY) == await contents_of(source, KEY)
    assert [each.key for each in await target.list_watermarks()] == [KEY]
    for store in (source, target):
        await store.aclose()


async def _kill_half_way(target: SqlStore, copying: asyncio.subprocess.Process) -> None:
    """Kill it while it waits for the row that counts its pages, which is held here."""
    async with asyncio.timeout(60), target.database.engine.connect() as connection:
        while copying.returncode is None:
            pages = (await connection.exec_driver_sql(_HALF)).scalar()
            if pages:
                copying.kill()
                await copying.wait()
                await connection.rollback()
                return
            await connection.rollback()
            await asyncio.sleep(0.01)
