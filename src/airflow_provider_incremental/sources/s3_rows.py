"""The objects of one page of a listing, where all of them have the same elements in the same order."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

__all__ = ["Rows", "UnusualError", "read_stamps", "take_rows"]

Row = dict[str, Any]

_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3})?Z")
_FIRST = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)
_ELEMENT = re.compile(r"<([A-Za-z]+)>[^<]*</\1>")
_SPACE = r"[ \t\r\n]*"
# Text that means what it is: no reference, no character that XML forbids or changes.
_TEXT = r"[^<>&\x00-\x1f\ufffe\uffff]*"
_VALUES = {
    "Key": f"({_TEXT})",
    "LastModified": f"({_STAMP.pattern})",
    "ETag": f"((?:&quot;)?{_TEXT}(?:&quot;)?)",
    "Size": "([0-9]{1,18})",
    "StorageClass": f"({_TEXT})",
    "ChecksumType": f"({_TEXT})",
    "ChecksumAlgorithm": f"({_TEXT})",
}
_SOMETIMES = ("ChecksumAlgorithm", "ChecksumType")


class UnusualError(Exception):
    """The answer holds something that is not read here."""


class Rows(Sequence[Row]):
    """The objects of a page, as botocore gives them, but kept by column: an object is made only when it is asked for.

    A thousand dictionaries a page would outlive young generations of the garbage collector, which then has to go over
    the whole process, for 100 ms, every eighty pages.

    :param columns: for each element its value in every object; None where an object has it not.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns = columns
        self._made: list[Row] | None = None

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.columns["ETag"])

    def __getitem__(self, at: Any) -> Any:
        """Return one, or several as a list; from the first time on, all are there, and can be changed."""
        if self._made is None:
            self._made = [self._row(number) for number in range(len(self))]
        return self._made[at]

    def _row(self, at: int) -> Row:
        found = ((name, column[at]) for name, column in self.columns.items())
        return {name: [value] if name == "ChecksumAlgorithm" else value for name, value in found if value is not None}


def take_rows(body: bytes) -> tuple[bytes, Rows | None]:
    """Take the objects out of an answer, and return the rest with one empty ``<Contents/>`` in their place.

    Without rows the answer has none, or they have to be read element by element; the rest then means nothing.

    :raises UnicodeDecodeError: when the answer is no UTF-8.
    """
    text = body.decode()
    start, end = text.find("<Contents>"), text.rfind("</Contents>") + len("</Contents>")
    # In a comment, a CDATA section or an instruction, what looks like an object is none.
    if start < 0 or "<!" in text or text.find("<?", 1) >= 0:
        return b"", None
    first = _FIRST.match(text, start)
    names = _names(_ELEMENT.findall(first[1])) if first else ()
    if not names:
        return b"", None
    pieces = _pattern(names).split(text[start:end])
    width = len(names) + 1
    if "".join(pieces[::width]).strip(" \t\r\n"):  # between the objects there is something else
        return b"", None
    columns = {name: pieces[at::width] for at, name in enumerate(names, 1)}
    return (text[:start] + "<Contents/>" + text[end:]).encode(), _rows(columns)


def read_stamps(rows: Iterable[Row]) -> None:
    """Replace the text of each time stamp by the time.

    :raises UnusualError: for a stamp in another form than S3's own.
    """
    for row in rows:
        stamp = row.get("LastModified")
        if stamp is not None:
            if _STAMP.fullmatch(stamp) is None:
                raise UnusualError(stamp)
            row["LastModified"] = dt.datetime.fromisoformat(stamp)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Return the elements of an object, with those that not every object has; none, when there is one to be left."""
    if len(set(given)) != len(given) or not set(given) <= _VALUES.keys() or "ETag" not in given:
        return ()
    at = given.index("ETag") + 1
    missing = [name for name in _SOMETIMES if name not in given]
    return (*given[:at], *missing, *given[at:])


@lru_cache(maxsize=16)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    elements = (f"<{name}>{_VALUES[name]}</{name}>{_SPACE}" for name in names)
    optional = (f"(?:{each})?" if name in _SOMETIMES else each for name, each in zip(names, elements, strict=True))
    return re.compile(f"<Contents>{_SPACE}{''.join(optional)}</Contents>")


def _rows(columns: dict[str, list[Any]]) -> Rows:
    if stamps := columns.get("LastModified"):
        times = {stamp: dt.datetime.fromisoformat(stamp) for stamp in set(stamps)}
        columns["LastModified"] = [times[stamp] for stamp in stamps]
    columns["ETag"] = [etag.replace("&quot;", '"') for etag in columns["ETag"]]
    if sizes := columns.get("Size"):
        columns["Size"] = list(map(int, sizes))
    return Rows(columns)
