"""The arguments on rows that are gone: refused in the DAG file, with the remedy."""

from __future__ import annotations

import pytest

from airflow_provider_incremental import SQLIncrementalQueryTrigger
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.sql_removal_arguments import RemovalArguments

GIVEN = {"asset_name": "orders", "conn_id": "shop", "table": "orders", "cursor": "id"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"removals": True}, "removals=True cannot be used; .* give primary_key"),
        ({"removals": 1, "primary_key": "id"}, "removals=1 cannot be used; give True or False"),
        ({"primary_key": "id"}, "primary_key='id' cannot be used; it is for removals=True"),
        ({"removals": True, "primary_key": []}, r"primary_key=\[\] cannot be used"),
        ({"removals": True, "primary_key": ["id", "id"]}, "each once"),
        ({"removals": True, "primary_key": ["id", " "]}, "give a list with the name"),
        ({"removals": True, "primary_key": "id", "columns": ["id"], "deleted_column": "gone"}, "give one of the two"),
        ({"removals": True, "primary_key": "code", "columns": ["id"]}, r"not among columns=\['id'\]; add it there"),
        ({"deleted_column": "gone", "columns": ["id"]}, r"not among columns=\['id'\]; add it there"),
        ({"deleted_column": ""}, "give the name of one column"),
        ({"deleted_column": "gone", "payload": "range"}, "give payload='rows'"),
        ({"removals": True, "primary_key": "id", "payload": "range"}, "give payload='rows'"),
    ],
)
def test_refused(arguments, said):
    """Each with the parameter, its value and what to write instead."""
    with pytest.raises(ConfigurationError, match=said):
        SQLIncrementalQueryTrigger(**GIVEN, **arguments)


def test_taken():
    """In one form, and the same after Airflow has stored the trigger."""
    trigger = SQLIncrementalQueryTrigger(**GIVEN, removals=True, primary_key=["shop", "id"])
    assert trigger.removals == RemovalArguments(primary_key=("shop", "id"))
    _, stored = trigger.serialize()
    assert SQLIncrementalQueryTrigger(**stored).removals == trigger.removals
    assert SQLIncrementalQueryTrigger(**GIVEN).removals == RemovalArguments()
