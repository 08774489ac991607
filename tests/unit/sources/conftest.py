"""A bucket for sources to watch, where a module has none of its own."""

from __future__ import annotations

import pytest

from tests.unit.sources.s3_fake import FakeBucket


@pytest.fixture
def bucket() -> FakeBucket:
    """Six objects, on three pages."""
    bucket = FakeBucket(page_size=2)
    for number, key in enumerate("abcdef"):
        bucket.put(key, modified=900 + number)
    return bucket
