"""What each driver of MySQL says of a result's types, in the place that it has for the server's flags."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_incremental.sources.sql_disorder import disorder_of, type_told

FLAGS = (0x1001, 0x100, 0x800 | 0x1, 0, 0, 0, 0)
CODES = (3, 254, 254, 16, 4, 245, 254)
TOLD = [None, "ENUM", "SET", "BIT", "FLOAT", "JSON", None]
SHORT = [("c", code, None, None, None, None, 1) for code in CODES]
LONG = [(*each, flag) for each, flag in zip(SHORT, FLAGS, strict=True)]
DRIVERS = {
    "mysqlclient": SimpleNamespace(description=SHORT, description_flags=FLAGS),
    "pymysql": SimpleNamespace(
        description=SHORT, _result=SimpleNamespace(fields=[SimpleNamespace(flags=flag) for flag in FLAGS])
    ),
    "mysql-connector": SimpleNamespace(description=LONG, _result=None),
}


@pytest.mark.parametrize("dialect", ["mysql", "mariadb"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_flags_and_codes_are_read_from_every_driver(driver: str, dialect: str) -> None:
    """An enumeration and a set come as texts, and only the flags tell them from one."""
    cursor: Any = DRIVERS[driver]
    assert type_told(dialect, cursor) == TOLD


def test_a_driver_without_flags_still_tells_codes() -> None:
    """What such a driver calls a text is taken for one."""
    assert type_told("mysql", SimpleNamespace(description=SHORT)) == [
        None, None, None, "BIT", "FLOAT", "JSON", None,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["ENUM", "SET", "BIT", "FLOAT", "JSON"])
def test_the_same_word_means_nothing_elsewhere(name: str) -> None:
    """SQLite sorts and compares alike, whatever the declared type is called."""
    assert disorder_of("mysql", name, "c") is not None
    assert disorder_of("sqlite", name, "c") is None
