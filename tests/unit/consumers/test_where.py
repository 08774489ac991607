"""A batch of rows tells the condition of its rows, for a query of the consumer's own."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from airflow_provider_incremental import PendingBatch, consume, pending_batches
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import Watches
from tests.unit.consumers.log import ORDERS, commit, in_store

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


def rewatched(how: str, noise: int = 0) -> None:
    """Let the watermark watch rows by another column, as the command line does it; then so many acts of other kinds."""
    act = Act(who="alice")

    async def work(store: WatermarkStore) -> None:
        if how == "set":
            await store.rewatch(ORDERS, act)
        else:
            await store.rewind(ORDERS, None, reread=True, rewatch=True, act=act)
        await store.register(ORDERS, Watches(source="sql://shop/orders", cursor="customer_no"))
        for _ in range(noise):
            await store.rewind(ORDERS, 7, reread=False, act=act)

    in_store(work)


@pytest.mark.parametrize("how", ["set", "rewind"])
@pytest.mark.parametrize("noise", [0, 150])
def test_a_batch_of_another_cursor_since_then_is_refused(how: str, noise: int) -> None:
    """Whose bounds are of a column that is not read any more, however much was done by hand later; later ones serve."""
    commit([1, 2], watches=ROWS)
    rewatched(how, noise)
    commit([1, 2, 3], watches=Watches(source="sql://shop/orders", cursor="customer_no"))
    new = []
    for batch in consume("orders", consumer="c"):
        if batch.seq == 1:
            with pytest.raises(
                ConfigurationError, match=r"may watch another source since alice .*read it by its items"
            ):
                batch.where()
            with pytest.raises(ConfigurationError, match="may watch another source since"):
                batch.where_clause()
        else:
            new.append(batch.where("qmark"))
    assert [tuple(each) for each in new] == [("(customer_no <= ?)", [3])]


def test_batches_from_both_sides_put_together_are_refused() -> None:
    """The lower bound of such a group is of the one cursor, the upper of the other."""
    commit([1, 2], watches=ROWS)
    rewatched("set")
    commit([1, 2, 3], watches=Watches(source="sql://shop/orders", cursor="customer_no"))
    for batch in consume("orders", consumer="c", max_items=100):
        assert batch.count == 5
        with pytest.raises(ConfigurationError, match="may watch another source since"):
            batch.where()


def test_positions_set_by_hand_do_not_keep_it_from_being_told() -> None:
    """A rewind within the same source changes nothing of what a batch's bounds mean."""
    commit([1, 2], watches=ROWS)
    in_store(lambda store: store.rewind(ORDERS, None, reread=True, act=Act(who="alice")))
    for batch in consume("orders", consumer="c"):
        assert batch.where("qmark").parameters == [2]
