"""The object that makes a prefix a store: its identity, and the proof that conditions are honoured there."""

from __future__ import annotations

import asyncio
import json
import uuid

from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.stores.objects.bucket import Bucket, Stored
from airflow_provider_incremental.stores.objects.faults import StorageFaultError, no_conditions

__all__ = ["Founding"]

_NAME = "store.json"
_NO_SUCH_TAG = '"00000000000000000000000000000000"'
_ATTEMPTS = 8


class Founding:
    """Who the store is; made by the first who asks.

    :param bucket: where it is.
    """

    def __init__(self, *, bucket: Bucket) -> None:
        self._bucket = bucket
        self._identity: str | None = None
        self._proven = False
        self._turn = asyncio.Lock()

    async def identity(self) -> str:
        """Return the id that the store got when it was made."""
        if self._identity is None:
            self._identity = _identity_in(await self._found(), self._bucket)
        return self._identity

    async def require_conditions(self) -> None:
        """Refuse to write where one writer would overwrite what another one wrote; asked before the first write.

        The object is written again, as it is, under conditions that are not met: so a service without conditions does
        no harm, and one with them does nothing.

        :raises StorageFaultError: when a condition was not honoured.
        """
        if self._proven:
            return
        async with self._turn:
            if not self._proven:
                there = await self._found()
                for etag in (None, _NO_SUCH_TAG):
                    await self._require_refused(there, etag)
                self._proven = True

    async def _require_refused(self, there: Stored, etag: str | None) -> None:
        for attempt in range(_ATTEMPTS):
            outcome = await self._bucket.write(_NAME, there.body, etag)
            if outcome is None:
                return
            if isinstance(outcome, str):
                header = "If-Match with another tag" if etag else "If-None-Match: *"
                what = f"the store {self._bucket.address}: {_NAME} could be overwritten, although {header} was demanded"
                raise no_conditions(self._bucket.address, what)
            if attempt == _ATTEMPTS - 1:
                raise outcome
            await asyncio.sleep(self._bucket.pause(attempt + 3))

    async def _found(self) -> Stored:
        """Return the object, which is made if there is none; of all who make it at once, one does."""
        there = await self._bucket.read(_NAME)
        if there is None:
            text = json.dumps({"store": "airflow-provider-incremental", "identity": str(uuid.uuid4())})
            await self._bucket.create(_NAME, text.encode())
            there = await self._bucket.read(_NAME)
        if there is None:
            msg = f"the store {self._bucket.address}: {_NAME} was written and is not there"
            raise StorageFaultError(msg, temporary=True)
        return there


def _identity_in(there: Stored, bucket: Bucket) -> str:
    try:
        return str(json.loads(there.body)["identity"])
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{_NAME} below {bucket.address} is not that of a store; give the store a prefix of its own"
        raise StoreError(msg) from error
