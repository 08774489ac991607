"""The database that acceptance tests watch, and in which the DAGs note what they processed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg2


@dataclass
class Shop:
    """The database that is watched and that the DAGs note in what they processed."""

    url: str

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own and return its rows, if it has any."""
        connection = psycopg2.connect(self.url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement, parameters or None)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def processed(self, asset: str) -> list[int]:
        """Return the ids of the rows of an asset that were processed, as often as they were."""
        return [row[0] for row in self.execute("SELECT id FROM processed WHERE asset = %s ORDER BY id", asset)]
