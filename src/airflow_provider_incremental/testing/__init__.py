"""Published for tests of DAGs, triggers, sources and stores: fakes, and the suites that a backend must pass.

:mod:`.fakes` and :mod:`.crashing` need nothing but this package; :mod:`.store_contract` and :mod:`.source_contract`
need pytest and pytest-asyncio.
"""

from __future__ import annotations

import sys

from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.crashing import CrashingStore, ProcessDied
from airflow_provider_incremental.testing.fakes import FakeClock, ListItem, ListSource

__all__ = ["CrashingStore", "FakeClock", "ListItem", "ListSource", "MemoryStore", "ProcessDied"]

_STORE_SUITE = ("_stage", "_watermarks", "_commits", "_values", "_batches", "_consumers", "_leases")
_SOURCE_SUITE = ("source_contract", "_source_window")

if "pytest" in sys.modules:  # so that a failing assertion of the suites shows its values
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{suite}" for suite in (*_STORE_SUITE, *_SOURCE_SUITE)))
