"""Which watermark a user means: ``ASSET[/NAMESPACE[/KEY]]``, where the name of an asset may hold slashes too."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from difflib import get_close_matches

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.upkeep import ConsumerStatus
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey

__all__ = ["find", "known", "of_asset", "readings"]

_MOST_NAMES = 5


def readings(text: str) -> list[WatermarkKey]:
    """Return every watermark that a text can mean.

    >>> [key.asset_name for key in readings("s3://b/orders/eu")]
    ['s3://b/orders/eu', 's3://b/orders', 's3://b']
    """
    found = [WatermarkKey(text)]
    for splits in (1, 2):
        parts = text.rsplit("/", splits)
        if len(parts) == splits + 1 and all(part.strip() for part in parts):
            found.append(WatermarkKey(*parts))
    return found


async def find(store: WatermarkStore, given: Namespace) -> Watermark:
    """Return the watermark that the arguments name.

    :raises ConfigurationError: when there is none, with names like it; or when the text can mean several.
    """
    if given.exact:
        keys = [WatermarkKey(given.watermark, given.namespace or "default", given.key or "default")]
    else:
        keys = readings(given.watermark)
    found = [watermark for key in keys if (watermark := await store.load(key)) is not None]
    if not found:
        raise await _unknown(store, str(keys[0]))
    if len(found) > 1:
        ways = " or ".join(_exactly(watermark.key) for watermark in found)
        msg = f"{given.watermark!r} can mean {len(found)} watermarks: say which with {ways}"
        raise ConfigurationError(msg)
    return found[0]


async def of_asset(store: WatermarkStore, asset_name: str | None) -> list[Watermark]:
    """Return the watermarks of an asset, or all.

    :raises ConfigurationError: when the asset has none, with names like it.
    """
    found = await store.list_watermarks(Selector(asset_name) if asset_name else None)
    if asset_name and not found:
        raise await _unknown(store, asset_name)
    return found


def known(consumers: Sequence[ConsumerStatus], name: str | None, where: str) -> list[ConsumerStatus]:
    """Return the consumers of a name, or all.

    :param where: the watermark or the asset whose consumers these are.
    :raises ConfigurationError: when none has the name, with names like it.
    """
    found = [each for each in consumers if name in (None, each.consumer)]
    if name is None or found:
        return found
    names = list(dict.fromkeys(each.consumer for each in consumers))
    hint = _meant(name, names) or (
        "`airflow-incremental consumers` shows all."
        if names
        else "Nobody has consumed it yet: a consumer is known from its first consume() on, or when a trigger names it."
    )
    raise ConfigurationError(f"consumer {name!r} is not known to {where}. {hint}")


async def _unknown(store: WatermarkStore, text: str) -> ConfigurationError:
    names = [str(watermark.key) for watermark in await store.list_watermarks()]
    if not names:
        return ConfigurationError(
            f"there is no watermark {text!r}, nor any other: a trigger makes its watermark at its first poll. If there "
            "should be some, is this the triggerer's store? See [incremental] store and --store"
        )
    hint = _meant(text, names) or "`airflow-incremental list` shows all."
    return ConfigurationError(f"there is no watermark {text!r}. {hint}")


def _meant(text: str, names: Sequence[str]) -> str:
    alike = [name for name in names if text in name or name in text]
    alike += [name for name in get_close_matches(text, names, n=_MOST_NAMES, cutoff=0.6) if name not in alike]
    return f"Do you mean {', '.join(alike[:_MOST_NAMES])}?" if alike else ""


def _exactly(key: WatermarkKey) -> str:
    return f"--asset {key.asset_name!r} --namespace {key.namespace!r} --key {key.key!r}"
