"""Where a poll in the order of keys has to begin, so that a smaller key that comes late is still read.

A key is left behind for good when some greater key *appeared* more than ``reread`` seconds ago. A listing does not say
when an object appeared. It says when it was last modified, and of an upload in parts that is when the upload began
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html), perhaps days before. So only two things
count: the time of an object that was uploaded in one piece, and what an earlier poll has seen with its own eyes.
"""

from __future__ import annotations

import datetime as dt
import json
import re

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.s3_pages import ListedObject, key_order

__all__ = ["KeyWalk", "Sightings"]

# An etag of another form is that of an upload in parts, or may be:
# https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html
_IN_ONE_PIECE = re.compile(r"[0-9a-fA-F]{32}")
_LONGEST_UPLOAD = dt.timedelta(days=7)
_SLOTS = 32


class Sightings:
    """By when which key was seen: a bounded number of pairs, both of which grow. They may be lost at any time.

    :param reread: seconds for which a sighting has to be remembered.
    """

    def __init__(self, reread: float) -> None:
        self._reread = dt.timedelta(seconds=reread)
        self._slot = max(reread / _SLOTS, 1.0)
        self._pairs: list[tuple[dt.datetime, str]] = []

    def note(self, moment: dt.datetime, key: str) -> None:
        """Remember that a key was seen at a time, or before it."""
        if not self._reread or (self._pairs and key_order(key) <= key_order(self._pairs[-1][1])):
            return
        if self._pairs:
            moment = max(moment, self._pairs[-1][0])
            if self._slot_of(moment) == self._slot_of(self._pairs[-1][0]):
                self._pairs.pop()
        self._pairs.append((moment, key))

    def ripe(self, now: dt.datetime) -> str:
        """Return the greatest key that was seen ``reread`` seconds ago or earlier, and forget those before it."""
        before = [pair for pair in self._pairs if pair[0] <= now - self._reread]
        if not before:
            return ""
        self._pairs = self._pairs[len(before) - 1 :]
        return before[-1][1]

    def dump(self) -> bytes:
        """Return what :meth:`load` reads."""
        return json.dumps([(moment.isoformat(), key) for moment, key in self._pairs]).encode()

    def load(self, kept: bytes) -> None:
        """Take up what another process has noted."""
        self._pairs = [(dt.datetime.fromisoformat(moment), key) for moment, key in json.loads(kept)]

    def _slot_of(self, moment: dt.datetime) -> int:
        return int(moment.timestamp() // self._slot)


class KeyWalk:
    """Goes over objects in the order of keys, and finds the floor of the next poll.

    :param floor: the key behind which it begins.
    :param recent_from: objects modified at this time or later are read again by the next poll; None: none are.
    :param ripe: a key that appeared before that time.
    """

    def __init__(self, floor: str, recent_from: dt.datetime | None, ripe: str = "") -> None:
        self.last = floor
        self.passed = 0
        self._start = floor
        self._quiet = floor  # the last key before anything recent
        self._meets_recent = False
        self._ripe = ripe
        self._recent_from = recent_from

    @property
    def floor(self) -> str:
        """The key behind which the next poll has to begin."""
        if self._recent_from is None:
            return self.last
        return max(self._start, min(self._quiet, self._ripe, key=key_order), key=key_order)

    def pass_over(self, each: ListedObject) -> None:
        """Leave an object behind: it is delivered, or not meant."""
        if self.last and key_order(each.key) < key_order(self.last):
            msg = (
                f"order='key': the server lists {each.key!r} after {self.last!r}, which is not the order of keys; "
                "give order='modified'"
            )
            raise SourceError(msg)
        self.last = each.key
        self.passed += 1
        if self._recent_from is None:
            return
        if each.last_modified >= self._recent_from:
            self._meets_recent = True
        elif _appeared_by(each) < self._recent_from:
            self._ripe = max(self._ripe, each.key, key=key_order)
        if not self._meets_recent:
            self._quiet = each.key


def _appeared_by(each: ListedObject) -> dt.datetime:
    if _IN_ONE_PIECE.fullmatch(each.etag):
        return each.last_modified
    return each.last_modified + _LONGEST_UPLOAD
