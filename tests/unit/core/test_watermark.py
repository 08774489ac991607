"""Names of watermarks, and what they watch."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConfigurationError, SourceError, WatchesAnotherSourceError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import Silence, Watches, Watermark, WatermarkKey, WatermarkStatus

PARTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=20).filter(
    str.strip
)
KEYS = st.builds(WatermarkKey, PARTS, PARTS, PARTS)


@pytest.mark.parametrize(
    ("key", "digest"),
    [
        (WatermarkKey("orders"), "851601de85495b56a2c1fdf656637ef6"),
        (WatermarkKey("caf\u00e9", "east", "a/b"), "9d326b5dbbe775a79e6e7840fc7357a4"),
    ],
)
def test_the_id_of_a_name_never_changes(key: WatermarkKey, digest: str) -> None:
    """Ids are primary keys in users' databases: another hash would lose every watermark."""
    assert key.id == digest


@given(KEYS, KEYS)
def test_different_names_have_different_ids(one: WatermarkKey, other: WatermarkKey) -> None:
    """The three parts are apart in the id, wherever a name is cut."""
    assert (one.id == other.id) == (one == other)
    assert len(one.id) == 32
    assert one.id.isascii()


def test_parts_do_not_run_into_each_other() -> None:
    """A quote, a comma or a slash in one part does not make it look like two."""
    parts = ["a", "b", 'a", "b', "a/b", "a,b", "default"]
    keys = [WatermarkKey(*names) for names in itertools.product(parts, repeat=3)]
    assert len({key.id for key in keys}) == len(keys)


@pytest.mark.parametrize("value", ["", "   ", "\t\n", "x" * 1501, "a\x00b", "\ud800", None, 7, b"orders"])
def test_a_name_that_cannot_be_stored_is_refused(value: object) -> None:
    """The message names the parameter and the value."""
    with pytest.raises(ConfigurationError, match="asset_name="):
        WatermarkKey(value)


@pytest.mark.parametrize("part", ["namespace", "key"])
@pytest.mark.parametrize("value", ["", " ", "x" * 251, "\x00", None])
def test_a_namespace_or_key_that_cannot_be_stored_is_refused(part: str, value: object) -> None:
    """Namespace and key are as strict as the name, at 250 characters."""
    with pytest.raises(ConfigurationError, match=f"{part}="):
        WatermarkKey("orders", **{part: value})


def test_the_longest_names() -> None:
    """What Airflow allows for an asset is allowed here, and 250 characters for the rest."""
    WatermarkKey("x" * 1500, "n" * 250, "\U0001f600" * 250)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (WatermarkKey("orders"), "orders"),
        (WatermarkKey("orders", "east"), "orders/east"),
        (WatermarkKey("orders", "default", "k"), "orders/default/k"),
    ],
)
def test_a_name_as_people_write_it(key: WatermarkKey, text: str) -> None:
    """Parts that are the default are left out from the right."""
    assert str(key) == text


def test_another_source_is_refused_with_the_way_out() -> None:
    """The message names both sources, both cursors, and what to do."""
    key = WatermarkKey("orders")
    mine, given_now = Watches("table a", "id"), Watches("table b", "at, id")
    mine.require_same(key, Watches("table a", "id"))
    with pytest.raises(WatchesAnotherSourceError) as refused:
        mine.require_same(key, given_now)
    for word in ("table a", "table b", "at, id", "orders", "--rewatch", "key="):
        assert word in str(refused.value)


def test_a_watermark_starts_with_its_first_commit() -> None:
    """Version 0 is a watermark whose start is undecided, whatever its cursor."""
    assert not Watermark(key=WatermarkKey("a"), cursor=None, version=0, last_seq=0).started
    assert Watermark(key=WatermarkKey("a"), cursor=None, version=1, last_seq=0).started


@given(KEYS)
def test_a_selector_means_what_it_names(key: WatermarkKey) -> None:
    """Parts that are not given match all; those that are given match themselves."""
    assert Selector(key.asset_name).matches(key)
    assert Selector(key.asset_name, key.namespace, key.key).matches(key)
    assert not Selector(key.asset_name + "x").matches(key)
    assert not Selector(key.asset_name, key.namespace + "x").matches(key)
    assert not Selector(key.asset_name, key=key.key + "x").matches(key)


@pytest.mark.parametrize("marks", [[b""], [bytes(15)], [bytes(16), bytes(17)]])
def test_fingerprints_of_another_length_are_refused(marks: list[bytes]) -> None:
    """One fingerprint of the wrong length would shift all that stand behind it in the log."""
    with pytest.raises(SourceError, match="16 bytes"):
        NewBatch(low=None, high=1, fingerprints=marks)


def test_every_new_batch_has_an_id_of_its_own() -> None:
    """Ids are 32 hexadecimal digits, and never the same."""
    ids = {NewBatch(low=None, high=1).id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in ids)


@pytest.mark.parametrize(
    ("expected", "since", "silent"),
    [
        (5, 65, False),
        (5, 66, True),
        (3600, 7200, False),
        (3600, 7201, True),
        (0, 61, True),
        (None, 10**6, False),
    ],
)
def test_a_watermark_that_is_not_polled_any_more(expected: float | None, since: float, silent: bool) -> None:
    """Is one whose next poll is late by the expected time, and by a minute; who never said when it comes is not."""
    last = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    meant = None if expected is None else last + dt.timedelta(seconds=expected)
    status = WatermarkStatus(last_poll_at=last, next_poll_at=meant)
    found = status.silence(last + dt.timedelta(seconds=since))
    assert found == (Silence(since, expected or 0) if silent else None)


def test_an_asset_in_place_of_its_name() -> None:
    """The message gives the name to write."""

    class Asset:
        name = "orders"

    with pytest.raises(ConfigurationError, match=r"asset_name=.* give its name, 'orders'"):
        WatermarkKey(cast("str", Asset()))


def test_a_watermark_that_was_never_polled_is_not_silent() -> None:
    """It has its own words for that."""
    assert WatermarkStatus().silence(dt.datetime.now(dt.UTC)) is None
