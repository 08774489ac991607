"""The metadata that Airflow reads: one truth, in the form that Airflow accepts, naming things that are there."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml
from airflow.plugins_manager import AirflowPlugin
from airflow.utils.db_manager import BaseDBManager
from packaging.version import Version

from airflow_provider_incremental import __version__
from airflow_provider_incremental.get_provider_info import get_provider_info

ROOT = Path(__file__).parents[2]
INFO = get_provider_info()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def named(place: str) -> object:
    module, _, name = place.replace(":", ".").rpartition(".")
    return getattr(import_module(module), name)


def test_equals_provider_yaml():
    """What Airflow is told is what provider.yaml says."""
    assert yaml.safe_load((ROOT / "provider.yaml").read_text()) == INFO


def test_fits_airflows_schema():
    """Airflow accepts it, and knows every key."""
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)
    assert set(INFO) - {"db-managers"} <= set(schema["properties"])


def test_is_named_like_the_distribution():
    """Airflow breaks for everybody when the name is not the distribution's."""
    assert INFO["package-name"] == PROJECT["name"]


@pytest.mark.parametrize(
    ("place", "base"),
    [
        *((place, BaseDBManager) for place in INFO["db-managers"]),
        (PROJECT["entry-points"]["airflow.plugins"]["incremental"], AirflowPlugin),
    ],
)
def test_names_classes_that_are_there(place, base):
    """Each class that is named can be imported, and is of the kind that Airflow asks for."""
    assert issubclass(named(place), base)


def test_names_functions_that_are_there():
    """The entry points of the provider and of the command line can be called."""
    assert named(PROJECT["entry-points"]["apache_airflow_provider"]["provider_info"]) is get_provider_info
    assert all(callable(named(place)) for place in PROJECT["scripts"].values())


def test_names_modules_that_are_there():
    """Each module of triggers that is named can be imported."""
    modules = [name for entry in INFO["triggers"] for name in entry["python-modules"]]
    assert modules
    assert all(import_module(name).__all__ for name in modules)


def test_version_is_written_once():
    """Options say since when they are there, in versions up to this one."""
    options = [option for section in INFO["config"].values() for option in section["options"].values()]
    assert max(Version(option["version_added"]) for option in options) <= Version(__version__)
