"""How PostgreSQL would run a poll: its plan, without running it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_readers import SqlReader

__all__ = ["QueryPlan", "explained"]


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What matters of a plan.

    :param indexes: the indexes that it reads.
    :param scanned: the relations that it reads from one end to the other.
    :param sorts: whether it sorts rows that no index gives in order.
    """

    indexes: tuple[str, ...]
    scanned: tuple[str, ...]
    sorts: bool


class _Explained(sa.sql.expression.Executable, sa.sql.expression.ClauseElement):
    """A statement whose plan is asked for."""

    inherit_cache = False

    def __init__(self, statement: Statement) -> None:
        self.statement = statement


@compiles(_Explained)
def _explain(element: _Explained, compiler: Any, **options: Any) -> str:
    return f"EXPLAIN (FORMAT JSON) {compiler.process(element.statement, **options)}"


async def explained(reader: SqlReader, statement: Statement, parameters: Mapping[str, Any]) -> QueryPlan:
    """Return the plan of a statement with these parameters; PostgreSQL only.

    :raises SourceError: when the statement cannot be planned.
    """
    ((answer,),) = await reader.fetch(cast("Statement", _Explained(statement)), parameters)
    document = json.loads(answer) if isinstance(answer, (str, bytes)) else answer
    nodes = list(_nodes(document[0]["Plan"]))
    return QueryPlan(
        indexes=tuple(node["Index Name"] for node in nodes if "Index Name" in node),
        scanned=tuple(node.get("Relation Name", "?") for node in nodes if node["Node Type"].endswith("Seq Scan")),
        sorts=any(node["Node Type"] == "Sort" for node in nodes),
    )


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)
