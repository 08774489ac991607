"""The one place that knows Airflow's releases: what differs between 3.0 and 3.3 is settled here, and nowhere else."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import AIRFLOW_HOME, conf
from airflow.sdk import (
    Asset,
    AssetWatcher,
    BaseSensorOperator,
    PokeReturnValue,
    get_current_context,
    get_parsing_context,
)
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async


def _first_importable(*places: str, otherwise: Any = None) -> Any:
    """Return the first ``module:name`` that this release of Airflow has."""
    for module, _, name in (place.partition(":") for place in places):
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    return otherwise


if TYPE_CHECKING:
    from airflow.sdk import BaseHook, Connection
    from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowSkipException
    from airflow.triggers.shared_stream import SharedStreamProducer
else:
    BaseHook = _first_importable("airflow.sdk:BaseHook", "airflow.hooks.base:BaseHook")  # the latter on 3.0
    AirflowSkipException = _first_importable(
        "airflow.sdk.exceptions:AirflowSkipException", "airflow.exceptions:AirflowSkipException"
    )
    AirflowException = _first_importable(
        "airflow.sdk.exceptions:AirflowException", "airflow.exceptions:AirflowException"
    )
    AirflowNotFoundException = _first_importable("airflow.exceptions:AirflowNotFoundException")
    # An Airflow before 3.3 has no shared streams and never asks for a producer: any class stands in for its base.
    SharedStreamProducer = _first_importable("airflow.triggers.shared_stream:SharedStreamProducer", otherwise=object)

__all__ = [
    "AirflowException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "Asset",
    "AssetWatcher",
    "BaseEventTrigger",
    "BaseSensorOperator",
    "BaseTrigger",
    "PokeReturnValue",
    "SharedStreamProducer",
    "TriggerEvent",
    "aget_connection",
    "airflow_home",
    "ais_missing",
    "current_context",
    "declared_paths",
    "deferrable_by_default",
    "flag",
    "get_connection",
    "importable_module",
    "metadata_database_url",
    "parsing_for_task",
    "setting",
    "unwatched_asset",
]

_DAG_FILE_MODULE = re.compile(r"^unusual_prefix_[0-9a-f]{40}_")


def setting(name: str, default: str = "") -> str:
    """Return an option of the section ``[incremental]`` of Airflow's configuration."""
    return str(conf.get("incremental", name, fallback=default) or default)


def flag(name: str, *, default: bool) -> bool:
    """Return an option of the section ``[incremental]`` that is on or off.

    :raises AirflowConfigException: when it is neither.
    """
    return bool(conf.getboolean("incremental", name, fallback=default))


def deferrable_by_default() -> bool:
    """Whether ``[operators] default_deferrable`` is set."""
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def metadata_database_url() -> str:
    """Return the URL of Airflow's own database, with its password; for processes that Airflow gives it to."""
    return str(conf.get_mandatory_value("database", "sql_alchemy_conn"))


def airflow_home() -> Path:
    """Return the folder ``AIRFLOW_HOME``."""
    return Path(AIRFLOW_HOME)


def get_connection(conn_id: str) -> Connection:
    """Return an Airflow connection, outside of an event loop."""
    return BaseHook.get_connection(conn_id)


async def aget_connection(conn_id: str) -> Connection:
    """Return an Airflow connection, inside of a triggerer's event loop.

    By way of the thread that ``sync_to_async`` uses for everybody: it works on every release, while
    ``BaseHook.aget_connection`` is missing on 3.0 and can meet a deadlock before 3.3.2, and a thread of our own would
    mix up the answers that Airflow 3.0 and 3.1 read.
    """
    return await sync_to_async(get_connection)(conn_id)


async def ais_missing(conn_id: str) -> bool:
    """Whether a connection that was not found does not exist, and it is not that Airflow could not be asked.

    Since 3.2, a triggerer whose API does not answer finds no connection, and only what asks it can tell.
    """
    return await sync_to_async(_is_missing)(conn_id)


def _is_missing(conn_id: str) -> bool:
    supervisor = _first_importable("airflow.sdk.execution_time.task_runner:SUPERVISOR_COMMS")
    request = _first_importable("airflow.sdk.execution_time.comms:GetConnection")
    if supervisor is None or request is None:  # a process that finds connections by itself
        return True
    said = getattr(supervisor.send(request(conn_id=conn_id)), "error", None)
    return getattr(said, "value", None) == "CONNECTION_NOT_FOUND"


def current_context() -> Any | None:
    """Return the context of the running task, or None outside of one."""
    try:
        return get_current_context()
    except RuntimeError:
        return None


def parsing_for_task() -> bool:
    """Whether a DAG file is being loaded to run one task of it."""
    return get_parsing_context().task_id is not None


def declared_paths() -> list[str]:
    """Return the folders that every process of a deployment can import from, as far as they are declared."""
    plugins = str(conf.get("core", "plugins_folder", fallback=""))
    return [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), plugins, f"{AIRFLOW_HOME}/config"]


def importable_module(module: str) -> str:
    """Return the name by which a triggerer can import a module that may have been loaded as a DAG file."""
    return _DAG_FILE_MODULE.sub("", module)


def unwatched_asset(trigger: BaseEventTrigger, asset_name: str) -> str | None:
    """Say so when the trigger is attached to assets of other names than its own; None when fine or not known.

    Airflow tells a trigger which assets it watches since 3.3.
    """
    accessors: Any = getattr(trigger, "asset_state_store", None)
    if accessors is None:
        return None
    try:
        accessors[Asset.ref(name=asset_name)]
    except KeyError:
        # No public name leads to them; without, the message does without.
        names = ", ".join(map(repr, getattr(accessors, "_by_name", ())))
        return (
            f"asset_name={asset_name!r} is not the asset that this trigger is attached to{names and f' ({names})'}: "
            "consumers of that asset will not find these batches; give both the same name, or use "
            "incremental_asset(...)"
        )
    return None
