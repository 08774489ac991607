"""Where in S3 a store is, and by which Airflow connection it is reached, read from one address without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.stores.timeouts import TIMEOUT, timeout_from

__all__ = ["SCHEME", "ObjectAddress"]

SCHEME = "s3"

_SETTING = "[incremental] store"
_EXAMPLE = "s3://bucket/prefix?aws_conn_id=aws_default"
_OPTIONS = ("aws_conn_id", "region_name", "timeout")
_DEFAULT = "aws_default"
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, and underscores of older buckets
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
# Those that need no encoding anywhere: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()=/-]*")
_LONGEST_PREFIX = 500  # of 1,024 bytes, the rest is ours


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAddress:
    """A place for a store, as ``[incremental] store`` names it.

    :param bucket: the bucket, which must be there.
    :param prefix: what all keys begin with: empty, or with a slash at its end.
    :param conn_id: the Airflow connection, which has the credentials and the endpoint.
    :param region: the region; None for that of the connection.
    :param timeout: seconds for which an operation is tried before it fails, 30 by default.

    >>> ObjectAddress.parse("s3://watermarks/prod?aws_conn_id=minio").prefix
    'prod/'
    """

    bucket: str
    prefix: str = ""
    conn_id: str = _DEFAULT
    region: str | None = None
    timeout: float = TIMEOUT

    def __str__(self) -> str:
        """Return the place as messages name it."""
        return f"{SCHEME}://{self.bucket}/{self.prefix}"

    @classmethod
    def parse(cls, url: str) -> ObjectAddress:
        """Return the place that a setting names.

        :raises ConfigurationError: when it cannot be used; the message says why.
        """
        parts = urlsplit(url)
        if "@" in parts.netloc:
            msg = f"{_SETTING} has a login in it; name the connection that has the credentials: {_EXAMPLE}"
            raise ConfigurationError(msg)
        if not _BUCKET.fullmatch(parts.netloc):
            msg = f"{_SETTING} names the bucket {parts.netloc!r}, which cannot be one; write {_EXAMPLE}"
            raise ConfigurationError(msg)
        prefix = unquote(parts.path).strip("/")
        if not _PREFIX.fullmatch(prefix) or len(prefix) > _LONGEST_PREFIX or parts.fragment:
            msg = (
                f"{_SETTING} has the prefix {prefix[:60]!r}; use at most {_LONGEST_PREFIX} letters, digits, slashes "
                "and any of !_.*'()=-, which need no encoding"
            )
            raise ConfigurationError(msg)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        for name, value in options.items():
            if name not in _OPTIONS or not value:
                msg = f"{_SETTING} has the option {name}={value!r}; it takes {', '.join(_OPTIONS)}: {_EXAMPLE}"
                raise ConfigurationError(msg)
        return cls(
            bucket=parts.netloc,
            prefix=f"{prefix}/" if prefix else "",
            conn_id=options.get("aws_conn_id", _DEFAULT),
            region=options.get("region_name"),
            timeout=timeout_from(options.get("timeout")),
        )
