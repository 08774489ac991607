"""What ``airflow-incremental api-server`` does: serves a store until it is told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
from argparse import Namespace

import uvicorn

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.migrations.run import check, upgrade_embedded
from airflow_provider_incremental.stores.api.address import is_api
from airflow_provider_incremental.stores.registry import has_tables, make_store
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.limits import Limits
from airflow_provider_incremental.web.api.tokens import TokenAuth
from airflow_provider_incremental.wiring.stores import embedded_path, is_embedded, say_if_embedded, store_url

__all__ = ["serve"]

log = logging.getLogger(__name__)

_KEEP_ALIVE = 75
_STOP_WITHIN = 20
_MEGABYTE = 2**20


def serve(given: Namespace) -> str:
    """Serve a store over HTTP until the process is told to stop.

    :raises ConfigurationError: when there is no policy, no TLS where it is needed, or no store that can be served.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    auth = TokenAuth(path=given.tokens)
    _require_tls(given)
    url = store_url(given.store)
    if is_api(url):
        msg = "the store of an api-server is itself an API; give --store, or set [incremental] store here to a database"
        raise ConfigurationError(msg)
    limits = Limits(
        request_bytes=int(given.max_request_mb * _MEGABYTE), requests_per_second=given.max_requests_per_second
    )
    asyncio.run(_serve(given, url, auth, limits))
    return "stopped"


async def _serve(given: Namespace, url: str, auth: TokenAuth, limits: Limits) -> None:
    say_if_embedded(url)
    if is_embedded(url):
        await asyncio.to_thread(upgrade_embedded, embedded_path())
    elif has_tables(url):
        await check(url)
    store = make_store(url)
    config = uvicorn.Config(
        create_app(store, auth, limits=limits),
        host=given.host,
        port=given.port,
        ssl_certfile=given.tls_cert,
        ssl_keyfile=given.tls_key,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_STOP_WITHIN,
    )
    try:
        await uvicorn.Server(config).serve()
    finally:
        await store.aclose()


def _require_tls(given: Namespace) -> None:
    if (given.tls_cert is None) != (given.tls_key is None):
        msg = "give --tls-cert and --tls-key together"
        raise ConfigurationError(msg)
    if given.tls_cert is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(given.tls_cert, given.tls_key)
        except OSError as error:  # which an error of SSL is too
            msg = f"--tls-cert {given.tls_cert} and --tls-key {given.tls_key} cannot be used: {error}"
            raise ConfigurationError(msg) from error
    if given.tls_cert is None and not given.plain_http and not _is_this_machine(given.host):
        msg = (
            f"--host {given.host} would send tokens over the network in the clear: give --tls-cert and --tls-key, or "
            "--plain-http behind a proxy that has TLS"
        )
        raise ConfigurationError(msg)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
