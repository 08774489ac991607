"""What both S3 sources have in common: which objects of a bucket they watch, and how they ask for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.sources.s3_errors import Place
from airflow_provider_incremental.sources.s3_filter import ObjectFilter, OnOverwrite, item_of
from airflow_provider_incremental.sources.s3_listing import ListingClient, ListingClientFactory, S3Listing
from airflow_provider_incremental.sources.s3_marks import Marks
from airflow_provider_incremental.sources.s3_pages import ListedObject

__all__ = ["ObjectOptions", "ObjectSource"]


class ObjectOptions(TypedDict, total=False):
    """Which objects are meant, and what is said with every request.

    ``pattern`` and ``regex`` cover the key below the prefix; ``suffix`` is one or several; ``min_size`` in bytes;
    ``storage_class`` one or several, by default all that can be read; ``on_overwrite="ignore"`` delivers a key once;
    ``versioned`` reads the newest versions, with their ids; ``bucket_owner`` is the account that must own the bucket.
    """

    pattern: str | None
    regex: str | None
    suffix: str | Sequence[str] | None
    min_size: int
    storage_class: str | Sequence[str] | None
    on_overwrite: OnOverwrite
    versioned: bool
    requester_pays: bool
    bucket_owner: str | None


class ObjectSource(Source):
    """A source over the objects of one prefix.

    :param static_prefix: what every key begins with, and nothing else than this is listed.
    :param below: where in a key the part below the prefix begins, for a prefix with dates; None for a key in none.
    """

    def __init__(
        self,
        *,
        bucket: str,
        prefix: str,
        static_prefix: str,
        client: ListingClient | ListingClientFactory,
        conn_id: str | None,
        monotonic: Callable[[], float],
        below: Callable[[str], int | None] | None = None,
        **options: Unpack[ObjectOptions],
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._monotonic = monotonic
        self._ignores_overwrites = options.get("on_overwrite", "emit") == "ignore"
        self._marks = Marks(ignores_overwrites=self._ignores_overwrites)
        place = Place(bucket=bucket, prefix=static_prefix, conn_id=conn_id)
        self._wanted = ObjectFilter(
            place=str(place),
            below=below or (lambda _: len(static_prefix)),
            pattern=options.get("pattern"),
            regex=options.get("regex"),
            suffix=options.get("suffix"),
            min_size=options.get("min_size", 0),
            storage_class=options.get("storage_class"),
        )
        self._listing = S3Listing(
            place=place,
            client=client,
            monotonic=monotonic,
            versioned=options.get("versioned", False),
            arguments=_arguments(options),
        )

    def _item(self, each: ListedObject) -> dict[str, Any]:
        return item_of(self._bucket, each)

    async def aclose(self) -> None:
        """Give back the client, unless it is the caller's."""
        await self._listing.aclose()


def _arguments(options: ObjectOptions) -> dict[str, str]:
    payer = {"RequestPayer": "requester"} if options.get("requester_pays") else {}
    owner = options.get("bucket_owner")
    return payer | ({"ExpectedBucketOwner": owner} if owner else {})
