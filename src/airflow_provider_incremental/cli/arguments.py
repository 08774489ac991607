"""The arguments that several commands share, and what they mean together."""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from typing import Any

__all__ = [
    "add_act",
    "add_command",
    "add_consent",
    "add_force",
    "add_output",
    "add_rewatch",
    "add_watermark",
    "add_wide",
    "count",
    "port",
    "settle_copy",
    "settle_position",
    "settle_replay",
    "settle_watermark",
    "several",
    "span",
]

_ACTIONS = "airflow_provider_incremental.cli"
_LAST_PORT = 65535
_STORE = (
    "the store, when it is not the one of [incremental] store: conn: and the id of an Airflow connection, or a URL "
    "(mind that others on this machine can see a password that is given here)"
)


def add_command(
    commands: Any, name: str, action: str, does: str, examples: str, *, store: bool = True
) -> ArgumentParser:
    """Add a command that does ``module:function`` of the room, with help and examples."""
    command: ArgumentParser = commands.add_parser(
        name,
        help=does,
        description=f"{does[0].upper()}{does[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    if store:
        command.add_argument("--store", metavar="STORE", help=_STORE)
    command.set_defaults(action=f"{_ACTIONS}.{action}", usage=command, last_word=None)
    return command


def add_output(command: ArgumentParser) -> None:
    """Let a command answer programs too."""
    command.add_argument("--output", "-o", choices=("table", "json"), default="table", help="default: table")


def add_wide(command: ArgumentParser) -> None:
    """Let a table show long cells in full."""
    command.add_argument("--wide", action="store_true", help="cut nothing, however long a line gets")


def add_watermark(command: ArgumentParser, *, optional: bool = False) -> None:
    """Let a command name one watermark."""
    command.add_argument(
        "watermark",
        nargs="?",
        metavar="WATERMARK",
        help="ASSET[/NAMESPACE[/KEY]]; with --namespace or --key the whole of it is the asset's name",
    )
    command.add_argument("--asset", metavar="NAME", help="the asset's exact name, in place of WATERMARK")
    command.add_argument("--namespace", metavar="NAME", help="default: default")
    command.add_argument("--key", metavar="NAME", help="default: default")
    command.set_defaults(settle=settle_watermark, optional=optional)


def add_act(command: ArgumentParser) -> None:
    """Let a command that changes something say who does it, and why."""
    command.add_argument("--reason", metavar="TEXT", help="why: kept in the journal")
    command.add_argument(
        "--who", metavar="NAME", help="who does it, for the journal; default: this user of the operating system @ host"
    )


def add_consent(command: ArgumentParser) -> None:
    """Let a command go on without a question."""
    command.add_argument("--yes", "-y", action="store_true", help="do not ask")


def add_rewatch(command: ArgumentParser) -> None:
    """Let a command free a watermark for another source."""
    command.add_argument(
        "--rewatch",
        action="store_true",
        help="forget which source is watched: the next trigger may bring another bucket, table or cursor",
    )


def add_force(command: ArgumentParser) -> None:
    """Let a command take what does not fit the present position."""
    command.add_argument(
        "--force", action="store_true", help="take a position of another type than the present one: JSON, else text"
    )


def settle_watermark(given: Namespace) -> None:
    """Sort out which words mean the watermark; ``exact`` says that its name is not to be taken apart."""
    if given.asset is not None and given.watermark is not None:
        given.usage.error("give WATERMARK or --asset, not both")
    given.exact = any(part is not None for part in (given.asset, given.namespace, given.key))
    given.watermark = given.watermark if given.asset is None else given.asset
    if given.watermark is None and (given.exact or not given.optional):
        given.usage.error("the following arguments are required: WATERMARK")


def settle_position(given: Namespace) -> None:
    """Sort out the watermark and the position of ``set``: with ``--asset``, the one word is the position."""
    if given.asset is not None and given.watermark is not None and given.value is None:
        given.value, given.watermark = given.watermark, None
    settle_watermark(given)
    if given.value is not None and given.json is not None:
        given.usage.error("give VALUE or --json, not both")
    if given.value is None and given.json is None and not given.rewatch:
        given.usage.error("give VALUE, --json or --rewatch")


def settle_replay(given: Namespace) -> None:
    """Sort out the watermark of ``replay``, and which batches are meant."""
    settle_watermark(given)
    if given.first is None and not given.dead:
        given.usage.error("give --from SEQ and --to SEQ, or --dead")
    if given.first is not None and given.last is not None and given.first > given.last:
        given.usage.error(f"--from {given.first} is behind --to {given.last}")


def settle_copy(given: Namespace) -> None:
    """See that a copy leads from one store to another."""
    if given.source == given.target:
        given.usage.error("give --from STORE, --to STORE or both, and two different ones")


def count(text: str) -> int:
    """Read how many."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def port(text: str) -> int:
    """Read the number of a port."""
    if not text.isdecimal() or not 0 < int(text) <= _LAST_PORT:
        raise ArgumentTypeError(f"{text!r} is not a port: 1 to {_LAST_PORT}")
    return int(text)


def span(text: str) -> float:
    """Read how long or how much, which is more than nothing."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def several(text: str) -> int:
    """Read how many, of which there must be two to say anything of how they are spread."""
    if not text.isdecimal() or int(text) <= 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 2")
    return int(text)
