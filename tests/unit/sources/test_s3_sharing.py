"""Sources of one connection share a client: made once, closed with its last user, made anew after an error."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_incremental.sources.s3_sharing import SharedClients


class Making:
    """Makes clients, which are numbers, and notes which of them were opened and closed."""

    def __init__(self) -> None:
        self.opened = []
        self.closed = []
        self.errors = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self):
        return self

    async def __aenter__(self):
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop()
        self.opened.append(len(self.opened))
        return self.opened[-1]

    async def __aexit__(self, *error):
        self.closed.append(len(self.closed))


async def test_one_client_for_many_users():
    """Users of one key get the same client, which closes when the last of them leaves; another key has its own."""
    clients, make = SharedClients(), Making()
    first, second, other = (clients.lease(key, make) for key in ("a", "a", "b"))
    assert [await lease.__aenter__() for lease in (first, second, other)] == [0, 0, 1]
    await first.__aexit__(None, None, None)
    assert make.closed == []
    await second.__aexit__(None, None, None)
    await other.__aexit__(None, None, None)
    assert len(make.closed) == 2
    async with clients.lease("a", make) as client:
        assert client == 2


async def test_users_at_once_wait_for_the_one_client():
    """Who asks while the client is being made gets that client."""
    clients, make = SharedClients(), Making()
    make.gate.clear()
    asking = [asyncio.create_task(clients.lease("a", make).__aenter__()) for _ in range(5)]
    await asyncio.sleep(0)
    make.gate.set()
    assert await asyncio.gather(*asking) == [0] * 5


async def test_error_retires_the_client():
    """After an error the next user gets a new client; who has the old one keeps it until they leave."""
    clients, make = SharedClients(), Making()
    failing, working = clients.lease("a", make), clients.lease("a", make)
    await failing.__aenter__()
    await working.__aenter__()
    error = PermissionError("no")
    await failing.__aexit__(type(error), error, None)
    assert make.closed == []
    fresh = clients.lease("a", make)
    assert await fresh.__aenter__() == 1
    await working.__aexit__(type(error), error, None)
    assert len(make.closed) == 1
    async with clients.lease("a", make) as client:
        assert client == 1


@pytest.mark.parametrize("fault", [OSError("no"), asyncio.CancelledError()])
async def test_client_that_could_not_be_made(fault):
    """A failure to make a client is its user's alone: the next one tries again."""
    clients, make = SharedClients(), Making()
    make.errors.append(fault)
    with pytest.raises(type(fault)):
        await clients.lease("a", make).__aenter__()
    async with clients.lease("a", make) as client:
        assert client == 0
    assert len(make.closed) == 1


def test_each_event_loop_has_its_own():
    """A client of a loop that is gone is not used in another."""
    clients, make = SharedClients(), Making()

    async def use() -> int:
        return await clients.lease("a", make).__aenter__()

    assert [asyncio.run(use()) for _ in range(2)] == [0, 1]
