"""Where code of others is called: whatever it raises comes out as an ``Exception``, which ends only that attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import describe

__all__ = ["contained"]


@contextmanager
def contained() -> Iterator[None]:
    """Turn what no ``except Exception`` sees into a :class:`SourceError`, but for what is meant for the caller.

    ``sys.exit()`` in a library, or the panic of an extension written in Rust, would end the triggerer for everybody:
    asyncio hands ``SystemExit`` on to whoever runs the event loop.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        msg = f"it raised {describe(error)}, which would end the process; raise an Exception instead"
        raise SourceError(msg) from error
