"""The JSON schema of a value with its type: what :func:`core.values.decode` takes, form by form."""

from __future__ import annotations

from typing import Any

__all__ = ["ANY_VALUE", "COMPONENTS"]

Schema = dict[str, Any]

ANY_VALUE: Schema = {"$ref": "#/components/schemas/Value"}

_DAY = (
    r"[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    r"|20([02468][048]|[13579][26])-02-29"
)
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{6})?([+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
_SCALAR: Schema = {"type": ["null", "boolean", "number", "string"]}
_DAYS = 999_999_999
_TEXTS = {
    "$int": "[+-]?[0-9]{1,1000}",
    "$float": r"[+-]?(inf|[0-9]{1,300}(\.[0-9]{1,300})?)|nan",
    "$str": "([0-7][0-9a-f])*",
    "$decimal": r"-?[0-9]{1,1000}(\.[0-9]{1,1000})?(E[+-]?[0-9]{1,5})?",
    "$uuid": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "$bytes": "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
    "$datetime": f"({_DAY})T{_TIME}",
    "$date": _DAY,
    "$time": _TIME,
}
_LISTS: dict[str, Schema] = {
    "$tuple": {"type": "array", "items": ANY_VALUE},
    "$dict": {
        "type": "array",
        "items": {"type": "array", "prefixItems": [_SCALAR, ANY_VALUE], "minItems": 2, "maxItems": 2},
    },
    "$timedelta": {
        "type": "array",
        "prefixItems": [
            {"type": "integer", "minimum": -_DAYS, "maximum": _DAYS},
            {"type": "integer", "minimum": 0, "maximum": 86_399},
            {"type": "integer", "minimum": 0, "maximum": 999_999},
        ],
        "minItems": 3,
        "maxItems": 3,
    },
}
_PLAIN: Schema = {
    "type": "object",
    "additionalProperties": ANY_VALUE,
    "anyOf": [{"propertyNames": {"pattern": "^([^$]|$)"}}, {"minProperties": 2}],
}


def _tagged(tag: str, content: Schema) -> Schema:
    return {"type": "object", "properties": {tag: content}, "required": [tag], "additionalProperties": False}


COMPONENTS: dict[str, Schema] = {
    "Value": {
        "description": (
            "A value with its type: JSON's own, or an object with one key that starts with $, as "
            '{"$decimal": "1.10"}, {"$datetime": "2026-01-31T12:00:00+00:00"}, {"$bytes": "AA=="} or '
            '{"$tuple": [1, 2]}.'
        ),
        "anyOf": [
            _SCALAR,
            {"type": "array", "items": ANY_VALUE},
            _PLAIN,
            *(_tagged(tag, {"type": "string", "pattern": f"^({text})$"}) for tag, text in _TEXTS.items()),
            *(_tagged(tag, content) for tag, content in _LISTS.items()),
        ],
    }
}
"""What the description's ``$ref`` point to."""
