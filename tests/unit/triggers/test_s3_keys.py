"""The S3 trigger: which source its arguments make, and that what is stored of it does not change."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.triggers import S3KeyIncrementalTrigger


def trigger(**arguments):
    """An S3 trigger as a DAG file makes it."""
    return S3KeyIncrementalTrigger(**{"asset_name": "files", "bucket": "landing", **arguments})


def test_stored_form_of_the_defaults():
    """A trigger with defaults stores what it always stored: rows of an older release are found again."""
    assert trigger(prefix="in/").serialize()[1] == {
        "asset_name": "files",
        "bucket": "landing",
        "prefix": "in/",
        "stored": 1,
    }


def test_stored_form_of_lists():
    """Several suffixes and classes are stored as lists, and rebuild the same trigger."""
    made = trigger(suffix=(".csv", ".json"), storage_class=["STANDARD"], order="key", reread=60)
    stored = made.serialize()[1]
    assert stored["suffix"] == [".csv", ".json"]
    assert S3KeyIncrementalTrigger(**stored).serialize()[1] == stored


def test_removals_are_stored_and_reach_the_source():
    """The argument is stored only where it is given, and the source then keeps the keys."""
    made = trigger(removals=True)
    assert made.serialize()[1]["removals"] is True
    assert made.create_source()._removals is not None
    assert trigger().create_source()._removals is None


def test_source_of_each_order():
    """The order chooses the source; they watch the same prefix with cursors that cannot be mixed up."""
    by_time, by_key = trigger(prefix="in/").create_source(), trigger(prefix="in/", order="key").create_source()
    assert isinstance(by_time, S3KeySource)
    assert isinstance(by_key, S3KeyOrderSource)
    assert by_time.watches.cursor == "last_modified,key"
    assert by_key.watches.cursor == "key"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": "newest"}, "order='newest'"),
        ({"pattern": "*", "regex": "x"}, "pattern='\\*' and regex='x'"),
        ({"order": "key", "start": 3}, "start=3 .*a key"),
        (
            {"order": "key", "prefix": "log/", "start": "2026/03"},
            "start='2026/03' .*prefix='log/'.* start='log/2026/03'",
        ),
        ({"order": "key", "start": "k" * 1025}, "start='kk.*1024"),
        ({"start": "monday"}, "start='monday'"),
        ({"start": "0001-01-01T00:00:00+05:00"}, "start='0001-01-01T00:00:00\\+05:00' .*earliest"),
        ({"start": "9999-12-31T23:59:59-05:00"}, "start='9999-12-31T23:59:59-05:00' .*earliest"),
        ({"start": "9999-12-31T23:59:59Z"}, "start='9999-12-31T23:59:59Z' .*latest"),
        ({"start": "1600-01-01T00:00:00Z"}, "start='1600-01-01T00:00:00Z' .*earliest"),
        ({"region_name": ""}, "region_name='' .*leave it out"),
        ({"region_name": 5}, "region_name=5"),
        ({"aws_conn_id": ""}, "aws_conn_id='' .*None"),
        ({"aws_conn_id": 5}, "aws_conn_id=5"),
        ({"bucket": "s3://landing/in/"}, "prefix='in"),
        ({"lateness": -1}, "lateness=-1"),
        ({"reread": -1}, "reread=-1"),
        ({"removals": True, "order": "key"}, "removals=True .*order='key'"),
        ({"removals": 1}, "removals=1"),
        ({"min_size": -1}, "min_size=-1"),
    ],
)
def test_bad_arguments(arguments, message):
    """A mistake is said in the DAG file."""
    with pytest.raises(ConfigurationError, match=message):
        trigger(**arguments)


def test_start_at_a_key():
    """With order="key" an explicit start is a key."""
    assert trigger(order="key", start="2026/03/01").start_cursor() == "2026/03/01"
