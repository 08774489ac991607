"""Where an API is and how its client shows who it is, read from one address."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.stores.timeouts import TIMEOUT, timeout_from

__all__ = ["OPTIONS", "SCHEMES", "Address", "is_api"]

SCHEMES = ("api+https", "api+http")
"""Of addresses that this client serves."""

_SETTING = "[incremental] store"
_EXAMPLE = "api+https:// with host, port and path"
_WHO = (
    "In an address, write a token as password without user, or user and password, or ?token_file=FILE; in a "
    "connection, give a password that is the token, or login and password, or the extra token_file"
)
OPTIONS = ("token_file", "token_url", "ca_file", "timeout")
"""Of an address, and the extras of a connection that leads to an API."""

_LOGIN = "/auth/token"


def is_api(url: str) -> bool:
    """Whether an address is one of an API."""
    return url.partition("://")[0].lower() in SCHEMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An API as ``[incremental] store`` names it.

    :param base: the part of every URL before the version, without a slash at the end.
    :param login: for asking an Airflow for tokens; None where the token is given.
    :param secret: the password that goes with it, or the token itself.
    :param token_file: a file that has the token, read again when the token is refused.
    :param token_url: where tokens are asked for; by default ``/auth/token`` of the same server.
    :param ca_file: certificates that are trusted in place of this machine's.
    :param timeout: seconds for which an operation is tried before it fails.
    """

    base: str
    login: str | None = None
    secret: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    token_url: str = field(repr=False)
    ca_file: Path | None = None
    timeout: float = TIMEOUT

    @classmethod
    def parse(cls, url: str) -> Address:
        """Return the address that a setting names.

        :raises ConfigurationError: when it cannot be used; the message has no secret in it.

        >>> Address.parse("api+https://:s3cret@airflow.example/incremental/api").base
        'https://airflow.example/incremental/api'
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            port = -1
        scheme = parts.scheme.removeprefix("api+")
        if port == -1 or not parts.hostname or parts.fragment:
            msg = f"{_SETTING} is not the address of an API; write {_EXAMPLE}"
            raise ConfigurationError(msg)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        origin = f"{scheme}://{host}" + (f":{port}" if port else "")
        options = _options(parts.query)
        login, secret = unquote(parts.username or "") or None, unquote(parts.password or "") or None
        if login and not secret:
            msg = f"{_SETTING} has a user and no password for {origin}. {_WHO}"
            raise ConfigurationError(msg)
        if not secret and "token_file" not in options:
            msg = f"{_SETTING} says nothing of who calls {origin}. {_WHO}"
            raise ConfigurationError(msg)
        return cls(
            base=origin + parts.path.rstrip("/"),
            login=login,
            secret=secret,
            token_file=Path(options["token_file"]) if "token_file" in options else None,
            token_url=_whole(options.get("token_url", origin + _LOGIN)),
            ca_file=Path(options["ca_file"]) if "ca_file" in options else None,
            timeout=timeout_from(options.get("timeout")),
        )

    def tls(self) -> ssl.SSLContext:
        """Return what the server's certificate is held against.

        :raises ConfigurationError: when the file of certificates cannot be read.
        """
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            msg = f"ca_file={str(self.ca_file)!r} of {_SETTING} cannot be read: {error}"
            raise ConfigurationError(msg) from error


def _whole(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        msg = f"token_url of {_SETTING} is no URL; write the whole of it, as https://airflow.example{_LOGIN}"
        raise ConfigurationError(msg)
    return url


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        msg = f"{_SETTING} has the option {unknown[0]!r}, which is none of {', '.join(OPTIONS)}"
        raise ConfigurationError(msg)
    return options
