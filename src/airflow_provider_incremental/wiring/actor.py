"""Who acts: the running task, or else the user of the operating system. It is what the journal records."""

from __future__ import annotations

import getpass
import os
import socket

from airflow_provider_incremental.wiring.airflow import current_context

__all__ = ["present_actor", "present_user"]

_NOT_MAPPED = -1


def present_actor() -> str:
    """Return the running task as ``dag/run/task``, or outside of one what :func:`present_user` returns."""
    context = current_context()
    if context is None:
        return present_user()
    ti = context["ti"]
    mapped = "" if ti.map_index in (None, _NOT_MAPPED) else f"/{ti.map_index}"
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}{mapped}"


def present_user() -> str:
    """Return the user of the operating system, as ``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
