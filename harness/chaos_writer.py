"""What writes all the time into the sources of a chaos run: bursts, silences, late commits, overwrites.

What counts in the end is what the sources hold then, read from them: a write without an answer may have happened.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import psycopg2
from botocore.exceptions import BotoCoreError, ClientError

from harness.chaos_stage import BUCKET, Stage

__all__ = ["Writer", "contents"]

# A transaction that has held its rows back for longer is ended by the database; the trigger's settle is 6 s.
_LONGEST_TRANSACTION = "SET transaction_timeout = '4s'"
_NEW_ORDERS = "INSERT INTO public.orders SELECT FROM generate_series(1, %s) RETURNING id, revision"
_CHANGED_ORDERS = """
    UPDATE public.orders SET revision = revision + 1, updated_at = now()
    WHERE id IN (SELECT id FROM public.orders ORDER BY random() LIMIT %s) RETURNING id, revision
"""
_NEW_PAYMENTS = "INSERT INTO public.payments (amount) SELECT 1 FROM generate_series(1, %s) RETURNING id, 0"


class Writer:
    """Writes in a thread of its own from ``start`` to ``stop``.

    :param seed: of what is written, and in which bursts.
    :ivar written: when each item was written, by asset and name.
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        self.written: dict[tuple[str, str], float] = {}
        self._stage = stage
        self._chance = random.Random(seed)
        self._client = stage.s3.client()
        self._keys = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being written."""
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def once(self) -> None:
        """Write something into each source."""
        self._files(2)
        self._rows("orders", _NEW_ORDERS, 2)
        self._rows("payments", _NEW_PAYMENTS, 2)

    def _write(self) -> None:
        chance = self._chance
        steps: list[Callable[[], None]] = [
            lambda: self._files(chance.randint(1, 12)),
            lambda: self._rows("orders", _NEW_ORDERS, chance.choice((1, 10, 60, 160))),
            lambda: self._rows("orders", _NEW_ORDERS, chance.randint(1, 30), held=chance.uniform(0.5, 3)),
            lambda: self._rows("orders", _CHANGED_ORDERS, chance.randint(1, 10)),
            lambda: self._rows("payments", _NEW_PAYMENTS, chance.choice((1, 15, 50))),
            lambda: self._rows("payments", _NEW_PAYMENTS, chance.choice((1, 5, 80))),
        ]
        while not self._stopped.wait(chance.choice((0, 0, 0, 0.2, 0.5, 1, 1, 2, 5))):
            # The server may be down at present; then nothing is written, or perhaps it is.
            with suppress(psycopg2.Error, BotoCoreError, ClientError):
                chance.choice(steps)()

    def _files(self, count: int) -> None:
        for _ in range(count):
            self._keys += 1
            # Every fifth one overwrites an earlier object.
            number = self._chance.randint(1, self._keys) if self._keys % 5 == 0 else self._keys
            key = f"in/file-{number:06}.csv"
            etag = self._client.put_object(Bucket=BUCKET, Key=key, Body=f"{self._keys}".encode())["ETag"]
            self._wrote("files", key, etag.strip('"'))

    def _rows(self, asset: str, statement: str, count: int, held: float = 0) -> None:
        with closing(psycopg2.connect(self._stage.shop_url)) as connection:
            with connection, connection.cursor() as cursor:
                cursor.execute(_LONGEST_TRANSACTION)
                cursor.execute(statement, (count,))
                rows = cursor.fetchall()
                time.sleep(held)
            for number, revision in rows:
                self._wrote(asset, number, revision)

    def _wrote(self, asset: str, thing: Any, version: Any) -> None:
        self.written[asset, f"{thing} {version}"] = time.time()


def contents(stage: Stage) -> dict[str, set[str]]:
    """Return what the sources hold: the name of every item, by asset."""
    with closing(stage.s3.client()) as client:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="in/")
        files = {f"{each['Key']} {each['ETag'].strip(chr(34))}" for page in pages for each in page.get("Contents", ())}
    orders = stage.query(stage.shop_url, "SELECT id, revision FROM public.orders")
    payments = stage.query(stage.shop_url, "SELECT id, 0 FROM public.payments")
    return {
        "files": files,
        "orders": {f"{number} {revision}" for number, revision in orders},
        "payments": {f"{number} {revision}" for number, revision in payments},
    }
