"""Who calls, and what of which watermarks that caller may do. What is not allowed by name is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from airflow_provider_incremental.core.batch import Batch, Claim
from airflow_provider_incremental.core.errors import IncrementalError
from airflow_provider_incremental.core.snapshot import Snapshot
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus, DeadBatch, JournalEntry
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey
from airflow_provider_incremental.stores.api.operations import Operation, Scope

__all__ = ["Auth", "Caller", "ForbiddenError", "only_visible", "permitted", "subject_of"]


class ForbiddenError(IncrementalError):
    """The caller is known, and may not do this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request.

    :param name: what the log of writes calls it; keys of operations that are done once are its own.
    :param allows: whether it may do what needs a scope.
    :param namespaces: the only namespaces of watermarks that it may see or touch; None for all.
    :param vouches: whether it is trusted to name the person who acts; otherwise its own name is added.
    :param right: what it would need for a scope, in the words of whoever grants it.
    """

    name: str
    allows: Callable[[Scope], bool]
    namespaces: frozenset[str] | None = None
    vouches: bool = False
    right: Callable[[Scope], str] = "the scope {}".format


class Auth(Protocol):
    """How an app knows its callers. There is no app without one."""

    @property
    def identify(self) -> Callable[..., Any]:
        """A FastAPI dependency that returns the :class:`Caller`, or raises an ``HTTPException`` with 401 or 403."""


def permitted(caller: Caller, operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, narrowed to what the caller may see.

    :raises ForbiddenError: when the caller lacks the scope, or means watermarks outside of its namespaces.
    """
    if not caller.allows(operation.scope):
        msg = f"{caller.name} may not {operation.name}: it needs {caller.right(operation.scope)}"
        raise ForbiddenError(msg)
    return {name: _narrowed(caller, _signed(caller, value)) for name, value in arguments.items()}


def only_visible(caller: Caller, answer: Any) -> Any:
    """Return an answer without watermarks that the caller may not see: who asked for all of them asked for its own."""
    if caller.namespaces is None or not isinstance(answer, list):
        return answer
    return [each for each in answer if getattr(_named(each), "namespace", None) in (None, *caller.namespaces)]


def subject_of(arguments: dict[str, Any]) -> str:
    """Return which watermarks a call is about, for the log."""
    found = (_named(value) for value in arguments.values())
    return next((str(each) for each in found if each is not None), "the store")


def _signed(caller: Caller, value: Any) -> Any:
    """Return an act with who did it: whom a caller names is what it says."""
    if isinstance(value, Act) and value.who != caller.name and not caller.vouches:
        return replace(value, who=f"{value.who} (as {caller.name})")
    return value


def _narrowed(caller: Caller, value: Any) -> Any:
    meant, namespaces = _named(value), caller.namespaces
    if namespaces is None or meant is None or meant.namespace in namespaces:
        return value
    if isinstance(value, Selector) and value.namespace is None and len(namespaces) == 1:
        return replace(value, namespace=next(iter(namespaces)))
    which = f"namespace {meant.namespace!r}" if meant.namespace is not None else "all namespaces at once"
    msg = f"{caller.name} may not touch {which}; it is allowed {', '.join(sorted(namespaces)) or 'none'}"
    raise ForbiddenError(msg)


def _named(value: Any) -> WatermarkKey | Selector | None:
    """Return the watermark, or the watermarks, that a value is or is about."""
    if isinstance(value, (Claim, DeadBatch)):
        return value.batch.key
    if isinstance(value, Snapshot):
        return value.watermark.key
    if isinstance(value, (Watermark, Batch, ConsumerStatus, JournalEntry)):
        return value.key
    return value if isinstance(value, (WatermarkKey, Selector)) else None
