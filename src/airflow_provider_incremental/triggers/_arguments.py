"""What a trigger was built from: ``serialize()`` follows from the constructor's signature, never written by hand.

Airflow keeps a trigger as its class path and arguments, tells triggers apart by them, and builds each one again in the
triggerer, where an exception from a constructor ends the process for everybody. So arguments are plain values in one
canonical form (the same on every parse, defaults left out, so that a new parameter changes no trigger that exists),
and a trigger that is built from stored arguments never raises: it is made anyway, and carries its fault.
"""

from __future__ import annotations

import abc
import datetime as dt
import inspect
import json
import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from airflow_provider_incremental.core.checks import refuse_templates
from airflow_provider_incremental.core.contained import contained
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.wiring.airflow import importable_module
from airflow_provider_incremental.wiring.importable import require_importable

__all__ = ["STORED", "Arguments", "Rebuildable"]

STORED = "stored"
"""The argument that tells stored arguments from an author's; its value is the version of their form."""

_FORM = 1
_UNKNOWN = re.compile(r"__init__\(\) got an unexpected keyword argument '(\w+)'")

_MAPPING = "mapping:"
"""How the text of a dictionary begins."""

Arguments = dict[str, Any]


class RebuildableTrigger(abc.ABCMeta):
    """The class of trigger classes: remembers what each trigger was built from, and how building failed, if it did.

    Sets ``arguments`` (what ``serialize()`` gives) and ``fault`` (None, or why it cannot run).
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Build a trigger: an author's mistakes raise, those of stored arguments are kept as a fault."""
        if STORED in kwargs:
            return cls._rebuild(kwargs)
        require_importable(cls)
        refuse_templates({**dict(zip(parameters(cls), args, strict=False)), **kwargs})
        try:
            trigger = super().__call__(*args, **kwargs)
        except TypeError as error:
            raise _named(cls, kwargs, error) from error
        trigger.arguments = {**canonical(cls, args, kwargs), STORED: _FORM}
        trigger.fault = None
        return trigger

    def _rebuild(cls, stored: Arguments) -> Any:
        known = {name: stored[name] for name in parameters(cls) if name in stored}
        trigger: Any
        try:
            with contained():
                trigger = super().__call__(**{name: _restored(value) for name, value in known.items()})
            fault = None
        except Exception as error:
            unfinished: Any = cls
            trigger = unfinished.__new__(unfinished)
            trigger.recover()
            fault = describe(error)
        # As they were stored, unknown ones of another release included: they are the trigger's identity.
        trigger.arguments = dict(stored)
        trigger.fault = fault
        return trigger


class Rebuildable(metaclass=RebuildableTrigger):
    """What such a trigger class begins with: it gives Airflow the arguments as they were kept."""

    arguments: Arguments
    fault: str | None

    def serialize(self) -> tuple[str, Arguments]:
        """Return the class path and the arguments, as Airflow keeps them."""
        cls = type(self)
        return f"{importable_module(cls.__module__)}.{cls.__qualname__}", dict(self.arguments)


def parameters(cls: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a trigger class; a constructor that takes ``**options`` has those of its base too."""
    found: dict[str, inspect.Parameter] = {}
    for each in cls.__mro__:
        if "__init__" not in each.__dict__:
            continue
        own = list(inspect.signature(each.__dict__["__init__"]).parameters.values())[1:]
        for parameter in own:
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
            break
    return found


def _named(cls: type, given: Arguments, error: TypeError) -> TypeError:
    """Return the error for an argument that nobody has with the name of the class that was called, and with its own."""
    found = _UNKNOWN.search(str(error))
    known = parameters(cls)
    if found is None or found[1] not in given or found[1] in known:
        return error
    near = get_close_matches(found[1], known, n=1)
    meant = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(sorted(known))}"
    return TypeError(f"{cls.__name__} has no argument {found[1]!r}{meant}")


def canonical(cls: type, args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    """Return the arguments in the one form that is stored: by name, plain values, without those equal to a default.

    :raises ConfigurationError: for a value that Airflow cannot keep, naming the parameter.
    """
    known = parameters(cls)
    given = {**dict(zip(known, args, strict=False)), **kwargs}
    arguments = {name: plain(cls, name, value) for name, value in given.items()}
    return {
        name: value
        for name, value in sorted(arguments.items())
        if name not in known
        or known[name].default is inspect.Parameter.empty
        or not _same(value, plain(cls, name, known[name].default))
    }


def plain(cls: type, name: str, value: Any) -> Any:
    """Return a value as a scalar, or a list of scalars: all that every release of Airflow hands on unharmed.

    A dictionary of those becomes a text, which :func:`_restored` reads.
    """
    if isinstance(value, Mapping) and all(isinstance(each, str) for each in value):
        return _MAPPING + json.dumps({each: _flat(cls, name, inner) for each, inner in value.items()}, sort_keys=True)
    if isinstance(value, str) and value.startswith(_MAPPING):
        return _MAPPING + json.dumps(value)
    return _flat(cls, name, value)


def _restored(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_MAPPING):
        return json.loads(value.removeprefix(_MAPPING))
    return value


def _flat(cls: type, name: str, value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    if isinstance(value, (list, tuple)):
        return [_scalar(cls, name, each) for each in value]
    return _scalar(cls, name, value)


def _scalar(cls: type, name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (str, int)):
        return str(value) if isinstance(value, str) else int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    msg = (
        f"{cls.__name__}: {name}={value!r} cannot be kept by Airflow; give text, a number, a timedelta, or a list or a "
        "dictionary by name of those (a point in time as ISO 8601 text)"
    )
    raise ConfigurationError(msg)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
