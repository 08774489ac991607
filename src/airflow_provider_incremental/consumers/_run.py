"""What the running task tells a consumer: who it is, and which batches and which store started its run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_incremental.core.checks import A_NAME, is_name
from airflow_provider_incremental.core.errors import ConfigurationError, WrongStoreError
from airflow_provider_incremental.wiring.airflow import current_context

__all__ = ["Run", "current_run", "name_of"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A task that consumes. Outside of a task all is empty, and the consumer must be named."""

    dag_id: str | None = None
    holder: str = ""
    stores: frozenset[str] = field(default_factory=frozenset)
    batch_ids: frozenset[str] = field(default_factory=frozenset)
    announced: frozenset[str] = field(default_factory=frozenset)

    def consumer(self, given: str | None) -> str:
        """Return the consumer's name: the one that is given, or the DAG's.

        :raises ConfigurationError: when there is neither.
        """
        name = self.dag_id if given is None else given
        if not is_name(name):
            msg = f"consumer={given!r} names no consumer; outside of a task give {A_NAME}"
            raise ConfigurationError(msg)
        return name

    def require_store(self, identity: str, earlier: frozenset[str]) -> None:
        """Refuse a store that the events of this run were not made from: it would look as if nothing were new.

        :param earlier: stores that had the watermarks before they were copied to this one.
        :raises WrongStoreError: naming both, and what to set.
        """
        others = self.stores - {identity} - earlier
        if others:
            msg = (
                f"this run was started by batches in the store {', '.join(sorted(others))}, but this worker opened the "
                f"store {identity}. Triggerer and workers must use the same one: set [incremental] store to the same "
                "database on all machines (the default, a SQLite file, serves one machine only)"
            )
            raise WrongStoreError(msg)


def name_of(asset: Any) -> str:
    """Return the name of an asset that is given as an object or by its name.

    :raises ConfigurationError: when it is neither.
    """
    name = asset if isinstance(asset, str) else getattr(asset, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"asset={asset!r} is not an asset; give an Asset or its name")
    return name


def current_run(asset_name: str) -> Run:
    """Return what the running task's context says of an asset.

    :raises ConfigurationError: when the asset's events were announced under another name.
    """
    context = current_context()
    if context is None:
        return Run(holder=uuid.uuid4().hex)
    payloads = list(_payloads(context, asset_name))
    return Run(
        dag_id=context["ti"].dag_id,
        holder=_holder(context["ti"]),
        stores=frozenset(str(payload["store"]) for payload in payloads),
        batch_ids=frozenset(str(batch["id"]) for payload in payloads for batch in payload.get("batches", ())),
        announced=frozenset(str(payload["asset"]) for _, payload in _announcements(context)),
    )


def _holder(ti: Any) -> str:
    """Readable, for who looks at a claim; and used by no other claim, a retry of the same task included."""
    task = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}/{ti.try_number}"
    return f"{task[:900]} {uuid.uuid4().hex}"


def _payloads(context: Any, asset_name: str) -> Iterator[Mapping[str, Any]]:
    for asset, payload in _announcements(context):
        if payload["asset"] == asset_name:
            yield payload
        elif getattr(asset, "name", None) == asset_name:
            msg = (
                f"the asset {asset_name!r} was announced by a trigger with asset_name={payload['asset']!r}: its "
                "batches are kept under that name. Give the trigger the asset's name, or use incremental_asset(...)"
            )
            raise ConfigurationError(msg)


def _announcements(context: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield what started the run, as far as it is this package's: the asset and the payload."""
    for asset, events in context["triggering_asset_events"].items():
        for event in events:
            payload = (event.extra or {}).get("payload")
            if isinstance(payload, Mapping) and {"schema", "store", "asset"} <= payload.keys():
                yield asset, payload
