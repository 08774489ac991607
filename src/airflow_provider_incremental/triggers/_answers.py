"""What an extended trigger answers, checked where it is asked: a message that names the class and what to return."""

from __future__ import annotations

from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.core.source import Found, Source
from airflow_provider_incremental.core.watermark import Watches

__all__ = ["as_found", "as_source"]


def as_source(trigger: object, answer: Any) -> Source:
    """Return a source.

    :raises ConfigurationError: when it is none, or does not say what it watches.
    """
    if not isinstance(answer, Source):
        msg = f"{type(trigger).__name__}.create_source() returned {_shown(answer)}; return a Source"
        raise ConfigurationError(msg)
    watches: Any = answer.watches
    if not isinstance(watches, Watches):
        msg = f"{type(answer).__name__}.watches is {_shown(watches)}; return Watches(source=..., cursor=...)"
        raise ConfigurationError(msg)
    return answer


def as_found(trigger: object, source: Source, answer: Any) -> Found:
    """Return what a poll found.

    :raises SourceError: when it is no :class:`Found`.
    """
    if not isinstance(answer, Found):
        own = "get_high_watermark" in vars(type(trigger))
        where = f"{type(trigger).__name__}.get_high_watermark()" if own else f"{type(source).__name__}.poll()"
        msg = f"{where} returned {_shown(answer)}; return Found(items=[...], high=...), with high=low when none is new"
        raise SourceError(msg)
    return answer


def _shown(answer: Any) -> str:
    return "nothing" if answer is None else f"a value of type {type(answer).__name__}"
