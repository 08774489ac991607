"""The other side of ``listen``: the name of a channel, and the SQL with which a table notifies it."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy.dialects.postgresql.base import PGDialect

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments

__all__ = ["check_channel", "notify_ddl"]

_LONGEST = 63  # bytes; PostgreSQL refuses a longer channel, and cuts a longer name


def check_channel(listen: str) -> str:
    """Return the name of a channel as it was given.

    :raises ConfigurationError: when PostgreSQL would not take it.
    """
    if not isinstance(listen, str) or not listen or "\x00" in listen or len(listen.encode()) > _LONGEST:
        msg = f"listen={listen!r} is not the name of a channel; give a text of 1 to {_LONGEST} bytes, as for NOTIFY"
        raise ConfigurationError(msg)
    return listen


def _own_name(table: str) -> str:
    """Return the name of a table's function and trigger; where it has to be cut, it is still the table's alone."""
    whole = f"{table}_notify"
    if len(whole.encode()) <= _LONGEST:
        return whole
    end = f"_{hashlib.blake2b(table.encode(), digest_size=4).hexdigest()}_notify"
    return table.encode()[: _LONGEST - len(end)].decode(errors="ignore") + end


def notify_ddl(table: str, channel: str) -> str:
    """Return the SQL that makes PostgreSQL notify a channel when a statement has changed a table.

    One notification a transaction, without content, when it commits: however many rows, the trigger polls for them.

    :param table: the table, or ``schema.table``, as for the trigger.
    :raises ConfigurationError: when the names cannot be used.

    >>> print(notify_ddl("public.orders", "orders").splitlines()[0])
    CREATE OR REPLACE FUNCTION public.orders_notify() RETURNS trigger LANGUAGE plpgsql AS $$
    """
    schema, name = check_sql_arguments(table=table, cursor="id").schema_and_name
    dialect: Any = PGDialect
    # Without a driver's parameters, no percent sign has to be doubled.
    quote = dialect(paramstyle="named").identifier_preparer.quote
    prefix = "" if schema is None else f"{quote(schema)}."
    own = _own_name(name)
    function, trigger, on = f"{prefix}{quote(own)}()", quote(own), f"{prefix}{quote(name)}"
    text = check_channel(channel).replace("'", "''")
    escape = "E" if "\\" in text else ""
    literal = f"{escape}'{text}'".replace("\\", "\\\\")
    body = "$$"
    while body in text:
        body = f"${body[1:-1]}n$"
    return f"""\
CREATE OR REPLACE FUNCTION {function} RETURNS trigger LANGUAGE plpgsql AS {body}
BEGIN
    PERFORM pg_catalog.pg_notify({literal}, '');
    RETURN NULL;
END
{body};
DROP TRIGGER IF EXISTS {trigger} ON {on};
CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {on}
    FOR EACH STATEMENT EXECUTE FUNCTION {function};
"""
