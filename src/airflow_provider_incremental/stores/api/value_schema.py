"""The JSON schema of a value with its type: what :func:`core.values.decode` takes, form by form."""

from __future__ import annotations

from typing import Any

__all__ = ["ANY_VALUE", "COMPONENTS"]

Schema = dict[str, Any]

ANY_VALUE: Schema = {"$ref": "#/components/schemas/Value"}
_ANY_KEY: Schema = {"$ref": "#/components/schemas/Key"}

_YEAR = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_MONTH_AND_DAY = (
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = f"({_YEAR}-{_MONTH_AND_DAY}|{_LEAP}-02-29)"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{6})?"
_TIME = rf"{_CLOCK}([+-]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{{6}})?)?)?"
# UTF-8 in hexadecimal, with halves of surrogate pairs.
_REST = "[89ab][0-9a-f]"
_TWO = f"(c[2-9a-f]|d[0-9a-f]){_REST}"
_THREE = f"(e0[ab][0-9a-f]|e[1-9a-f]{_REST}){_REST}"
_FOUR = f"(f0[9ab][0-9a-f]|f[1-3]{_REST}|f48[0-9a-f]){_REST}{_REST}"
_SCALAR: Schema = {"type": ["null", "boolean", "number", "string"]}
_DAYS = 999_999_999
_TEXTS = {
    "$int": "[+-]?[0-9]{1,1000}",
    "$float": r"[+-]?(inf|[0-9]{1,300}(\.[0-9]{1,300})?)|nan",
    "$str": f"([0-7][0-9a-f]|{_TWO}|{_THREE}|{_FOUR})*",
    "$decimal": r"-?(s?NaN[0-9]{0,9}|Infinity|[0-9]{1,1000}(\.[0-9]{1,1000})?(E[+-]?[0-9]{1,5})?)",
    "$uuid": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "$bytes": "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
    "$datetime": f"{_DATE}T{_TIME}",
    "$date": _DATE,
    "$time": _TIME,
}
_LISTS: dict[str, Schema] = {
    "$tuple": {"type": "array", "items": ANY_VALUE},
    "$dict": {
        "type": "array",
        "items": {"type": "array", "prefixItems": [_ANY_KEY, ANY_VALUE], "minItems": 2, "maxItems": 2},
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


# Of a decimal that signals, Python has no hash.
_KEY_TEXTS = _TEXTS | {"$decimal": _TEXTS["$decimal"].replace("s?", "")}


def _tagged_texts(texts: dict[str, str]) -> list[Schema]:
    return [_tagged(tag, {"type": "string", "pattern": f"^({text})$"}) for tag, text in texts.items()]


COMPONENTS: dict[str, Schema] = {
    "Key": {
        "description": "A value that can be the key of a dictionary: it has no list and no dictionary in it.",
        "anyOf": [
            _SCALAR,
            *_tagged_texts(_KEY_TEXTS),
            _tagged("$timedelta", _LISTS["$timedelta"]),
            _tagged("$tuple", {"type": "array", "items": _ANY_KEY}),
        ],
    },
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
            *_tagged_texts(_TEXTS),
            *(_tagged(tag, content) for tag, content in _LISTS.items()),
        ],
    },
}
"""What the description's ``$ref`` point to."""
