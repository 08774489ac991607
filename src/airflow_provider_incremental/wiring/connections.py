"""From an Airflow connection to what a source reads with. The hooks are loaded when they are needed: they are heavy."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

__all__ = ["S3ClientFactory"]


class S3ClientFactory:
    """Makes asynchronous S3 clients from an Airflow connection, by way of the Amazon provider's hook.

    The hook settles credentials, roles, region, endpoint, proxies and retries, as for every operator.

    :param aws_conn_id: the connection; None for what boto finds by itself.
    """

    def __init__(self, *, aws_conn_id: str | None) -> None:
        self._aws_conn_id = aws_conn_id

    async def __call__(self) -> AbstractAsyncContextManager[Any]:
        """Return the context of a new client."""
        module = await asyncio.to_thread(import_module, "airflow.providers.amazon.aws.hooks.s3")
        context: AbstractAsyncContextManager[Any] = await module.S3Hook(aws_conn_id=self._aws_conn_id).get_async_conn()
        return context
