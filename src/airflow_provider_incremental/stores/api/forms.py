"""The JSON of every argument and answer of the store's operations, derived from their types: there is no second list.

What makes a client and a server one minor release apart understand each other: a new field or argument has a default,
which is not sent, and is taken where nothing came. An answer's unknown fields are ignored; a request's are refused,
since what they say would be lost.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
import typing
from collections.abc import Collection
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

from airflow_provider_incremental.core.errors import IncrementalError
from airflow_provider_incremental.stores.api.scalars import (
    ITEMS,
    MARKS,
    PIECE_NAME,
    VALUE,
    Form,
    MalformedError,
    checked,
    of_kind,
    scalar,
    shown,
)

__all__ = ["Form", "MalformedError", "form_of", "object_schema", "require_names"]

_FINGERPRINTS = "fingerprints"
_ARRAYS = (list, collections.abc.Sequence, collections.abc.Collection, frozenset, set)


@cache
def form_of(kind: Any, name: str = "", *, strict: bool = False) -> Form:
    """Return the form of a type.

    :param kind: a type as an annotation has it: the domain's dataclasses, scalars, and collections of them.
    :param name: of the field or the argument: some texts are free, and fingerprints are packed.
    :param strict: whether fields that are not known are refused.

    >>> form_of(int).decode(5, "limit")
    5
    """
    if kind is Any:
        return VALUE
    if dataclasses.is_dataclass(kind):
        return _object(kind, strict=strict)
    if get_origin(kind) is Literal:
        return checked({"enum": list(get_args(kind))}, lambda value: value in get_args(kind), "one of its few values")
    if get_origin(kind) in (Union, types.UnionType):
        return _optional(kind, name, strict=strict)
    if get_origin(kind) is tuple and get_args(kind)[-1] is not Ellipsis:
        return _row([form_of(each, strict=strict) for each in get_args(kind)])
    if get_origin(kind) is not None:
        return _collection(kind, name, strict=strict)
    return scalar(kind, name)


def _collection(kind: Any, name: str, *, strict: bool) -> Form:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (dict, collections.abc.Mapping):
        return _mapping(form_of(arguments[1], strict=strict))
    if name == _FINGERPRINTS:
        return MARKS
    if arguments[0] is Any:  # items: as one value, whose elements they are
        return ITEMS
    if origin not in (*_ARRAYS, tuple):
        raise TypeError(kind)
    return _array(form_of(arguments[0], strict=strict), tuple if origin is tuple else list)


def _optional(kind: Any, name: str, *, strict: bool) -> Form:
    (some,) = (each for each in get_args(kind) if each is not type(None))
    form = form_of(some, name, strict=strict)

    def encode(value: Any) -> Any:
        return None if value is None else form.encode(value)

    def decode(value: Any, where: str) -> Any:
        return None if value is None else form.decode(value, where)

    return Form({"anyOf": [form.schema, {"type": "null"}]}, encode, decode)


def _array(form: Form, make: type[Any]) -> Form:
    def encode(value: Any) -> Any:
        return [form.encode(each) for each in value]

    def decode(value: Any, where: str) -> Any:
        return make(form.decode(each, f"{where}[{at}]") for at, each in enumerate(of_kind(list, value, where)))

    return Form({"type": "array", "items": form.schema}, encode, decode)


def _row(forms: list[Form]) -> Form:
    schema = {
        "type": "array",
        "items": {"anyOf": [form.schema for form in forms]},
        "minItems": len(forms),
        "maxItems": len(forms),
    }

    def encode(value: Any) -> Any:
        return [form.encode(each) for form, each in zip(forms, value, strict=True)]

    def decode(value: Any, where: str) -> Any:
        if len(of_kind(list, value, where)) != len(forms):
            msg = f"{where} has {len(value)} parts in place of {len(forms)}"
            raise MalformedError(msg)
        return tuple(
            form.decode(each, f"{where}[{at}]") for at, (form, each) in enumerate(zip(forms, value, strict=True))
        )

    return Form(schema, encode, decode)


def _mapping(form: Form) -> Form:
    def encode(value: Any) -> Any:
        return {name: form.encode(each) for name, each in value.items()}

    def decode(value: Any, where: str) -> Any:
        pairs = of_kind(dict, value, where).items()
        return {
            PIECE_NAME.decode(name, f"name in {where}"): form.decode(each, f"{where}.{name}") for name, each in pairs
        }

    return Form(
        {"type": "object", "additionalProperties": form.schema, "propertyNames": PIECE_NAME.schema}, encode, decode
    )


def _object(kind: Any, *, strict: bool) -> Form:
    hints = typing.get_type_hints(kind)
    fields = {
        field.name: (form_of(hints[field.name], field.name, strict=strict), field.default)
        for field in dataclasses.fields(kind)
    }
    required = [field.name for field in dataclasses.fields(kind) if not _has_default(field)]

    def encode(value: Any) -> Any:
        given = {name: getattr(value, name) for name in fields}
        return {name: fields[name][0].encode(each) for name, each in given.items() if not _same(each, fields[name][1])}

    def decode(value: Any, where: str) -> Any:
        given = of_kind(dict, value, where)
        require_names(given, where, required, fields if strict else None)
        known = {
            name: form.decode(given[name], f"{where}.{name}") for name, (form, _) in fields.items() if name in given
        }
        return _made(kind, known, where)

    limits = _LIMITS.get(kind.__name__, {})
    properties = {name: form.schema | limits.get(name, {}) for name, (form, _) in fields.items()}
    return Form(object_schema(kind.__name__, properties, required, closed=strict), encode, decode)


def object_schema(title: str, properties: dict[str, Any], required: list[str], *, closed: bool) -> dict[str, Any]:
    """Return the schema of an object."""
    shape = {"title": title, "type": "object", "properties": properties, "required": required}
    return shape | ({"additionalProperties": False} if closed else {})


def require_names(
    given: dict[str, Any], where: str, required: Collection[str], known: Collection[str] | None = None
) -> None:
    """Refuse an object without what it must have, or with what nobody would read.

    :param known: every name that it may have; None when others are ignored.
    """
    missing = [name for name in required if name not in given]
    if missing:
        msg = f"{where} has no {', '.join(missing)}"
        raise MalformedError(msg)
    unknown = [name for name in given if known is not None and name not in known]
    if unknown:
        msg = f"{where} has {shown(unknown[0])}, which this release does not know; it has {', '.join(known or ())}"
        raise MalformedError(msg)


def _made(kind: Any, fields: dict[str, Any], where: str) -> Any:
    try:
        return kind(**fields)
    except IncrementalError as error:
        msg = f"{where}: {error}"
        raise MalformedError(msg) from error


def _same(value: Any, default: Any) -> bool:
    """Whether a value need not be sent."""
    return value is default or (type(value) is type(default) and bool(value == default))


_NAME = {"minLength": 1, "pattern": r"^[^\x00]*[^\s\x00\x1c-\x1f\x85][^\x00]*$"}
_LIMITS: dict[str, dict[str, dict[str, Any]]] = {
    "WatermarkKey": {
        "asset_name": _NAME | {"maxLength": 1500},
        "namespace": _NAME | {"maxLength": 250},
        "key": _NAME | {"maxLength": 250},
    }
}


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
