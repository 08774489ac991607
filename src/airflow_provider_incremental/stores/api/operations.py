"""The one table of operations that travel: who may do what. Their arguments and answers are those of the protocol."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from airflow_provider_incremental.core.batch import Claim
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.forms import Form, form_of, object_schema, require_names

__all__ = ["OPERATIONS", "SCOPES", "Operation", "Scope"]

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = typing.get_args(Scope)
"""What a caller may be allowed to do: look; poll, announce and consume as well; move and delete by hand as well."""


@dataclass(frozen=True)
class Operation:
    """An operation of :class:`core.store.WatermarkStore`.

    :param name: of the protocol's method, and of its route.
    :param scope: what a caller must be allowed to do.
    :param repeatable: whether twice is once by itself, so that its answer need not be remembered.
    """

    name: str
    scope: Scope
    repeatable: bool = False

    @property
    def mutates(self) -> bool:
        """Whether it changes anything, so that it is done once for a key, however often it is sent."""
        return self.scope != "read"

    @cached_property
    def says(self) -> str:
        """What it does, in the words of the protocol."""
        return inspect.getdoc(self._method) or ""

    @cached_property
    def signature(self) -> inspect.Signature:
        """Its arguments."""
        return inspect.signature(self._method)

    @cached_property
    def answer(self) -> Form:
        """The form of what it returns."""
        return form_of(self._hints["return"])

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        properties = {name: form.schema for name, form in self._forms.items()}
        return object_schema(f"{self.name} arguments", properties, self._required, closed=True)

    def encode(self, store: Any, *given: Any, **named: Any) -> dict[str, Any]:
        """Return the JSON of a call's arguments; those at their default are left out.

        :raises UnsupportedValueError: when one holds a value without a JSON form.
        """
        bound = self.signature.bind(store, *given, **named).arguments
        return {
            name: form.encode(_lean(bound[name]))
            for name, form in self._forms.items()
            if name in bound and bound[name] is not self.signature.parameters[name].default
        }

    def decode(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments of a call.

        :raises MalformedError: when one is missing, unknown, or not of its form.
        """
        given = arguments if isinstance(arguments, Mapping) else {"": arguments}
        require_names(dict(given), self.name, self._required, self._forms)
        return {name: form.decode(given[name], name) for name, form in self._forms.items() if name in given}

    @property
    def _method(self) -> Any:
        return getattr(WatermarkStore, self.name)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return typing.get_type_hints(self._method)

    @cached_property
    def _forms(self) -> dict[str, Form]:
        names = [name for name in self.signature.parameters if name != "self"]
        return {name: form_of(self._hints[name], name, strict=True) for name in names}

    @cached_property
    def _required(self) -> list[str]:
        return [name for name in self._forms if self.signature.parameters[name].default is inspect.Parameter.empty]


def _lean(argument: Any) -> Any:
    """Return a claim without the items of its batch, which whoever gave it away has."""
    if isinstance(argument, Claim):
        return replace(argument, batch=replace(argument.batch, items=None))
    return argument


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("identity", "read"),
        Operation("load", "read"),
        Operation("register", "write", repeatable=True),
        Operation("commit", "write"),
        Operation("remembered", "read"),
        Operation("report", "write"),
        Operation("due", "read"),
        Operation("begin_announcement", "write"),
        Operation("confirm", "write", repeatable=True),
        Operation("seen", "read"),
        Operation("subscribe", "write", repeatable=True),
        Operation("claim", "write"),
        Operation("renew", "write", repeatable=True),
        Operation("acknowledge", "write", repeatable=True),
        Operation("release", "write", repeatable=True),
        Operation("bury", "write"),
        Operation("pending", "read"),
        Operation("dead_batches", "read"),
        Operation("consumers", "read"),
        Operation("unsubscribe", "admin"),
        Operation("acknowledged", "read"),
        Operation("history", "read"),
        Operation("list_watermarks", "read"),
        Operation("replay", "admin"),
        Operation("prune", "write"),
        Operation("journal", "read"),
        Operation("rewind", "admin"),
        Operation("rewatch", "admin"),
        Operation("forget", "admin"),
        Operation("export", "admin", repeatable=True),
        Operation("restore", "admin"),
    )
}
"""Every operation by its name. A new one of the protocol is one entry here, and nothing else."""
