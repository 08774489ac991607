"""Cursors and items of every type survive the JSON codec, the text, and nothing else does."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import re
import uuid
from contextlib import suppress
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.errors import UnsupportedValueError
from airflow_provider_incremental.core.values import decode, dumps, encode, loads

# Whole seconds: Python itself does not read an offset of a fraction of a second back, and no database has one.
OFFSETS = st.integers(min_value=-86399, max_value=86399).map(lambda seconds: dt.timedelta(seconds=seconds))
TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates, NUL and all
TAG_LIKE = st.sampled_from(["$int", "$str", "$tuple", "$dict", "$decimal", "$", "$$", "$unknown", ""])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**53) - 2, max_value=-(2**53) + 2),
    st.integers(min_value=2**53 - 2, max_value=2**53 + 2),
    st.floats(),
    st.decimals(),
    TEXT,
    TAG_LIKE,
    st.binary(),
    st.uuids(),
    st.dates(),
    st.times(),
    st.times(timezones=OFFSETS.map(dt.timezone)),
    st.datetimes(),
    st.datetimes(timezones=OFFSETS.map(dt.timezone)),
    st.datetimes(timezones=st.sampled_from([dt.UTC])),
    st.timedeltas(),
)
KEYS = SCALARS.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan()))  # which has no hash
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(TEXT, TAG_LIKE), inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=12,
)


def exact(value: Any) -> Any:
    """A form in which two values are equal only when they are the same to the last digit, bit and type."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [exact(each) for each in value]
    if isinstance(value, dict):
        return "dict", [(exact(name), exact(each)) for name, each in value.items()]
    if isinstance(value, (dt.datetime, dt.time)):
        return type(value).__name__, value.replace(tzinfo=None), value.utcoffset()
    return type(value).__name__, repr(value)


@given(VALUES)
@settings(max_examples=1000)
@example({"$int": "1"})
@example({"$dict": [[1, 2]]})
@example({"a": 1, "$int": "1"})
@example({"": {"$": None}})
@example({"\x00": "\ud800", "b": "\udcff\x00"})
@example({True: 1, "True": 2})
@example((((),), []))
def test_every_value_comes_back_exactly(value: Any) -> None:
    """What goes through the JSON text is the same in type, precision, sign, zone and order."""
    assert exact(loads(dumps(value))) == exact(value)


@given(VALUES)
@settings(max_examples=500)
def test_the_text_is_strict_ascii_json_and_always_the_same(value: Any) -> None:
    """No NaN, no byte outside ASCII, no whitespace between, and one text for one value: any database keeps it."""
    text = dumps(value)

    def refuse(token: str) -> None:
        pytest.fail(f"{token} is not JSON")

    assert json.loads(text, parse_constant=refuse) == encode(value)
    assert text.isascii()
    assert text.isprintable()
    assert dumps(loads(text)) == text


@given(VALUES)
@settings(max_examples=500)
def test_the_form_is_plain_json_that_any_reader_holds_exactly(value: Any) -> None:
    """Only JSON's own types, no integer that a double would round, no NUL or half a character in any text."""

    def check(form: Any) -> None:
        assert type(form) in (type(None), bool, int, float, str, list, dict)
        if type(form) is int:
            assert abs(form) <= 2**53
        elif type(form) is float:
            assert math.isfinite(form)
        elif type(form) is str:
            form.encode("utf-8")
            assert "\x00" not in form
        elif type(form) is list:
            for each in form:
                check(each)
        elif type(form) is dict:
            for name, each in form.items():
                check(name)
                check(each)

    check(encode(value))


@given(st.datetimes(timezones=st.sampled_from([ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")])))
def test_a_named_zone_keeps_its_instant_and_offset(value: dt.datetime) -> None:
    """The zone's name is not kept, but the instant is, also in the hour that comes twice."""
    back = loads(dumps(value))
    assert back.utcoffset() == value.utcoffset()
    assert back.replace(tzinfo=None) == value.replace(tzinfo=None, fold=0)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (1, 1),
        (2**53 + 1, {"$int": "9007199254740993"}),
        (Decimal("1.10"), {"$decimal": "1.10"}),
        (math.nan, {"$float": "nan"}),
        (-math.inf, {"$float": "-inf"}),
        (b"\x00\xff", {"$bytes": "AP8="}),
        (uuid.UUID(int=1), {"$uuid": "00000000-0000-0000-0000-000000000001"}),
        (dt.date(2026, 1, 31), {"$date": "2026-01-31"}),
        (dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=dt.UTC), {"$datetime": "2026-01-31T12:00:00.000001+00:00"}),
        (dt.timedelta(days=-1, microseconds=1), {"$timedelta": [-1, 0, 1]}),
        ((1, "a"), {"$tuple": [1, "a"]}),
        ({"$x": 1}, {"$dict": [["$x", 1]]}),
        ("\x00", {"$str": "00"}),
    ],
)
def test_the_form_of_each_type_stays_readable(value: Any, form: Any) -> None:
    """The forms stand in users' databases and events: an old one must be read, and written, for ever."""
    assert encode(value) == form
    assert exact(decode(form)) == exact(value)


class _Colour(enum.IntEnum):
    RED = 3


class _Text(str):
    __slots__ = ()


class _When(dt.datetime):
    pass


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (_Colour.RED, 3),
        (_Text("a"), "a"),
        (_When(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ({_Text("k"): _Text("v")}, {"k": "v"}),
    ],
)
def test_a_subclass_becomes_its_base(value: Any, base: Any) -> None:
    """What a driver dresses up comes back as the plain type that it is."""
    assert exact(loads(dumps(value))) == exact(base)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, range(3), print, [{"a": (object(),)}], Exception("x")])
def test_other_types_are_refused_by_name(value: Any) -> None:
    """A value without a form is refused wherever it hides, and the message says which type and what to do."""
    with pytest.raises(UnsupportedValueError, match=r"a value of type \w+\.\w+ cannot be kept .* convert it"):
        dumps(value)


@pytest.mark.parametrize("form", [{"$later": 1}, [{"a": {"$": None}}], {"$tuple": [{"$int64": "1"}]}])
def test_an_unknown_tag_is_refused(form: Any) -> None:
    """A form that a newer release wrote is never taken for a dictionary of the user's."""
    with pytest.raises(UnsupportedValueError, match="newer release"):
        decode(form)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
_TAGS = ["decimal", "uuid", "bytes", "datetime", "date", "time", "timedelta", "int", "float", "str", "tuple", "dict"]


@settings(max_examples=1000)
@given(st.sampled_from(_TAGS), _JSON)
def test_a_malformed_form_is_a_value_or_refused(tag: str, content: Any) -> None:
    """Whatever stands behind a tag, nothing but the one error comes of it."""
    with suppress(UnsupportedValueError):
        decode({f"${tag}": content})


@pytest.mark.parametrize(
    "form",
    [
        {"$uuid": False},
        {"$uuid": "no"},
        {"$decimal": "1,0"},
        {"$decimal": [0, [1], 0]},
        {"$int": True},
        {"$int": 1.5},
        {"$float": None},
        {"$bytes": "a"},
        {"$str": "zz"},
        {"$datetime": 5},
        {"$datetime": "yesterday"},
        {"$timedelta": [1, 2]},
        {"$timedelta": "123"},
        {"$timedelta": [10**30, 0, 0]},
        {"$tuple": None},
        {"$tuple": "ab"},
        {"$dict": [[1]]},
        {"$dict": [[[], 1]]},
        {"$dict": ["ab"]},
    ],
)
def test_a_malformed_form_is_refused_by_its_tag(form: Any) -> None:
    """What somebody wrote by hand is never half understood: the message says which form is not one."""
    with pytest.raises(UnsupportedValueError, match=re.escape(next(iter(form)))):
        decode(form)
