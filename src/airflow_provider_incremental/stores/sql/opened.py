"""Every connection that an engine has opened, in the pool or lent, so that all of them can be ended at once."""

from __future__ import annotations

import weakref
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from airflow_provider_incremental.stores.sql.dialects import Dialect

__all__ = ["Opened"]


class Opened:
    """The connections of an engine that somebody still refers to."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.drivers: weakref.WeakSet[Any] = weakref.WeakSet()
        event.listen(engine.sync_engine, "connect", self._connected)

    def terminate(self, dialect: Dialect) -> None:
        """End all of them without waiting for anybody; one that has ended stays so."""
        for driver in list(self.drivers):
            dialect.terminate(driver)

    def _connected(self, connection: Any, *_: object) -> None:
        self.drivers.add(connection.driver_connection)
