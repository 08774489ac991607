"""``S3KeyIncrementalTrigger``: arguments become an S3 source; the rest is the base's."""

from __future__ import annotations

import datetime as dt
from typing import Any, Unpack

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.sources.s3_arguments import check_s3_arguments
from airflow_provider_incremental.sources.s3_source import S3KeySource, cursor_from
from airflow_provider_incremental.triggers._base import IncrementalTrigger, Seconds, TriggerOptions, as_seconds
from airflow_provider_incremental.wiring.connections import S3ClientFactory

__all__ = ["S3KeyIncrementalTrigger"]


class S3KeyIncrementalTrigger(IncrementalTrigger):
    """Hands new and overwritten objects of an S3 prefix to the DAGs scheduled on an asset, in batches.

    Objects come in order of (LastModified, key), whatever the time zone or clock of this machine. An object is
    delivered again when it is overwritten. Folder markers (``dir/`` with nothing in it) are left out.

    :param asset_name: the name of the asset that this trigger's watcher belongs to.
    :param bucket: the bucket's name.
    :param prefix: only keys that start with it.
    :param pattern: only keys whose part after the prefix matches this glob: ``*`` and ``?`` stop at ``/``, ``**`` does
        not, ``[[]`` is a literal bracket.
    :param aws_conn_id: the Airflow connection (default ``aws_default``); None for what boto finds by itself.
    :param start: ``"earliest"`` (the default), ``"latest"``, or a time with its zone as ISO 8601 text: objects that
        were modified at that time or later.
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
        **options: Unpack[TriggerOptions],
    ) -> None:
        super().__init__(asset_name=asset_name, max_items=max_items, poll_interval=poll_interval, **options)
        self.bucket = bucket
        self.prefix = prefix
        self.pattern = pattern
        self.aws_conn_id = aws_conn_id
        self.settle = as_seconds("settle", settle, least=1)
        self.lateness = as_seconds("lateness", lateness)
        check_s3_arguments(bucket=bucket, prefix=prefix, pattern=pattern, settle=self.settle, lateness=self.lateness)
        if self.start not in ("earliest", "latest"):
            _moment(self.start)

    def create_source(self) -> Source:
        """Return the source; it connects at its first poll."""
        return S3KeySource(
            bucket=self.bucket,
            prefix=self.prefix,
            pattern=self.pattern,
            settle=self.settle,
            lateness=self.lateness,
            client=S3ClientFactory(aws_conn_id=self.aws_conn_id),
            conn_id=self.aws_conn_id,
        )

    def start_cursor(self) -> Cursor:
        """Return the cursor below the first object of the start time."""
        return cursor_from(_moment(self.start))


def _moment(start: Any) -> dt.datetime:
    remedy = 'give "earliest", "latest", or a time with its zone as ISO 8601 text, such as "2026-01-31T00:00:00+00:00"'
    try:
        moment = dt.datetime.fromisoformat(start)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"start={start!r} is not a start; {remedy}") from error
    if moment.tzinfo is None:
        raise ConfigurationError(f"start={start!r} has no time zone; {remedy}")
    return moment
