"""``S3KeyIncrementalTrigger``: arguments become an S3 source; the rest is the base's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal, Unpack

from airflow_provider_incremental.core.checks import Seconds, as_seconds
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.sources.s3_arguments import check_s3_arguments, require_key
from airflow_provider_incremental.sources.s3_filter import OnOverwrite
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_options import ObjectOptions
from airflow_provider_incremental.sources.s3_source import S3KeySource, cursor_from
from airflow_provider_incremental.triggers._base import IncrementalTrigger, TriggerOptions
from airflow_provider_incremental.wiring.connections import S3ClientFactory

__all__ = ["S3KeyIncrementalTrigger"]

_FIRST_YEAR, _LAST_YEAR = 1970, 9000


class S3KeyIncrementalTrigger(IncrementalTrigger):
    """Hands new and overwritten objects of an S3 prefix to the DAGs scheduled on an asset, in batches.

    Objects come in order of (LastModified, key), whatever the time zone or clock of this machine. An object is
    delivered again when it is overwritten. Folder markers (``dir/`` with nothing in it) are left out, and archived
    objects, which cannot be read; the watermark's status counts these.

    :param asset_name: the name of the asset that this trigger's watcher belongs to.
    :param bucket: the bucket's name.
    :param prefix: only keys that start with it.
    :param pattern: only keys whose part after the prefix matches this glob: ``*`` and ``?`` stop at ``/``, ``**`` does
        not, ``[[]`` is a literal bracket. ``regex:`` in front makes it a regular expression.
    :param regex: the same, without ``regex:`` in front.
    :param suffix: only keys that end with it, or with one of several.
    :param min_size: only objects of at least so many bytes (default 0).
    :param storage_class: only objects of this class, or of one of several, archived ones too.
    :param order: ``"modified"`` (the default), or ``"key"`` for keys that grow, such as dates, ULIDs and counters: a
        poll then reads behind the last key instead of the whole prefix.
    :param reread: seconds (default 3,600), for ``order="key"``: an object is delivered if it appears at most so long
        after the first object with a greater key.
    :param on_overwrite: ``"emit"`` (the default), or ``"ignore"``: a key is delivered once, whatever is written to it.
        For that, a trigger keeps 16 bytes for each key it delivered in memory; with ``order="key"``, of the window.
    :param versioned: read the newest versions, so that items name their ``version_id``. Needs
        ``s3:ListBucketVersions``, and costs more processor time.
    :param requester_pays: whether this account pays for the requests.
    :param bucket_owner: the account (12 digits) that must own the bucket, or nothing is read.
    :param partition_timezone: the zone of the dates in a prefix such as ``events/{date:%Y/%m/%d}/`` (default UTC). Of
        such a prefix, only the partitions from the watermark minus ``lateness`` until now are listed.
    :param removals: whether keys that are gone come as well (default False), in batches of kind ``"removed"``: those
        that were delivered, or were there at the start. The store keeps all keys, a few bytes each.
    :param region_name: the bucket's region, where it is not that of the connection.
    :param aws_conn_id: the Airflow connection (default ``aws_default``); None for what boto finds by itself.
    :param start: ``"earliest"`` (the default), ``"latest"``, or a time with its zone as ISO 8601 text: objects that
        were modified at that time or later. With ``order="key"``, a key: objects behind it.
    :param settle: seconds (default 2, at least 1) that a poll stays behind the server's clock: S3 stamps objects with
        whole seconds, and several of one second may appear one after the other.
    :param lateness: seconds (default 3,600) behind the watermark in which objects that appear late are still delivered,
        once. S3 dates a multipart upload when it *begins*
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html): give as long as the longest upload.
    :param max_items: at most so many objects a batch (default 1,000).
    :param poll_interval: seconds between two polls (default 60).
    :param options: :class:`IncrementalTrigger` describes namespace, key, announce_interval and redeliver_after.
    :raises ConfigurationError: in a DAG file, for an argument that cannot be used.

    >>> S3KeyIncrementalTrigger(asset_name="files", bucket="landing", prefix="orders/", pattern="*.csv")
    <airflow_provider_incremental.triggers.S3KeyIncrementalTrigger asset_name=files, ...>
    """

    __module__ = "airflow_provider_incremental.triggers"

    def __init__(
        self,
        *,
        asset_name: str,
        bucket: str,
        prefix: str = "",
        pattern: str | None = None,
        aws_conn_id: str | None = "aws_default",
        settle: Seconds = 2,
        lateness: Seconds = 3600,
        max_items: int = 1000,
        poll_interval: Seconds = 60,
        order: Literal["modified", "key"] = "modified",
        reread: Seconds = 3600,
        regex: str | None = None,
        suffix: str | Sequence[str] | None = None,
        min_size: int = 0,
        storage_class: str | Sequence[str] | None = None,
        on_overwrite: OnOverwrite = "emit",
        versioned: bool = False,
        requester_pays: bool = False,
        bucket_owner: str | None = None,
        region_name: str | None = None,
        partition_timezone: str = "UTC",
        removals: bool = False,
        **options: Unpack[TriggerOptions],
    ) -> None:
        super().__init__(asset_name=asset_name, max_items=max_items, poll_interval=poll_interval, **options)
        self.bucket = bucket
        self.prefix = prefix
        self.order = order
        self.aws_conn_id = aws_conn_id
        self.region_name = region_name
        self.partition_timezone = partition_timezone
        self.removals = removals
        self.settle = as_seconds("settle", settle, least=1)
        self.lateness = as_seconds("lateness", lateness)
        self.reread = as_seconds("reread", reread)
        self.objects = ObjectOptions(
            pattern=pattern,
            regex=regex,
            suffix=suffix,
            min_size=min_size,
            storage_class=storage_class,
            on_overwrite=on_overwrite,
            versioned=versioned,
            requester_pays=requester_pays,
            bucket_owner=bucket_owner,
        )
        self._check()

    def _check(self) -> None:
        check_s3_arguments(
            bucket=self.bucket,
            prefix=self.prefix,
            settle=self.settle,
            lateness=self.lateness,
            reread=self.reread,
            order=self.order,
            partition_timezone=self.partition_timezone,
            removals=self.removals,
            **self.objects,
        )
        for name, value in (("aws_conn_id", self.aws_conn_id), ("region_name", self.region_name)):
            if value is not None and not (isinstance(value, str) and value):
                raise ConfigurationError(f"{name}={value!r} is not a name; give a text, or None, or leave it out")
        if self.start not in ("earliest", "latest"):
            self.start_cursor()

    def create_source(self) -> Source:
        """Return the source; it connects at its first poll."""
        client = S3ClientFactory(aws_conn_id=self.aws_conn_id, region_name=self.region_name)
        if self.order == "key":
            return S3KeyOrderSource(
                bucket=self.bucket,
                prefix=self.prefix,
                reread=self.reread,
                client=client,
                conn_id=self.aws_conn_id,
                **self.objects,
            )
        return S3KeySource(
            bucket=self.bucket,
            prefix=self.prefix,
            settle=self.settle,
            lateness=self.lateness,
            partition_timezone=self.partition_timezone,
            removals=self.removals,
            client=client,
            conn_id=self.aws_conn_id,
            **self.objects,
        )

    def start_cursor(self) -> Cursor:
        """Return the cursor below the first object of the start time, or the key to start behind."""
        return _key(self.start, self.prefix) if self.order == "key" else cursor_from(_moment(self.start))


def _key(start: Any, prefix: str) -> str:
    if not isinstance(start, str) or not start:
        raise ConfigurationError(f'start={start!r} is not a start; give "earliest", "latest", or a key to start behind')
    if not start.startswith(prefix):
        msg = f"start={start!r} is not a key below prefix={prefix!r}; give the whole key"
        raise ConfigurationError(f"{msg}, such as start={prefix + start!r}")
    require_key("start", start)
    return start


def _moment(start: Any) -> dt.datetime:
    remedy = 'give "earliest", "latest", or a time with its zone as ISO 8601 text, such as "2026-01-31T00:00:00+00:00"'
    try:
        moment = dt.datetime.fromisoformat(start)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"start={start!r} is not a start; {remedy}") from error
    if moment.tzinfo is None:
        raise ConfigurationError(f"start={start!r} has no time zone; {remedy}")
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ConfigurationError(f"start={start!r} is no time at which an object was modified; {remedy}")
    return moment
