"""The schema of values describes what is written: whatever value there is, its JSON form is valid by it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from hypothesis import given, settings

from airflow_provider_incremental.core.values import encode
from airflow_provider_incremental.stores.api.value_schema import ANY_VALUE, COMPONENTS
from tests.property.test_values import VALUES

VALIDATOR = jsonschema_rs.validator_for(ANY_VALUE | {"components": {"schemas": COMPONENTS}})


@settings(max_examples=500)
@given(value=VALUES)
def test_every_value_is_described(value: Any) -> None:
    """Answers of the API keep to the API's description."""
    form = encode(value)
    assert VALIDATOR.is_valid(form), form
