"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import airflow_provider_incremental

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(airflow_provider_incremental.__path__, "airflow_provider_incremental.")
    # Alembic's own files run only inside of a migration.
    if not name.startswith("airflow_provider_incremental.migrations.") and not name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name: str) -> None:
    """What stands behind ``>>>`` is run, unless it is marked as needing a deployment."""
    module = importlib.import_module(name)
    # A client is whatever opens a connection; no example gets that far.
    assert doctest.testmod(module, extraglobs={"client": None}, optionflags=doctest.ELLIPSIS).failed == 0


def test_examples_are_found() -> None:
    """The test above would pass as well if it looked in the wrong place."""
    pace = importlib.import_module("airflow_provider_incremental.core.pace")
    assert doctest.testmod(pace).attempted >= 3
