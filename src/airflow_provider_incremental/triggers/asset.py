"""``incremental_asset``: an asset, its watcher and its trigger in one call, so that the name is written once."""

from __future__ import annotations

from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.triggers import _definitions as definitions
from airflow_provider_incremental.triggers._base import IncrementalTrigger
from airflow_provider_incremental.wiring.airflow import Asset, AssetWatcher

__all__ = ["incremental_asset"]


def incremental_asset(
    name: str,
    trigger: type[IncrementalTrigger],
    *,
    uri: str | None = None,
    group: str = "asset",
    extra: dict[str, Any] | None = None,
    **arguments: Any,
) -> Asset:
    """Return an asset that is watched by a trigger of the given class.

    :param name: the asset's name, and the trigger's ``asset_name``.
    :param trigger: a class such as ``S3KeyIncrementalTrigger``; ``arguments`` are its parameters.
    :param uri: as for ``Asset``; by default the name.
    :param group: as for ``Asset``.
    :param extra: as for ``Asset``.
    :raises ConfigurationError: when an argument cannot be used, or an asset of this name was defined with others.

    >>> orders = incremental_asset(
    ...     "orders", SQLIncrementalQueryTrigger, conn_id="shop", table="public.orders", cursor=["updated_at", "id"]
    ... )  # doctest: +SKIP
    """
    if "asset_name" in arguments:
        raise ConfigurationError(
            f"incremental_asset({name!r}, ...): asset_name={arguments['asset_name']!r} is the first argument already; "
            "leave it out"
        )
    made = trigger(asset_name=name, **arguments)
    watcher = AssetWatcher(name=f"{name}_incremental", trigger=made)
    asset = Asset(name, uri or name, group=group, extra=extra or {}, watchers=[watcher])
    definitions.require_same(asset, {"uri": asset.uri, "trigger": trigger.__name__, **made.serialize()[1]})
    return asset
