"""A batch of rows tells the condition of its rows, for a query of the consumer's own."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from airflow_provider_incremental import PendingBatch, consume, pending_batches
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.watermark import Watches
from tests.unit.consumers.log import commit

ROWS = Watches(source="sql://shop/orders", cursor="id")


def test_where_for_a_hook() -> None:
    """The condition and its parameters, as hooks take them."""
    commit([1, 2], watches=ROWS)
    for batch in consume("orders", consumer="c"):
        condition, parameters = batch.where()
        assert (condition, parameters) == ("(id <= %(batch_high_0)s)", {"batch_high_0": 2})
        condition, parameters = batch.where("qmark", alias="o")
        assert (condition, parameters) == ("(o.id <= ?)", [2])


def test_where_for_sqlalchemy() -> None:
    """As a clause on the columns of a table."""
    commit([1, 2], watches=ROWS)
    orders = sa.table("orders", sa.column("id"))
    for batch in consume("orders", consumer="c"):
        query = sa.select(orders).where(batch.where_clause(orders))
        assert "WHERE orders.id <= :high_0" in str(query)


def test_where_in_a_mapped_task() -> None:
    """A batch that was handed on as JSON has it as well."""
    commit([1, 2], watches=ROWS)
    (entry,) = pending_batches("orders", consumer="c")
    with PendingBatch.from_json(entry).processing() as batch:
        assert batch.where("dollar").parameters == [2]


def test_a_batch_of_something_else_has_no_rows() -> None:
    """That is said, not answered with a condition that means nothing."""
    commit([1])
    with pytest.raises(ConfigurationError, match=r"where\(\) is for batches of rows, and this watermark watches list"):
        [batch.where() for batch in consume("orders", consumer="c")]
