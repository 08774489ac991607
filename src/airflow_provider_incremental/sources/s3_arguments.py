"""The check of the S3 arguments: what is wrong with them is said when the DAG is parsed, before anything is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.s3_partitions import Partitions
from airflow_provider_incremental.sources.s3_pattern import compile_choice

__all__ = ["check_s3_arguments", "require_key"]

_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}|arn:\S+")
_NO_BUCKET = re.compile(r".{1,2}|[0-9]+(\.[0-9]+){3}|.*\.\..*|[.-].*|.*[.-]", re.DOTALL)
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, but for capital letters and
underscores, which old buckets may have."""
_STORAGE_CLASSES = (
    *("STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "GLACIER_IR"),
    *("DEEP_ARCHIVE", "OUTPOSTS", "SNOW", "EXPRESS_ONEZONE"),
)
_S3_SCHEME = re.compile(r"(?i)s3[an]?://")
_ACCOUNT = re.compile(r"[0-9]{12}")
_LONGEST_KEY = 1024
_DATE_IN_BRACES = re.compile(r"\{[^{}]*%[YmdH][^{}]*\}")
_SETTLE, _LATENESS, _REREAD = 2.0, 3600.0, 3600.0
_TEN_YEARS = 10 * 366 * 24 * 3600.0


def check_s3_arguments(
    *,
    bucket: str,
    prefix: str = "",
    settle: float = _SETTLE,
    lateness: float = _LATENESS,
    reread: float = _REREAD,
    limit: int = 1000,
    order: str = "modified",
    partition_timezone: str = "UTC",
    pattern: str | None = None,
    regex: str | None = None,
    suffix: str | Sequence[str] | None = None,
    min_size: int = 0,
    storage_class: str | Sequence[str] | None = None,
    on_overwrite: str = "emit",
    versioned: bool = False,
    requester_pays: bool = False,
    bucket_owner: str | None = None,
    removals: bool = False,
) -> None:
    """Refuse arguments with which an S3 prefix cannot be watched; they are those of the S3 sources.

    :param limit: at most so many objects a batch.
    :raises ConfigurationError: naming the parameter, its value and what to write instead.

    >>> check_s3_arguments(bucket="landing", prefix="orders/", pattern="**/*.csv")
    """
    _check_bucket(bucket)
    _check_prefix(prefix)
    _check_choice("order", order, ("modified", "key"))
    _check_partitions(prefix, partition_timezone, order)
    _check_choice("on_overwrite", on_overwrite, ("emit", "ignore"))
    for name, text in (("pattern", pattern), ("regex", regex)):
        if text is not None:
            _check_text(name, text)
    compile_choice(pattern, regex)
    _check_names("suffix", suffix, '".csv", or [".csv", ".json"]')
    _check_names("storage_class", storage_class, '"STANDARD", or ["STANDARD", "GLACIER"]')
    for each in [storage_class] if isinstance(storage_class, str) else storage_class or ():
        _check_storage_class(each)
    _check_seconds(
        "settle", settle, least=1.0, remedy=f"S3 stamps objects with whole seconds, so give 1 to {_TEN_YEARS:.0f}"
    )
    for name, seconds in (("lateness", lateness), ("reread", reread)):
        _check_seconds(name, seconds, least=0.0, remedy=f"give 0 to read nothing again, or up to {_TEN_YEARS:.0f}")
    _check_windows(order, settle, lateness, reread)
    if on_overwrite == "ignore" and order == "modified" and not lateness:
        msg = (
            "on_overwrite='ignore' compares with what was delivered, which lateness=0 turns off; give 1 second or more"
        )
        raise ConfigurationError(msg)
    _check_number("limit", limit, least=1, remedy="objects a batch; give a whole number of 1 or more")
    _check_number("min_size", min_size, least=0, remedy="bytes; give a whole number of 0 or more")
    _check_access(versioned, requester_pays, bucket_owner)
    _check_removals(removals, order)


def _check_partitions(prefix: str, timezone: Any, order: str) -> None:
    if not Partitions.are_in(prefix):
        if timezone != "UTC":
            msg = (
                f"partition_timezone={timezone!r} is the zone of a date in the prefix, and prefix={prefix!r} has none; "
                "leave it out, or write the date as in 'events/{date:%Y/%m/%d}/'"
            )
            raise ConfigurationError(msg)
        return
    if order == "key":
        msg = (
            f"order='key' goes on behind the last key by itself; give what stands before the date in prefix={prefix!r}"
        )
        raise ConfigurationError(msg)
    Partitions(prefix, timezone)


def _check_windows(order: str, settle: float, lateness: float, reread: float) -> None:
    """Refuse a window that the order does not have, instead of leaving it without effect."""
    if order == "key":
        given = [("settle", settle, _SETTLE), ("lateness", lateness, _LATENESS)]
        remedy = "is for order='modified'; leave it out: with order='key', reread says how late an object may appear"
    else:
        given = [("reread", reread, _REREAD)]
        remedy = "is for order='key'; leave it out: with order='modified', lateness says how late an object may appear"
    for name, seconds, default in given:
        if seconds != default:
            raise ConfigurationError(f"{name}={seconds!r} {remedy}")


def _check_access(versioned: Any, requester_pays: Any, bucket_owner: Any) -> None:
    for name, flag in (("versioned", versioned), ("requester_pays", requester_pays)):
        if not isinstance(flag, bool):
            raise ConfigurationError(f"{name}={flag!r} is neither True nor False; give one of them")
    if bucket_owner is not None and not (isinstance(bucket_owner, str) and _ACCOUNT.fullmatch(bucket_owner)):
        msg = f"bucket_owner={bucket_owner!r} is no AWS account; give its 12 digits as a text"
        raise ConfigurationError(msg)


def _check_removals(removals: Any, order: str) -> None:
    if not isinstance(removals, bool):
        raise ConfigurationError(f"removals={removals!r} is neither True nor False; give one of them")
    if removals and order == "key":
        msg = (
            "removals=True compares with a listing of all keys, and order='key' only reads behind the last one; "
            "give order='modified', or leave removals out"
        )
        raise ConfigurationError(msg)


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        msg = f"{name}={value!r} is unknown; give one of {', '.join(map(repr, choices))}"
        raise ConfigurationError(msg)


def _check_names(name: str, value: Any, example: str) -> None:
    if value is None or (isinstance(value, str) and value):
        return
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(each, str) and each for each in value):
        msg = f"{name}={value!r} names nothing; give {example}, or leave it out"
        raise ConfigurationError(msg)


def _check_storage_class(name: str) -> None:
    """Refuse what is meant to be a class of S3; servers that are like S3 may have classes of their own."""
    written = re.sub(r"[\s-]", "_", name.upper())
    alike = get_close_matches(written, _STORAGE_CLASSES, n=1, cutoff=0.85) if written.replace("_", "").isalpha() else []
    if name not in _STORAGE_CLASSES and alike:
        raise ConfigurationError(f"storage_class={name!r} is no class of S3; do you mean {alike[0]!r}?")


def _check_number(name: str, value: Any, *, least: int, remedy: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"{name}={value!r} is not a number of {remedy}"
        raise ConfigurationError(msg)


def _check_bucket(bucket: str) -> None:
    _check_text("bucket", bucket)
    if _NO_BUCKET.fullmatch(bucket):
        remedy = "a name has 3 to 63 letters, digits, '.' and '-', with a letter or a digit first and last"
        raise ConfigurationError(f"bucket={bucket!r} is not the name of a bucket: {remedy}, no '..', and is no address")
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
    if not Partitions.are_in(prefix) and _DATE_IN_BRACES.search(prefix):
        msg = f"prefix={prefix!r} has a date in braces that do not begin with 'date:'; write %Y, %m and %d into"
        raise ConfigurationError(f"{msg} {{date:...}}, such as 'events/{{date:%Y/%m/%d}}/'")
    require_key("prefix", prefix)


def require_key(name: str, value: str) -> None:
    """Refuse a text that no key of S3 begins with.

    :raises ConfigurationError: when it is too long, or no UTF-8.
    """
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{name}={value!r} is no text of UTF-8, as keys of S3 are; correct it") from error
    if size > _LONGEST_KEY:
        msg = f"{name}={value[:40]!r}... has {size} bytes, and no key of S3 has more than {_LONGEST_KEY}; shorten it"
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
