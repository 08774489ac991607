"""The two operations that list a bucket, as requests and answers: of objects, and of the newest versions of objects."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from airflow_provider_incremental.sources.s3_errors import Place, broken_answer
from airflow_provider_incremental.sources.s3_rows import Rows

__all__ = [
    "Answer",
    "ListedObject",
    "Operation",
    "Page",
    "Position",
    "Tokens",
    "key_order",
    "objects_in",
    "server_time",
]

Answer = Mapping[str, Any]

Position = tuple[dt.datetime, str]
"""Where an object stands in the order of all: when it was last modified (aware, UTC), then its key."""


class ListedObject(NamedTuple):
    """One object as a listing shows it. Tuples of them sort in the source's order."""

    last_modified: dt.datetime
    key: str
    etag: str
    size: int
    storage_class: str
    version_id: str | None = None

    @property
    def position(self) -> Position:
        """Where it stands in the order."""
        return self.last_modified, self.key


class Operation(NamedTuple):
    """How an operation is called, and the names in its requests and answers.

    :param entries: the member of the answer that has the objects.
    :param after: the parameter that begins a listing behind a key.
    :param tokens: which members of an answer go into which parameters of the next request.
    """

    method: str
    entries: str
    after: str
    tokens: Mapping[str, str]


OBJECTS = Operation(
    method="list_objects_v2",
    entries="Contents",
    after="StartAfter",
    tokens={"NextContinuationToken": "ContinuationToken"},
)
VERSIONS = Operation(
    method="list_object_versions",
    entries="Versions",
    after="KeyMarker",
    tokens={"NextKeyMarker": "KeyMarker", "NextVersionIdMarker": "VersionIdMarker"},
)


_IN_COLUMNS = {"LastModified", "Key", "ETag", "Size", "StorageClass"}


class Tokens:
    """Follows continuation tokens, and notices when they go round in a circle of any length, in constant memory."""

    def __init__(self, operation: Operation, place: Place) -> None:
        self._operation = operation
        self._place = place
        self._remembered: dict[str, str] | None = None
        self._steps = 0
        self._remember_at = 1

    def after(self, answer: Answer) -> dict[str, str] | None:
        """Return the parameters that ask for the next page, or None after the last.

        :raises S3ListingError: when the answer cannot be one of a complete listing.
        """
        truncated = answer.get("IsTruncated")
        if truncated is None:
            raise broken_answer(self._place, "the answer does not say whether it is complete (no IsTruncated)")
        if not truncated:
            return None
        names = self._operation.tokens
        # A marker that is a key is encoded where the answer's keys are: tokens and ids of versions never are.
        encoded = "NextKeyMarker" if answer.get("EncodingType") == "url" else None
        token = {
            parameter: decoded_key(answer[name]) if name == encoded else answer[name]
            for name, parameter in names.items()
            if answer.get(name)
        }
        first = next(iter(names))
        if names[first] not in token:
            raise broken_answer(self._place, f"the answer is truncated, but has no {first}")
        if token == self._remembered:
            raise broken_answer(self._place, f"the answers go round in a circle, a {first} came again")
        self._steps += 1
        if self._steps == self._remember_at:
            self._remembered, self._remember_at = token, 2 * self._steps
        return token


class Page(Sequence[ListedObject]):
    """The objects of an answer by column. Each is made when it is its turn, and gone when the next one is."""

    def __init__(self, rows: Rows, encoded: bool) -> None:
        columns = rows.columns
        keys = columns["Key"]
        self._columns: tuple[Sequence[Any], ...] = (
            columns["LastModified"],
            [decoded_key(key) for key in keys] if encoded else keys,
            [etag.strip('"') for etag in columns["ETag"]],
            columns["Size"],
            [name or "STANDARD" for name in columns["StorageClass"]],
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._columns[0])

    def __iter__(self) -> Iterator[ListedObject]:
        """Return them one after the other."""
        return map(ListedObject, *self._columns)

    def __getitem__(self, at: Any) -> Any:
        """Return one."""
        return ListedObject(*(column[at] for column in self._columns))


def objects_in(answer: Answer, operation: Operation, place: Place) -> Sequence[ListedObject]:
    """Return the objects of an answer; of versions, the newest of each object.

    :raises S3ListingError: when one of them cannot be read.
    """
    encoded = answer.get("EncodingType") == "url"
    try:
        entries = answer.get(operation.entries, ())
        if isinstance(entries, Rows) and entries.columns.keys() >= _IN_COLUMNS:
            return Page(entries, encoded)
        return [_object(entry, encoded) for entry in entries if entry.get("IsLatest", True)]
    except (KeyError, TypeError, ValueError) as error:
        raise broken_answer(place, f"an object of the answer cannot be read ({error!r})") from error


def _object(entry: Mapping[str, Any], encoded: bool) -> ListedObject:
    last_modified: dt.datetime = entry["LastModified"]
    if last_modified.tzinfo is not dt.UTC:
        if last_modified.tzinfo is None:
            msg = "LastModified without a time zone"
            raise ValueError(msg)
        last_modified = last_modified.astimezone(dt.UTC)
    return ListedObject(
        last_modified,
        decoded_key(entry["Key"]) if encoded else entry["Key"],
        str(entry.get("ETag", "")).strip('"'),
        int(entry["Size"]),
        str(entry.get("StorageClass") or "STANDARD"),
        entry.get("VersionId"),
    )


def decoded_key(key: str) -> str:
    """Return a key as it is stored: bytes that are no UTF-8 stay apart from each other, as lone surrogates."""
    if "%" not in key and "+" not in key:
        return key
    return unquote_to_bytes(key.replace("+", " ")).decode("utf-8", "surrogateescape")


def key_order(key: str) -> bytes:
    """Return what S3 sorts keys by."""
    return key.encode("utf-8", "surrogateescape")


def server_time(answer: Answer, place: Place) -> dt.datetime:
    """Return the time at the server when it answered.

    :raises S3ListingError: when the answer does not say.
    """
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if not date:
        raise broken_answer(place, "the answer has no Date header, which says how far objects can be taken as complete")
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError) as error:
        raise broken_answer(place, f"the Date header {date!r} of the answer cannot be read") from error
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
