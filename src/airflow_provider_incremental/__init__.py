"""Incremental triggers for Airflow 3: new S3 objects and SQL rows reach every consuming DAG, once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_incremental.consumers._work import ClaimedBatch as ClaimedBatch
    from airflow_provider_incremental.consumers.consume import consume as consume
    from airflow_provider_incremental.consumers.pending import PendingBatch as PendingBatch
    from airflow_provider_incremental.consumers.pending import pending_batches as pending_batches
    from airflow_provider_incremental.core.source import Baseline as Baseline
    from airflow_provider_incremental.core.source import Found as Found
    from airflow_provider_incremental.core.source import Source as Source
    from airflow_provider_incremental.core.upkeep import DeadBatch as DeadBatch
    from airflow_provider_incremental.core.watermark import Watches as Watches
    from airflow_provider_incremental.sensors.batches import IncrementalBatchSensor as IncrementalBatchSensor
    from airflow_provider_incremental.triggers import IncrementalTrigger as IncrementalTrigger
    from airflow_provider_incremental.triggers import S3KeyIncrementalTrigger as S3KeyIncrementalTrigger
    from airflow_provider_incremental.triggers import SQLIncrementalQueryTrigger as SQLIncrementalQueryTrigger
    from airflow_provider_incremental.triggers._preflight import preflight as preflight
    from airflow_provider_incremental.triggers.asset import incremental_asset as incremental_asset
    from airflow_provider_incremental.wiring.asset_watermark import AssetWatermark as AssetWatermark

__version__ = "0.1.0"

# Every Airflow process imports this package to learn what it provides: what it names is loaded when it is used.
_HOMES = {
    "AssetWatermark": "wiring.asset_watermark",
    "Baseline": "core.source",
    "ClaimedBatch": "consumers._work",
    "DeadBatch": "core.upkeep",
    "Found": "core.source",
    "IncrementalBatchSensor": "sensors.batches",
    "IncrementalTrigger": "triggers",
    "PendingBatch": "consumers.pending",
    "S3KeyIncrementalTrigger": "triggers",
    "SQLIncrementalQueryTrigger": "triggers",
    "Source": "core.source",
    "Watches": "core.watermark",
    "consume": "consumers.consume",
    "incremental_asset": "triggers.asset",
    "pending_batches": "consumers.pending",
    "preflight": "triggers._preflight",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its home, the first time that it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_HOMES})
