"""What the options of an address mean to the driver that we use, whichever driver they were written for."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlencode

from sqlalchemy.engine import URL

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = ["SETTING", "mysql_arguments", "postgresql_arguments"]

SETTING = "[incremental] store"

_CONNECT_TIMEOUT = 10
_NO_TLS = {"", "0", "false", "disable", "disabled", "allow", "prefer", "preferred"}
_VERIFIED = {"verify-ca", "verify_ca", "verify-full", "verify_full", "verify_identity", "verify-identity"}
_HOST_VERIFIED = {"verify-full", "verify_full", "verify_identity", "verify-identity"}


def postgresql_arguments(url: URL) -> dict[str, Any]:
    """Return what asyncpg is called with; it reads the options of libpq (``sslmode``, ``options``, ...) itself.

    :raises ConfigurationError: when an option is not the number that it has to be.
    """
    query = dict(url.query)
    arguments: dict[str, Any] = {"timeout": _number(query.pop("connect_timeout", _CONNECT_TIMEOUT), "connect_timeout")}
    sizes = [query.pop(name, None) for name in ("statement_cache_size", "prepared_statement_cache_size")]
    if any(size is not None for size in sizes):
        # Behind a pooler that hands every transaction to another server: both caches keep statements, or none does.
        size = int(_number(next(size for size in sizes if size is not None), "statement_cache_size"))
        arguments |= {"statement_cache_size": size, "prepared_statement_cache_size": size}
    if "ssl" in query:
        query["sslmode"] = query.pop("ssl")
    if query:
        arguments["dsn"] = f"postgresql:///?{urlencode(query, doseq=True)}"
    return arguments


def mysql_arguments(url: URL) -> dict[str, Any]:
    """Return what aiomysql is called with. Of the options it gets the socket, the time-out, and TLS.

    :raises ConfigurationError: when an option cannot be used.
    """
    query = {name: str(value) for name, value in url.query.items()}
    arguments: dict[str, Any] = {
        "charset": "utf8mb4",
        "connect_timeout": _number(query.get("connect_timeout", _CONNECT_TIMEOUT), "connect_timeout"),
    }
    if socket := query.get("unix_socket"):
        arguments["unix_socket"] = socket
    if context := _mysql_tls(query):
        arguments["ssl"] = context
    return arguments


def _mysql_tls(query: dict[str, str]) -> ssl.SSLContext | None:
    """Return how to encrypt, as MySQL's and as PostgreSQL's clients are told; None for not at all."""
    authority = query.get("ssl_ca") or query.get("sslrootcert")
    certificate = query.get("ssl_cert") or query.get("sslcert")
    given = [query[name].lower() for name in ("ssl_mode", "ssl-mode", "sslmode", "ssl") if name in query]
    mode = given[0] if given else "verify-full" if authority else "require" if certificate else ""
    if mode in _NO_TLS:
        return None
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate:
            context.load_cert_chain(certificate, query.get("ssl_key") or query.get("sslkey"))
    except OSError as error:
        files = f"ssl_ca={authority!r}, ssl_cert={certificate!r}"
        msg = f"{SETTING} names a certificate that cannot be read: {files}: {error}"
        raise ConfigurationError(msg) from error
    context.check_hostname = mode in _HOST_VERIFIED or (authority is not None and mode not in _VERIFIED)
    if mode not in _VERIFIED and authority is None:
        context.verify_mode = ssl.CERT_NONE  # as MySQL's own clients do without an authority: encrypt, trust anyone
    return context


def _number(value: object, name: str) -> float:
    try:
        return float(str(value))
    except ValueError:
        msg = f"{SETTING} has {name}={value!r}, which is not a number"
        raise ConfigurationError(msg) from None
