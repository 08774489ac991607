"""The commands and their arguments. It names the actions and loads none, so that help comes at once."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental import __version__
from airflow_provider_incremental.cli.api_commands import add_api
from airflow_provider_incremental.cli.arguments import (
    add_act,
    add_command,
    add_consent,
    add_force,
    add_output,
    add_rewatch,
    add_watermark,
    add_wide,
    count,
    settle_position,
)
from airflow_provider_incremental.cli.upkeep_commands import add_upkeep

__all__ = ["parse", "parser"]


def parse(arguments: Sequence[str] | None = None) -> Namespace:
    """Return the arguments, with ``action`` as ``module:function``; exits with 2 and a message on wrong usage."""
    given, words = parser().parse_known_args(arguments)
    # argparse takes an optional word for missing when an option stands before it.
    if len(words) == 1 and not words[0].startswith("-") and getattr(given, given.last_word or "", "") is None:
        setattr(given, given.last_word, words.pop())
    if words:
        given.usage.error(f"unrecognized arguments: {' '.join(words)}")
    if hasattr(given, "settle"):
        given.settle(given)
    return given


def parser() -> ArgumentParser:
    """Return the parser of every command."""
    root = ArgumentParser(
        prog="airflow-incremental",
        description="Make the store's tables, look at watermarks, move them, and look at what is to be watched.",
        epilog="Each command has help and examples of its own: airflow-incremental rewind --help",
    )
    root.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_db(commands)
    _add_list(commands)
    _add_show(commands)
    _add_set(commands)
    _add_rewind(commands)
    add_upkeep(commands)
    _add_preflight(commands)
    _add_notify(commands)
    add_api(commands)
    return root


def _add_db(commands: Any) -> None:
    db = commands.add_parser("db", help="make, upgrade and check the store's tables")
    under = db.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_command(
        under,
        "upgrade",
        "schema:upgrade",
        "make the store's tables, or bring them to this release; again is harmless",
        "  airflow-incremental db upgrade\n  airflow-incremental db upgrade --store conn:incremental_store",
    )
    add_command(
        under,
        "check",
        "schema:check",
        "say whether the store can be reached and its tables are those of this release; exits with 1 when not",
        "  airflow-incremental db check",
    )
    sql = add_command(
        under,
        "sql",
        "schema:sql",
        "print the SQL that makes the tables in an empty database, without connecting to it",
        "  airflow-incremental db sql --dialect postgresql > store.sql",
    )
    sql.add_argument(
        "--dialect",
        choices=("postgresql", "mysql", "sqlite"),
        help="the kind of database; by default that of the store",
    )


def _add_list(commands: Any) -> None:
    command = add_command(
        commands,
        "list",
        "watermarks:list_all",
        "list watermarks, with their position, what waits for their consumers, and how their last poll went",
        "  airflow-incremental list\n  airflow-incremental list orders --output json",
    )
    command.add_argument("asset_name", nargs="?", metavar="ASSET", help="only those of this asset")
    add_wide(command)
    add_output(command)


def _add_show(commands: Any) -> None:
    command = add_command(
        commands,
        "show",
        "watermarks:show",
        "show one watermark: position, what it watches, how its polls went, its consumers, its last batches",
        "  airflow-incremental show orders\n"
        "  airflow-incremental show orders/eu --batches 20\n"
        "  airflow-incremental show orders --consumer load_orders",
    )
    add_watermark(command)
    command.add_argument("--batches", type=count, default=5, metavar="N", help="so many of the last ones; default: 5")
    command.add_argument("--consumer", metavar="NAME", help="only this consumer")
    add_output(command)


def _add_set(commands: Any) -> None:
    command = add_command(
        commands,
        "set",
        "watermarks:set_position",
        "set a watermark to a position: the next poll reads above it, but S3 leaves out what was delivered before",
        "  airflow-incremental set orders 1200\n"
        "  airflow-incremental set orders '[\"2026-01-31T12:00:00+00:00\", 1200]'\n"
        '  airflow-incremental set orders --json \'{"$decimal": "12.50"}\'\n'
        "  airflow-incremental set orders --rewatch",
    )
    add_watermark(command)
    command.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="the position, of the same type as the present one and written as show writes it",
    )
    command.add_argument("--json", metavar="JSON", help="the position in JSON, tagged as show --output json writes it")
    add_rewatch(command)
    add_force(command)
    add_act(command)
    add_output(command)
    command.set_defaults(settle=settle_position, last_word="value")


def _add_rewind(commands: Any) -> None:
    command = add_command(
        commands,
        "rewind",
        "watermarks:rewind",
        "go back and deliver again what lies above a position, also what was delivered before",
        "  airflow-incremental rewind orders --to earliest\n"
        "  airflow-incremental rewind orders --to '[\"2026-01-31T00:00:00+00:00\", 0]' --yes\n"
        "  airflow-incremental rewind orders --to earliest --rewatch",
    )
    add_watermark(command)
    command.add_argument(
        "--to", required=True, metavar="VALUE", help="the position, as for set; earliest: the very start of the source"
    )
    add_rewatch(command)
    add_force(command)
    add_act(command)
    add_consent(command)
    add_output(command)


def _add_preflight(commands: Any) -> None:
    command = add_command(
        commands,
        "preflight",
        "preflight:look",
        "look at a table or a query before it is watched: access, types, uniqueness, NULLs, a first poll, index, "
        "clocks; print the statements that mend what is missing; exits with 1 when it could not be polled",
        "  airflow-incremental preflight shop public.orders --cursor updated_at,id\n"
        "  airflow-incremental preflight shop --sql 'SELECT id, name FROM orders' --cursor id --output json\n"
        "  airflow-incremental preflight shop orders --cursor id --where 'status = :status' --parameter status=paid",
        store=False,
    )
    command.add_argument("conn_id", metavar="CONN_ID", help="the Airflow connection of the database")
    command.add_argument("table", nargs="?", metavar="TABLE", help="the table, or schema.table")
    command.set_defaults(last_word="table")
    command.add_argument("--sql", metavar="QUERY", help="a query in place of TABLE")
    command.add_argument("--cursor", nargs="+", required=True, metavar="COLUMN", help="the columns that give the order")
    command.add_argument("--where", metavar="CONDITION", help="a condition that the rows meet, as for the trigger")
    command.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a :name in --where or --sql: JSON, and what is no JSON as text; may be repeated",
    )
    command.add_argument("--null-cursor", choices=("error", "skip"), default="error", help="default: error")
    command.add_argument("--visibility", choices=("committed", "none"), help="as for the trigger")
    command.add_argument("--timezone", metavar="ZONE", help="the zone of a first cursor column without one")
    add_output(command)


def _add_notify(commands: Any) -> None:
    command = add_command(
        commands,
        "notify",
        "notify:sql",
        'print the SQL with which a table of PostgreSQL notifies a channel, for listen="CHANNEL"; connects to nothing',
        "  airflow-incremental notify public.orders orders > notify.sql",
        store=False,
    )
    command.add_argument("table", metavar="TABLE", help="the table, or schema.table")
    command.add_argument("channel", metavar="CHANNEL", help="the channel that the trigger listens on")
