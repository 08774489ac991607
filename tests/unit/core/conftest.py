"""Time that stands still, and a deployment in miniature, for the tests of the domain."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from airflow_provider_incremental.testing.fakes import FakeClock
from tests.miniature import Deployment


@pytest.fixture
def clock() -> FakeClock:
    """The time of the deployment."""
    return FakeClock()


@pytest.fixture
async def deployment(clock: FakeClock) -> AsyncIterator[Deployment]:
    """A deployment with nothing in it; whatever still runs at the end is stopped."""
    deployment = Deployment(clock)
    yield deployment
    for trigger in deployment.triggers:
        await trigger.stop()
