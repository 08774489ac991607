"""Every operation of the store travels, with every value exact, and a request says nothing that nobody reads."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
import typing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_incremental.core.batch import Batch, Claim, NewBatch
from airflow_provider_incremental.core.errors import ConflictError, IncrementalError, StoreError
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.upkeep import Act, DeadBatch
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores.api import problems
from airflow_provider_incremental.stores.api.forms import form_of
from airflow_provider_incremental.stores.api.operations import OPERATIONS
from airflow_provider_incremental.stores.api.scalars import MalformedError
from airflow_provider_incremental.stores.api.store import ApiStore
from airflow_provider_incremental.stores.api.text import call_text, is_big
from tests.loop_share import loop_share

KEY = WatermarkKey("orders")


def test_the_table_has_every_operation_of_the_protocol():
    """A new one of the protocol is missed here, before a client misses it."""
    protocol = {name for name, _ in inspect.getmembers(WatermarkStore, inspect.isfunction) if not name.startswith("_")}
    assert set(OPERATIONS) == protocol - {"aclose"}
    for name, operation in OPERATIONS.items():
        assert json.dumps(operation.schema), name
        assert json.dumps(operation.answer.schema), name
        assert inspect.signature(getattr(ApiStore, name)) == inspect.signature(getattr(WatermarkStore, name))


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
keys = st.builds(WatermarkKey, *[names.filter(str.strip)] * 3)
cursors = st.one_of(
    st.none(), st.integers(), st.floats(allow_nan=False), st.binary(), st.tuples(st.datetimes(), st.text())
)
times = st.none() | st.datetimes(timezones=st.just(dt.UTC))
counts = st.integers(0, 2**50)
TYPES = {
    WatermarkKey: keys,
    Watches: st.builds(Watches, st.text(), st.text()),
    PollReport: st.builds(PollReport, error=st.none() | st.text(), failures=counts, note=st.none() | st.text()),
    NewBatch: st.builds(
        NewBatch,
        low=cursors,
        high=cursors,
        items=st.lists(cursors),
        count=counts,
        fingerprints=st.lists(st.binary(min_size=16, max_size=16)).map(tuple),
    ),
    Batch: st.builds(
        Batch,
        key=keys,
        id=st.just("abc"),
        seq=counts,
        low=cursors,
        high=cursors,
        count=counts,
        items=st.none() | st.lists(cursors),
        committed_at=times,
    ),
    Selector: st.builds(Selector, names, st.none() | names),
    Act: st.builds(Act, names, st.none() | names),
}


@pytest.mark.parametrize("kind", TYPES)
@given(data=st.data())
def test_what_is_written_is_read_back_as_it_was(kind, data):
    """Through JSON text, and on either side of the line."""
    value = data.draw(TYPES[kind])
    for strict in (True, False):
        form = form_of(kind, strict=strict)
        assert form.decode(json.loads(json.dumps(form.encode(value), allow_nan=False)), "value") == value


def test_collections_keep_their_shape():
    """Pairs of bytes, numbers by name, two things at once."""
    for kind, value in (
        (list[tuple[str, bytes]], [("a", b"1"), ("b", b"")]),
        (dict[str, int], {"load": 3}),
        (tuple[WatermarkKey, list[WatermarkKey]], (KEY, [KEY])),
    ):
        form = form_of(kind)
        assert form.decode(json.loads(json.dumps(form.encode(value))), "value") == value


def test_what_is_unknown_is_refused_in_a_request_and_ignored_in_an_answer():
    """An older server does not drop what a newer client means; an older client does not mind what it does not know."""
    with pytest.raises(MalformedError, match="colour"):
        form_of(WatermarkKey, strict=True).decode({"asset_name": "orders", "colour": "red"}, "key")
    assert form_of(WatermarkKey).decode({"asset_name": "orders", "colour": "red"}, "key") == KEY
    with pytest.raises(MalformedError, match="colour"):
        OPERATIONS["load"].decode({"key": {"asset_name": "orders"}, "colour": "red"})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("0001-01-01T00:00:05+00:01", dt.datetime.min.replace(tzinfo=dt.UTC)),
        ("9999-12-31T23:59:59-01:00", dt.datetime.max.replace(tzinfo=dt.UTC)),
    ],
)
def test_a_time_beyond_all_that_python_knows_is_the_end_of_it(written, read):
    """What the description calls a time is one."""
    assert form_of(dt.datetime).decode(written, "value") == read


def test_defaults_are_not_sent():
    """So that what a newer client does not use reaches an older server."""
    watermark = Watermark(key=KEY, cursor=None, version=0, last_seq=0)
    sent = OPERATIONS["commit"].encode(None, watermark, 1, [], PollReport())
    assert set(sent) == {"watermark", "high", "batches", "report"}
    assert sent["watermark"]["key"] == {"asset_name": "orders"}
    assert "remember" in OPERATIONS["commit"].encode(None, watermark, 1, [], PollReport(), remember={"a": None})


def test_a_claim_travels_without_its_items():
    """They were sent once, and may be big."""
    batch = Batch(key=KEY, id="a", seq=1, low=0, high=1, count=1, items=["x" * 1000])
    claim = Claim(batch=batch, consumer="load", holder="me", attempt=1, lease_until=dt.datetime.now(dt.UTC))
    for name in ("acknowledge", "release"):
        assert "xxx" not in json.dumps(OPERATIONS[name].encode(None, claim))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, 2**53 + 2),
        (int, float("inf")),
        (int, float("nan")),
        (int, 1.5),
        (float, 3.1e9),
        (float, "1"),
        (bool, 1),
        (str, None),
        (str, "a\0"),
        (str, "\ud800"),
        (bytes, "no!"),
        (dt.datetime, "2026-01-31T12:00:00"),
        (dt.datetime, 5),
        (list[int], {}),
        (tuple[str, int], ["a"]),
        (dict[str, int], []),
        (dict[str, int], {"x" * 251: 1}),
        (typing.Literal["a", "b"], "c"),
        (typing.Any, {"$decimal": "x"}),
        (typing.Any, {"$timedelta": [1, 86400, 0]}),
        (typing.Any, {"$timedelta": [1, 0, True]}),
        (typing.Any, {"$timedelta": [1, 0.5, 0]}),
        (typing.Any, {"$timedelta": [1, 0]}),
        (typing.Any, {"$new": 1}),
        (Watches, "orders"),
    ],
)
def test_what_no_database_could_keep_is_refused(kind, value):
    """With the place and the value."""
    with pytest.raises(MalformedError, match="place"):
        form_of(kind).decode(value, "place")


def test_a_whole_number_may_be_written_with_a_point():
    """As JSON has it."""
    assert form_of(int).decode(5.0, "place") == 5
    assert isinstance(form_of(int).decode(5.0, "place"), int)


def test_spans_without_end_travel_as_long_ones():
    """A lease of forever is one of 95 years."""
    assert form_of(float).encode(float("inf")) == 3e9


def test_every_error_of_ours_comes_back_as_itself():
    """With its message; one that a newer server has is a store's error."""
    for kind in (each for each in vars(problems.errors).values() if isinstance(each, type)):
        if issubclass(kind, IncrementalError):
            found = problems.error_of(problems.problem_of(kind("what happened")), "there")
            assert (type(found), str(found)) == (kind, "what happened")
    assert (
        type(problems.error_of(problems.problem_of(MalformedError("x")), "there")).__name__ == "UnsupportedValueError"
    )
    new = type("SomethingNewError", (ConflictError,), {})
    assert isinstance(problems.error_of(problems.problem_of(new("x")), "there"), ConflictError)
    unknown = problems.error_of({"status": 409, "code": "something-new", "detail": "do this"}, "there")
    assert type(unknown) is StoreError
    assert "do this" in str(unknown)


def test_secrets_stay_out_of_problems():
    """A driver's message may hold the address of the database."""
    assert "s3cret" not in json.dumps(problems.problem_of(StoreError("postgresql://me:s3cret@db failed")))


async def test_a_big_commit_does_not_hold_up_the_event_loop():
    """Ten megabytes are written in another thread, piece by piece; the loop goes on."""
    watermark = Watermark(key=KEY, cursor=None, version=0, last_seq=0)
    items = [{"id": number, "text": "x" * 80} for number in range(100_000)]
    given = (watermark, 1, [NewBatch(low=0, high=1, items=items, count=len(items))], PollReport())
    assert is_big(given)
    assert not is_big([watermark, 1, [replace(given[2][0], items=items[:300])], PollReport()])
    async with loop_share() as share:
        text = await asyncio.to_thread(call_text, OPERATIONS["commit"], None, given, {}, "key")
    assert share.longest < 1 / 8
    assert len(text) > 10_000_000
    assert json.loads(text)["arguments"]["batches"][0]["items"] == items


def test_the_dead_are_listed():
    """An answer of nested domain values."""
    batch = Batch(key=KEY, id="a", seq=1, low=0, high=1, count=1)
    dead = DeadBatch(batch=batch, consumer="load", attempts=3, error="boom", since=dt.datetime.now(dt.UTC))
    form = OPERATIONS["dead_batches"].answer
    assert form.decode(json.loads(json.dumps(form.encode([dead]))), "answer") == [dead]
