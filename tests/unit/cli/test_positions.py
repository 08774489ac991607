"""A position that people write is read with the type of the present one, or refused with the remedy."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.cli.positions import START, forced, from_json, from_text, written
from airflow_provider_incremental.core.errors import ConfigurationError, IncrementalError
from airflow_provider_incremental.core.values import dumps

ZONES = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=45))])
SCALARS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False),
    st.text(),
    st.binary(),
    st.uuids(),
    st.dates(),
    st.times(timezones=ZONES),
    st.datetimes(timezones=ZONES),
    st.timedeltas(),
    st.booleans(),
)
TAGS = st.sampled_from([f"${name}" for name in ("int", "float", "str", "bytes", "uuid", "tuple", "dict", "timedelta")])
CURSORS = st.one_of(
    SCALARS.filter(lambda value: not isinstance(value, bool)), st.lists(SCALARS | st.none(), min_size=1).map(tuple)
)


@given(CURSORS)
def test_what_is_written_is_read_again(cursor):
    """The text that show prints for a position is, for set, the same position, type and precision included."""
    text = written(cursor)
    if isinstance(cursor, str) and text != cursor:
        return  # letters that no terminal shows; they travel as JSON, as the next test has it
    again = from_text(text, cursor)
    assert (type(again), again) == (type(cursor), cursor)
    assert dumps(again) == dumps(cursor)


@given(CURSORS)
def test_tagged_json_is_read_again(cursor):
    """The JSON that show --output json prints for a position is, for set --json, the same position."""
    assert dumps(from_json(dumps(cursor), cursor)) == dumps(cursor)
    assert dumps(from_json(dumps(cursor), None)) == dumps(cursor)
    assert dumps(forced(dumps(cursor))) == dumps(cursor)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TAGS | st.text(), inner, max_size=1),
    max_leaves=8,
)


@settings(max_examples=400)
@given(st.text() | JSON.map(json.dumps), CURSORS)
def test_any_text_is_read_or_refused(text, cursor):
    """Whatever is written: a position of the present type, or our error; nothing else is ever raised."""
    for read in (from_text, from_json):
        try:
            value = read(text, cursor)
        except IncrementalError:
            continue
        assert type(value) is type(cursor)


NOON = dt.datetime.fromisoformat("2026-01-31T12:00:00")


@pytest.mark.parametrize(
    ("text", "present", "expected"),
    [
        ("1200", 5, 1200),
        ("-1", 5, -1),
        ("12.50", Decimal("1"), Decimal("12.50")),
        ("12", 1.5, 12.0),
        ("1200", "abc", "1200"),
        ('{"$decimal": "1"}', "abc", '{"$decimal": "1"}'),
        ("2026-01-31", dt.date(2020, 1, 1), dt.date(2026, 1, 31)),
        ("2026-01-31T12:00:00", NOON, NOON),
        ("2026-01-31 12:00", NOON, NOON),
        ("2026-01-31T12:00:00Z", NOON.replace(tzinfo=dt.UTC), NOON.replace(tzinfo=dt.UTC)),
        ('{"$int": "7"}', 5, 7),
        ('["2026-01-31", 7]', (dt.date(2020, 1, 1), 5), (dt.date(2026, 1, 31), 7)),
        ('["2026-01-31", "7"]', (dt.date(2020, 1, 1), 5), (dt.date(2026, 1, 31), 7)),
        ('[{"$date": "2026-01-31"}, 7]', (dt.date(2020, 1, 1), 5), (dt.date(2026, 1, 31), 7)),
        ('{"$tuple": [1, "x"]}', (5, "y"), (1, "x")),
        ("12345678-1234-5678-1234-567812345678", uuid.UUID(int=0), uuid.UUID("12345678-1234-5678-1234-567812345678")),
        ('{"$bytes": "AAE="}', b"x", b"\x00\x01"),
    ],
)
def test_reads(text, present, expected):
    """Each type is read from its plain form."""
    value = from_text(text, present)
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "present", "says"),
    [
        ("abc", 5, "no integer"),
        ("1.5", 5, "no integer"),
        ("2026-01-31T12:00:00", NOON.replace(tzinfo=dt.UTC), "timestamp with a zone"),
        ("2026-01-31T12:00:00Z", NOON, "timestamp without a zone"),
        ("yesterday", NOON, "timestamp"),
        ("2026-01-31T12:00:00", dt.date(2020, 1, 1), "no date"),
        ("12", (5, 6), "list of 2 values"),
        ("[1]", (5, 6), "list of 2 values"),
        ("[1, true]", (5, 6), r"true.*no integer.*in \[5, 6\]"),
        ("[1, 2.5]", (5, 6), "no integer"),
        ("[1, 2", (5, 6), "not JSON"),
        ("[1, 2]", (5, "x"), "no text"),
        ('{"$decimal": "7"}', 5, "no integer"),
        ('{"$decimal": "seven"}', Decimal(5), "decimal"),
        ('{"$nonsense": "7"}', 5, "newer release"),
        ("AAE=", b"x", "bytes"),
        ("seven", Decimal(5), "decimal number"),
    ],
)
def test_refuses(text, present, says):
    """A value of another type is refused, naming what is asked for."""
    with pytest.raises(IncrementalError, match=f"(?s){says}"):
        from_text(text, present)


def test_a_refusal_names_the_way_out():
    """The refusal shows the present position, and names tagged JSON and --force."""
    with pytest.raises(ConfigurationError) as refusal:
        from_text('["2026-01-31T12:00:00", "x"]', (NOON, 12))
    for word in (written((NOON, 12)), "--output json", "--force"):
        assert word in str(refusal.value)


def test_the_start_has_no_type():
    """At the very start no type is known: plain text is refused, JSON is taken."""
    assert written(None) == START
    with pytest.raises(ConfigurationError, match="--force"):
        from_text("12", None)
    assert from_json('{"$date": "2026-01-31"}', None) == dt.date(2026, 1, 31)
    with pytest.raises(ConfigurationError, match="not a position"):
        from_json('{"$date": "soon"}', None)


@pytest.mark.parametrize(("text", "expected"), [("12", 12), ("abc", "abc"), ('"12"', "12"), ('{"$int": "1"}', 1)])
def test_forced(text, expected):
    """By force any type is taken: JSON, and what is no JSON as text."""
    assert forced(text) == expected
