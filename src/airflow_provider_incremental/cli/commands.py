"""The commands and their arguments. It names the actions and loads none, so that help comes at once."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental import __version__

__all__ = ["parse", "parser"]

_ACTIONS = "airflow_provider_incremental.cli"
_STORE = (
    "the store, when it is not the one of [incremental] store: conn: and the id of an Airflow connection, or a URL "
    "(mind that others on this machine can see a password that is given here)"
)


def parse(arguments: Sequence[str] | None = None) -> Namespace:
    """Return the arguments, with ``action`` as ``module:function``; exits with 2 and a message on wrong usage."""
    given = parser().parse_args(arguments)
    if hasattr(given, "watermark"):
        _settle_watermark(given)
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
    _add_preflight(commands)
    _add_notify(commands)
    return root


def _add(commands: Any, name: str, action: str, does: str, examples: str, *, store: bool = True) -> ArgumentParser:
    command: ArgumentParser = commands.add_parser(
        name,
        help=does,
        description=f"{does[0].upper()}{does[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    if store:
        command.add_argument("--store", metavar="STORE", help=_STORE)
    command.set_defaults(action=f"{_ACTIONS}.{action}", usage=command)
    return command


def _add_output(command: ArgumentParser) -> None:
    command.add_argument("--output", "-o", choices=("table", "json"), default="table", help="default: table")


def _add_db(commands: Any) -> None:
    db = commands.add_parser("db", help="make, upgrade and check the store's tables")
    under = db.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(
        under,
        "upgrade",
        "schema:upgrade",
        "make the store's tables, or bring them to this release; again is harmless",
        "  airflow-incremental db upgrade\n  airflow-incremental db upgrade --store conn:incremental_store",
    )
    _add(
        under,
        "check",
        "schema:check",
        "say whether the store can be reached and its tables are those of this release; exits with 1 when not",
        "  airflow-incremental db check",
    )
    sql = _add(
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
    command = _add(
        commands,
        "list",
        "watermarks:list_all",
        "list watermarks, with their position and how their last poll went",
        "  airflow-incremental list\n  airflow-incremental list orders --output json",
    )
    command.add_argument("asset_name", nargs="?", metavar="ASSET", help="only those of this asset")
    _add_output(command)


def _add_show(commands: Any) -> None:
    command = _add(
        commands,
        "show",
        "watermarks:show",
        "show one watermark: position, what it watches, how its polls went, its last batches",
        "  airflow-incremental show orders\n"
        "  airflow-incremental show orders/eu --batches 20\n"
        "  airflow-incremental show orders --consumer load_orders",
    )
    _add_watermark(command)
    command.add_argument("--batches", type=_count, default=5, metavar="N", help="so many of the last ones; default: 5")
    command.add_argument("--consumer", metavar="NAME", help="and how many batches this consumer has still to finish")
    _add_output(command)


def _add_set(commands: Any) -> None:
    command = _add(
        commands,
        "set",
        "watermarks:set_position",
        "set a watermark to a position: the next poll reads above it, but S3 leaves out what was delivered before",
        "  airflow-incremental set orders 1200\n"
        "  airflow-incremental set orders '[\"2026-01-31T12:00:00+00:00\", 1200]'\n"
        '  airflow-incremental set orders --json \'{"$decimal": "12.50"}\'\n'
        "  airflow-incremental set orders --rewatch",
    )
    _add_watermark(command)
    command.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="the position, of the same type as the present one and written as show writes it",
    )
    command.add_argument("--json", metavar="JSON", help="the position in JSON, tagged as show --output json writes it")
    _add_rewatch(command)
    _add_force(command)
    _add_output(command)


def _add_rewind(commands: Any) -> None:
    command = _add(
        commands,
        "rewind",
        "watermarks:rewind",
        "go back and deliver again what lies above a position, also what was delivered before",
        "  airflow-incremental rewind orders --to earliest\n"
        "  airflow-incremental rewind orders --to '[\"2026-01-31T00:00:00+00:00\", 0]' --yes\n"
        "  airflow-incremental rewind orders --to earliest --rewatch",
    )
    _add_watermark(command)
    command.add_argument(
        "--to", required=True, metavar="VALUE", help="the position, as for set; earliest: the very start of the source"
    )
    _add_rewatch(command)
    _add_force(command)
    command.add_argument("--yes", "-y", action="store_true", help="do not ask")
    _add_output(command)


def _add_preflight(commands: Any) -> None:
    command = _add(
        commands,
        "preflight",
        "preflight:look",
        "look at a table or a query before it is watched: access, types, uniqueness, NULLs, index, clocks; print the "
        "statements that mend what is missing; exits with 1 when it could not be polled",
        "  airflow-incremental preflight shop public.orders --cursor updated_at,id\n"
        "  airflow-incremental preflight shop --sql 'SELECT id, name FROM orders' --cursor id --output json",
        store=False,
    )
    command.add_argument("conn_id", metavar="CONN_ID", help="the Airflow connection of the database")
    command.add_argument("table", nargs="?", metavar="TABLE", help="the table, or schema.table")
    command.add_argument("--sql", metavar="QUERY", help="a query in place of TABLE")
    command.add_argument("--cursor", nargs="+", required=True, metavar="COLUMN", help="the columns that give the order")
    command.add_argument("--timezone", metavar="ZONE", help="the zone of a first cursor column without one")
    _add_output(command)


def _add_notify(commands: Any) -> None:
    command = _add(
        commands,
        "notify",
        "notify:sql",
        'print the SQL with which a table of PostgreSQL notifies a channel, for listen="CHANNEL"; connects to nothing',
        "  airflow-incremental notify public.orders orders > notify.sql",
        store=False,
    )
    command.add_argument("table", metavar="TABLE", help="the table, or schema.table")
    command.add_argument("channel", metavar="CHANNEL", help="the channel that the trigger listens on")


def _add_watermark(command: ArgumentParser) -> None:
    command.add_argument(
        "watermark",
        nargs="?",
        metavar="WATERMARK",
        help="ASSET[/NAMESPACE[/KEY]]; with --namespace or --key the whole of it is the asset's name",
    )
    command.add_argument("--asset", metavar="NAME", help="the asset's exact name, in place of WATERMARK")
    command.add_argument("--namespace", metavar="NAME", help="default: default")
    command.add_argument("--key", metavar="NAME", help="default: default")


def _add_rewatch(command: ArgumentParser) -> None:
    command.add_argument(
        "--rewatch",
        action="store_true",
        help="forget which source is watched: the next trigger may bring another bucket, table or cursor",
    )


def _add_force(command: ArgumentParser) -> None:
    command.add_argument(
        "--force", action="store_true", help="take a position of another type than the present one: JSON, else text"
    )


def _settle_watermark(given: Namespace) -> None:
    """Sort out which words mean the watermark; ``exact`` says that its name is not to be taken apart."""
    if given.asset is not None and given.watermark is not None:
        if not hasattr(given, "value") or given.value is not None:
            given.usage.error("give WATERMARK or --asset, not both")
        given.value, given.watermark = given.watermark, None
    given.exact = any(part is not None for part in (given.asset, given.namespace, given.key))
    given.watermark = given.watermark if given.asset is None else given.asset
    if given.watermark is None:
        given.usage.error("the following arguments are required: WATERMARK")
    if hasattr(given, "json"):
        _settle_value(given)


def _settle_value(given: Namespace) -> None:
    if given.value is not None and given.json is not None:
        given.usage.error("give VALUE or --json, not both")
    if given.value is None and given.json is None and not given.rewatch:
        given.usage.error("give VALUE, --json or --rewatch")


def _count(text: str) -> int:
    """Read how many."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number
