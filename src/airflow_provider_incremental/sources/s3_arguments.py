"""The check of the S3 arguments: what is wrong with them is said when the DAG is parsed, before anything is read."""

from __future__ import annotations

import re

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.s3_pattern import compile_pattern

__all__ = ["check_s3_arguments"]

_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}|arn:\S+")
_S3_SCHEME = re.compile(r"(?i)s3[an]?://")
_LONGEST_PREFIX = 1024
_TEN_YEARS = 10 * 366 * 24 * 3600.0


def check_s3_arguments(
    *,
    bucket: str,
    prefix: str = "",
    pattern: str | None = None,
    settle: float = 2.0,
    lateness: float = 3600.0,
    limit: int = 1000,
) -> None:
    """Refuse arguments with which an S3 prefix cannot be watched; they are those of :class:`S3KeySource`.

    :param limit: at most so many objects a batch.
    :raises ConfigurationError: naming the parameter, its value and what to write instead.

    >>> check_s3_arguments(bucket="landing", prefix="orders/", pattern="**/*.csv")
    """
    _check_bucket(bucket)
    _check_prefix(prefix)
    if pattern is not None:
        _check_text("pattern", pattern)
        compile_pattern(pattern)
    _check_seconds(
        "settle", settle, least=1.0, remedy=f"S3 stamps objects with whole seconds, so give 1 to {_TEN_YEARS:.0f}"
    )
    _check_seconds("lateness", lateness, least=0.0, remedy=f"give 0 to read nothing again, or up to {_TEN_YEARS:.0f}")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        msg = f"limit={limit!r} is not a number of objects a batch; give a whole number of 1 or more"
        raise ConfigurationError(msg)


def _check_bucket(bucket: str) -> None:
    _check_text("bucket", bucket)
    if _BUCKET.fullmatch(bucket):
        return
    name, _, prefix = _S3_SCHEME.sub("", bucket).strip("/").partition("/")
    remedy = "give the name alone (letters, digits, '.', '-'), or the ARN of an access point"
    if _BUCKET.fullmatch(name):
        remedy = f"give the name alone, bucket={name!r}" + (f", and prefix={prefix!r}" if prefix else "")
    msg = f"bucket={bucket!r} is not the name of a bucket; {remedy}"
    raise ConfigurationError(msg)


def _check_prefix(prefix: str) -> None:
    _check_text("prefix", prefix)
    if _S3_SCHEME.match(prefix):
        path = _S3_SCHEME.sub("", prefix).partition("/")[2]
        msg = f"prefix={prefix!r} is a URL; give what stands behind the bucket's name: prefix={path!r}"
        raise ConfigurationError(msg)
    size = len(prefix.encode("utf-8", "surrogateescape"))
    if size > _LONGEST_PREFIX:
        msg = (
            f"prefix={prefix[:40]!r}... has {size} bytes, and no key of S3 has more than {_LONGEST_PREFIX}; shorten it"
        )
        raise ConfigurationError(msg)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        msg = f"{name}={value!r} is not a text; give one string"
        raise ConfigurationError(msg)


def _check_seconds(name: str, value: float, *, least: float, remedy: str) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not least <= value <= _TEN_YEARS:
        msg = f"{name}={value!r} is not a usable number of seconds; {remedy}"
        raise ConfigurationError(msg)
