"""The arguments of the commands that keep a store in order: consumers, dead batches, replays, the journal."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from airflow_provider_incremental.cli.arguments import (
    add_act,
    add_command,
    add_consent,
    add_output,
    add_watermark,
    add_wide,
    count,
    settle_copy,
    settle_replay,
)

__all__ = ["add_upkeep"]


def add_upkeep(commands: Any) -> None:
    """Add the commands."""
    _add_consumers(commands)
    _add_dead(commands)
    _add_replay(commands)
    _add_journal(commands)
    _add_forget(commands)
    _add_forget_consumer(commands)
    _add_copy(commands)


def _add_consumers(commands: Any) -> None:
    command = add_command(
        commands,
        "consumers",
        "upkeep:consumers",
        "list consumers: how far each is, how many batches wait for it or are dead, when it was last seen",
        "  airflow-incremental consumers\n  airflow-incremental consumers orders --output json",
    )
    _add_asset(command)
    add_output(command)


def _add_dead(commands: Any) -> None:
    command = add_command(
        commands,
        "dead",
        "upkeep:dead",
        "list dead batches: a consumer failed at them too often, and they wait for a replay",
        "  airflow-incremental dead\n  airflow-incremental dead orders --consumer load_orders --wide",
    )
    _add_asset(command)
    command.add_argument("--consumer", metavar="NAME", help="only those of this consumer")
    add_wide(command)
    add_output(command)


def _add_replay(commands: Any) -> None:
    command = add_command(
        commands,
        "replay",
        "upkeep:replay",
        "give batches of the log to consumers again, from the log: the source is not read and the watermark stays; "
        "what a consumer has not finished yet is left as it is",
        "  airflow-incremental replay orders --from 12 --to 15 --reason 'bad exchange rate'\n"
        "  airflow-incremental replay orders --dead\n"
        "  airflow-incremental replay orders/eu --from 12 --consumer load_orders --yes",
    )
    add_watermark(command)
    command.add_argument("--from", dest="first", type=count, metavar="SEQ", help="the first batch")
    command.add_argument("--to", dest="last", type=count, metavar="SEQ", help="the last batch; default: the newest")
    command.add_argument("--dead", action="store_true", help="only dead batches; without --from, all of them")
    command.add_argument("--consumer", metavar="NAME", help="only to this consumer; default: to all")
    add_act(command)
    add_consent(command)
    add_output(command)
    command.set_defaults(settle=settle_replay)


def _add_journal(commands: Any) -> None:
    command = add_command(
        commands,
        "journal",
        "upkeep:journal",
        "show what was changed by hand, newest first: when, what, by whom and why; also of watermarks that are gone",
        "  airflow-incremental journal\n  airflow-incremental journal orders --entries 100 --output json",
    )
    add_watermark(command, optional=True)
    command.add_argument("--entries", type=count, default=20, metavar="N", help="so many of the last; default: 20")
    add_wide(command)
    add_output(command)


def _add_forget(commands: Any) -> None:
    command = add_command(
        commands,
        "forget",
        "upkeep:forget",
        "delete a watermark with its batches, its consumers and what they have done; a trigger that still runs begins "
        "anew, at its start position",
        "  airflow-incremental forget orders/eu\n  airflow-incremental forget orders --reason 'the table is gone'",
    )
    add_watermark(command)
    add_act(command)
    add_consent(command)
    add_output(command)


def _add_forget_consumer(commands: Any) -> None:
    command = add_command(
        commands,
        "forget-consumer",
        "upkeep:forget_consumer",
        "delete a consumer with what it has done: nothing is kept or announced for it; if it comes back, it is new",
        "  airflow-incremental forget-consumer orders load_orders_v1\n"
        "  airflow-incremental forget-consumer orders load_orders_v1 --namespace eu --yes",
    )
    command.add_argument("asset_name", metavar="ASSET", help="the asset's name")
    command.add_argument("consumer", metavar="NAME", help="the consumer: the id of its DAG, unless named otherwise")
    command.add_argument("--namespace", metavar="NAME", help="only on watermarks of this namespace")
    command.add_argument("--key", metavar="NAME", help="only on watermarks of this key")
    add_act(command)
    add_consent(command)
    add_output(command)


def _add_copy(commands: Any) -> None:
    command = add_command(
        commands,
        "copy",
        "copying:run",
        "copy watermarks to another store, with their batches, their consumers and what these have finished; compare "
        "at the end; exits with 1 when one is not there as it is here. Again is harmless. Stop the triggers and the "
        "tasks first: what they do meanwhile stays behind",
        "  airflow-incremental copy --to conn:incremental_store --dry-run\n"
        "  airflow-incremental copy --from sqlite:////opt/airflow/incremental.db --to conn:incremental_store",
        store=False,
    )
    default = "default: the one of [incremental] store"
    command.add_argument(
        "--from", dest="source", metavar="STORE", help=f"conn: and a connection's id, or a URL; {default}"
    )
    command.add_argument("--to", dest="target", metavar="STORE", help=f"the same; {default}")
    command.add_argument("--dry-run", action="store_true", help="read and compare everything, write nothing")
    command.add_argument("--force", action="store_true", help="copy although triggers or tasks seem to be at work")
    add_act(command)
    add_wide(command)
    add_output(command)
    command.set_defaults(settle=settle_copy)


def _add_asset(command: ArgumentParser) -> None:
    command.add_argument("asset_name", nargs="?", metavar="ASSET", help="only those of this asset")
