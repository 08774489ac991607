"""The assets that this process has defined: two of one name would take the watcher from one another.

Airflow keeps of an asset what it has parsed last, its watchers included
(https://airflow.apache.org/docs/apache-airflow/stable/authoring-and-scheduling/event-scheduling.html).
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.wiring.airflow import Asset

__all__ = ["require_same"]


@dataclass(frozen=True, slots=True)
class _Definition:
    """An asset as it was defined, and by which execution of which file."""

    asset: ref[Any]
    shape: Mapping[str, Any]
    file: str
    execution: object


_WHO_DEFINES = 2
"""Frames above :func:`require_same`: it is called by ``incremental_asset``, and that by who defines an asset."""
_MARK = "__incremental_execution__"
"""Told apart by what it is, not where: the memory of a module that is gone may be another one's."""

_known: dict[str, _Definition] = {}


def require_same(asset: Asset, shape: Mapping[str, Any]) -> None:
    """Note an asset, and refuse it when another one of its name is in use that was defined differently.

    One that nobody holds any more, or that an earlier execution of the same file has made, does not count: a file may
    be parsed again after it was edited.

    :param shape: what must be the same, by the names of the arguments.
    :raises ConfigurationError: naming what differs, and the other file.
    """
    caller = inspect.stack(0)[_WHO_DEFINES]
    execution = caller.frame.f_globals.setdefault(_MARK, object())
    new = _Definition(ref(asset), shape, caller.filename, execution)
    old = _known.get(asset.name)
    if old is not None and old.shape != shape and _is_in_use(old) and not _is_parsed_again(old, new):
        absent = "(left out)"
        differs = ", ".join(
            f"{name}: {old.shape.get(name, absent)!r} and {shape.get(name, absent)!r}"
            for name in sorted({*old.shape, *shape})
            if old.shape.get(name, absent) != shape.get(name, absent)
        )
        msg = (
            f"incremental_asset({asset.name!r}, ...) was called in {old.file} with other arguments ({differs}), and "
            "Airflow keeps the watcher of one of them only. Define it once and import it where you need it; for two "
            "sources of one asset give one Asset two watchers, whose triggers differ in key"
        )
        raise ConfigurationError(msg)
    _known[asset.name] = new


def _is_in_use(definition: _Definition) -> bool:
    if definition.asset() is not None:
        gc.collect()  # DAGs and assets hold one another
    return definition.asset() is not None


def _is_parsed_again(old: _Definition, new: _Definition) -> bool:
    return old.file == new.file and old.execution is not new.execution
