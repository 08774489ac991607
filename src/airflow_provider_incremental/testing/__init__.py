"""Published for tests of DAGs, triggers, sources and stores: fakes, and the suites that a backend must pass.

:mod:`.fakes` and :mod:`.crashing` need nothing but this package; :mod:`.store_contract` and :mod:`.source_contract`
need pytest and pytest-asyncio.
"""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.crashing import CrashingStore, ProcessDied
from airflow_provider_incremental.testing.fakes import FakeClock, ListItem, ListSource

__all__ = ["CrashingStore", "FakeClock", "ListItem", "ListSource", "MemoryStore", "ProcessDied"]

if "pytest" in sys.modules:  # so that a failing assertion of the suites shows its values
    _suites = (f"{__name__}.{path.stem}" for path in Path(__file__).parent.glob("[_s]*[a-z].py"))
    sys.modules["pytest"].register_assert_rewrite(*_suites)
