"""The loop of a consumer: the end of its body acknowledges, anything else gives the batch back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental import AssetWatermark, consume
from airflow_provider_incremental.core.errors import (
    ConfigurationError,
    LeaseLostError,
)
from airflow_provider_incremental.core.watermark import WatermarkKey
from tests.unit.consumers.log import commit, waiting


def test_every_batch_comes_once_oldest_first_with_its_items() -> None:
    """A second loop finds nothing."""
    commit([1, 2], [3])
    assert [(batch.seq, batch.items, batch.count) for batch in consume("orders", consumer="c")] == [
        (1, [1, 2], 2),
        (2, [3], 1),
    ]
    assert list(consume("orders", consumer="c")) == []


def test_each_consumer_gets_every_batch() -> None:
    """Consumers do not share their progress."""
    commit([1], [2])
    for consumer in ("a", "b"):
        assert [batch.seq for batch in consume("orders", consumer=consumer)] == [1, 2]


def test_a_body_that_raises_gives_its_batch_back_at_once() -> None:
    """The error is the body's own; what was finished before stays acknowledged."""
    commit([1], [2], [3])

    def fail() -> None:
        for batch in consume("orders", consumer="c"):
            if batch.seq == 2:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert waiting("c") == [2, 3]
    assert [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")] == [(2, 2), (3, 1)]


def test_leaving_the_loop_gives_the_batch_back_unless_it_was_acknowledged() -> None:
    """``break`` is not the end of the body."""
    commit([1], [2])
    for _ in consume("orders", consumer="c"):
        break
    assert waiting("c") == [1, 2]
    for batch in consume("orders", consumer="c"):
        batch.acknowledge()
        break
    assert waiting("c") == [2]


def test_max_batches_leaves_the_rest_for_later() -> None:
    """The loop ends after so many."""
    commit([1], [2], [3])
    assert [batch.seq for batch in consume("orders", consumer="c", max_batches=2)] == [1, 2]
    assert [batch.seq for batch in consume("orders", consumer="c")] == [3]


def test_a_batch_that_another_run_holds_is_left_to_it() -> None:
    """Two loops of one consumer share the work, and never a batch."""
    commit([1], [2])
    first = consume("orders", consumer="c")
    assert next(first).seq == 1
    assert [batch.seq for batch in consume("orders", consumer="c")] == [2]
    assert next(first, None) is None
    assert waiting("c") == []


def test_a_batch_that_was_taken_over_is_not_acknowledged(tmp_path: Path) -> None:
    """A worker that slept through its lease is told that another one has the batch."""
    commit([1])
    loop = consume("orders", consumer="c", lease=3600)
    next(loop)

    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("UPDATE asset_watermark_claims SET holder = 'another'")
    with pytest.raises(LeaseLostError):
        next(loop)


def test_all_watermarks_of_an_asset_are_meant_unless_one_is_named() -> None:
    """An asset may have several sources."""
    commit([1])
    commit([2], key=WatermarkKey("orders", "eu", "s3"))
    assert sorted(batch.items[0] for batch in consume("orders", consumer="all")) == [1, 2]
    assert [batch.items for batch in consume("orders", consumer="one", namespace="eu")] == [[2]]
    assert [batch.items for batch in consume("orders", consumer="two", key="default")] == [[1]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "now"},
        {"lease": 0},
        {"max_batches": 0},
        {"consumer": None},
        {"consumer": "c" * 251},
        {"ordered": "yes"},
        {"on_dead": "x"},
        {"namespace": 3},
        {"key": ""},
    ],
)
def test_a_bad_argument_is_refused_before_the_loop(wrong: dict[str, Any]) -> None:
    """The message names it."""
    with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))}="):
        consume("orders", **{"consumer": "c", **wrong})


def test_something_that_is_no_asset_is_refused() -> None:
    """An asset, or its name."""
    with pytest.raises(ConfigurationError, match="asset=3 is not an asset"):
        consume(3, consumer="c")


def test_a_task_reads_and_writes_a_watermark() -> None:
    """``AssetWatermark`` is the entry for tasks."""
    assert AssetWatermark("orders").get_value() is None
    AssetWatermark("orders").set_value((3, "x"))
    assert AssetWatermark("orders").get_value() == (3, "x")
    assert AssetWatermark("orders", key="other").get_value() is None
