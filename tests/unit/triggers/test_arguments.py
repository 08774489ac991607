"""What a trigger is kept as: the same on every parse, rebuilt equal, and never an exception in the triggerer."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from airflow.triggers.base import BaseEventTrigger
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.testing.fakes import ListSource
from airflow_provider_incremental.triggers import IncrementalTrigger


class FolderTrigger(IncrementalTrigger):
    """A trigger as a user writes one: its own parameters, the others passed on."""

    def __init__(self, *, asset_name: str, folder: str, names: Any = (), depth: int = 3, **options: Any) -> None:
        super().__init__(asset_name=asset_name, **options)
        if not folder:
            raise ConfigurationError("folder='' is no folder")
        self.folder = folder
        self.names = names
        self.depth = depth

    def create_source(self) -> Source:
        """Return a list, as these tests poll nothing."""
        return ListSource()


def rebuilt(trigger: IncrementalTrigger) -> IncrementalTrigger:
    """Build a trigger as the triggerer does, from what Airflow kept of it."""
    _, kwargs = trigger.serialize()
    return type(trigger)(**json.loads(json.dumps(kwargs)))


def test_arguments_are_kept_under_their_names_without_defaults() -> None:
    """What was not given, or given as the default, is left out: a new parameter changes no trigger that exists."""
    trigger = FolderTrigger(asset_name="files", folder="/in", depth=3, poll_interval=60)
    assert trigger.serialize() == (f"{__name__}.FolderTrigger", {"asset_name": "files", "folder": "/in", "stored": 1})


def test_the_form_of_arguments_is_frozen() -> None:
    """Rows that are stored today must be found again by every later release: this text never changes."""
    trigger = FolderTrigger(
        asset_name="files",
        folder="/in",
        names=("a", "b"),
        namespace="n",
        key="k",
        start="latest",
        max_items=7,
        poll_interval=dt.timedelta(minutes=2),
        announce_interval=1.5,
        redeliver_after=dt.timedelta(milliseconds=1500),
    )
    assert json.dumps(trigger.serialize()[1], sort_keys=True) == (
        '{"announce_interval": 1.5, "asset_name": "files", "folder": "/in", "key": "k", "max_items": 7, '
        '"names": ["a", "b"], "namespace": "n", "poll_interval": 120, "redeliver_after": 1.5, "start": "latest", '
        '"stored": 1}'
    )


@given(
    st.fixed_dictionaries(
        {"asset_name": st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(str.strip)},
        optional={
            "names": st.lists(st.one_of(st.text(), st.integers(-(2**53), 2**53), st.booleans())),
            "depth": st.integers(-(2**53), 2**53),
            "start": st.one_of(st.text(), st.integers(-(2**53), 2**53)),
            "poll_interval": st.floats(0.01, 1e6) | st.timedeltas(dt.timedelta(seconds=1), dt.timedelta(days=9)),
            "announce_interval": st.none() | st.floats(0.01, 1e6),
        },
    )
)
def test_a_rebuilt_trigger_is_kept_and_hashed_as_before(arguments: dict[str, Any]) -> None:
    """Airflow compares what is parsed with what is stored: they are equal however often it goes round."""
    first = FolderTrigger(folder="/in", **arguments)
    second = rebuilt(first)
    assert second.fault is None
    assert second.serialize() == first.serialize() == rebuilt(second).serialize()
    assert BaseEventTrigger.hash(*first.serialize()) == BaseEventTrigger.hash(*second.serialize())
    assert (second.poll_interval, second.announce_interval) == (first.poll_interval, first.announce_interval)


@pytest.mark.parametrize(
    "value",
    [{1: "a"}, {"a": {"b": 1}}, {"a": b"x"}, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), b"x", float("nan"), [["a"]]],
)
def test_a_value_that_airflow_cannot_keep_is_refused_in_the_dag_file(value: Any) -> None:
    """The message names the parameter and says what to give."""
    with pytest.raises(ConfigurationError, match=r"FolderTrigger: names=.* cannot be kept by Airflow; give"):
        FolderTrigger(asset_name="files", folder="/in", names=value)


@pytest.mark.parametrize("value", [{}, {"b": 1, "a": [True, None, "x"]}, 'mapping:{"a": 1}', "mapping:"])
def test_a_dictionary_comes_back_as_one(value: Any) -> None:
    """It is kept as a text, the same whatever the order of its keys; a text that looks like one stays a text."""
    first = FolderTrigger(asset_name="files", folder="/in", start=value)
    second = rebuilt(first)
    assert (second.fault, second.start) == (None, value)
    assert isinstance(first.serialize()[1]["start"], str)
    if isinstance(value, dict):
        turned = FolderTrigger(asset_name="files", folder="/in", start=dict(reversed(value.items())))
        assert turned.serialize() == first.serialize() == second.serialize()


@pytest.mark.parametrize(
    "wrong",
    [
        {"poll_interval": 0},
        {"poll_interval": -1},
        {"poll_interval": True},
        {"poll_interval": "60"},
        {"redeliver_after": float("inf")},
        {"redeliver_after": 1e11},
        {"redeliver_after": dt.timedelta.max},
        {"announce_interval": 10**400},
        {"announce_interval": dt.timedelta(0)},
        {"max_items": 0},
        {"max_items": 1.5},
        {"asset_name": ""},
        {"namespace": ""},
        {"key": "k" * 251},
        {"consumers": "load_orders"},
        {"consumers": ["load", " "]},
        {"consumers": [1]},
        {"retention": 0},
        {"items_in_events": 0},
        {"namespace": "eu/north"},
        {"key": "a/b"},
        {"start": "lastest"},
        {"start": "Latest"},
        {"start": "earlyest"},
        {"folder": "/in/{{ ds }}"},
        {"names": ["a", "{{ var.value.name }}"]},
        {"start": "{%- if x %}a{% endif %}"},
        {"start": {"day": "{{ ds }}"}},
    ],
)
def test_a_bad_argument_is_refused_in_the_dag_file(wrong: dict[str, Any]) -> None:
    """The message names the parameter and its value."""
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigurationError) as error:
        FolderTrigger(**{"asset_name": "files", "folder": "/in", **wrong})
    assert f"{name}={value!r}" in str(error.value)


def test_an_unknown_argument_is_refused_in_the_dag_file() -> None:
    """A misspelt option is not swallowed by ``**options``."""
    with pytest.raises(TypeError, match="pol_interval"):
        FolderTrigger(asset_name="files", folder="/in", pol_interval=3)


@pytest.mark.parametrize(
    "stored",
    [
        {"asset_name": "files"},
        {"asset_name": "", "folder": "/in"},
        {"asset_name": "files", "folder": ""},
        {"asset_name": "files", "folder": "/in", "poll_interval": -1},
        {"asset_name": "files", "folder": "/in", "poll_interval": {"Encoding.VAR": 1}},
        {},
    ],
)
def test_stored_arguments_never_raise(stored: dict[str, Any]) -> None:
    """A constructor that raises ends the triggerer for everybody: the trigger is made, and carries its fault."""
    trigger = FolderTrigger(stored=1, **stored)
    assert trigger.fault
    assert trigger.serialize()[1] == {"stored": 1, **stored}
    assert repr(trigger)


def test_arguments_of_another_release_are_kept_and_do_no_harm() -> None:
    """A stored row with a parameter that this release has not loads, and stays the same trigger."""
    trigger = FolderTrigger(stored=1, asset_name="files", folder="/in", colour="green")
    assert trigger.fault is None
    assert trigger.serialize()[1]["colour"] == "green"
    assert trigger.folder == "/in"


def test_a_class_of_a_dag_file_is_named_as_the_triggerer_can_import_it() -> None:
    """Airflow loads DAG files under names that no other process knows."""
    odd = type("OddTrigger", (FolderTrigger,), {"__module__": f"unusual_prefix_{'0123456789' * 4}_my_triggers"})
    assert odd(asset_name="files", folder="/in").serialize()[0] == "my_triggers.OddTrigger"


def test_a_start_that_is_nearly_one_is_answered_with_it() -> None:
    """It would be a position, where any text is one."""
    with pytest.raises(ConfigurationError, match="start='lastest' is not a start; do you mean \"latest\""):
        FolderTrigger(asset_name="files", folder="/in", start="lastest")


@pytest.mark.parametrize("start", ["latest/2026", "later", "2026", "test"])
def test_a_position_that_resembles_no_start_is_one(start: str) -> None:
    """What is not nearly the same word is left to the trigger."""
    assert FolderTrigger(asset_name="files", folder="/in", start=start).start == start


@pytest.mark.parametrize("folder", ["{{1,2},{3,4}}", "a{2}", "{date:%Y}/{date:%m}", "{%}", "{ {x} }"])
def test_braces_that_are_no_template_are_taken(folder: str) -> None:
    """An array of PostgreSQL, a repetition in a pattern, a date in a prefix."""
    assert FolderTrigger(asset_name="files", folder=folder).folder == folder


def test_stored_arguments_are_not_looked_at_for_templates() -> None:
    """What was stored by an earlier release goes on."""
    assert FolderTrigger(stored=1, asset_name="files", folder="/in/{{ ds }}").fault is None
