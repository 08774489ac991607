"""The arguments of the commands about the API: a server that runs alone, and the tokens that it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_incremental.cli.arguments import add_command, add_output, count, port, several, span

__all__ = ["add_api"]

_SCOPES = ("read", "write", "admin")
_SERVER = "airflow_provider_incremental.web.api.standalone:serve"
_TOKENS = "airflow_provider_incremental.web.api.token_file:change"


def add_api(commands: Any) -> None:
    """Add the commands."""
    _add_server(commands)
    _add_token(commands)
    _add_bench(commands)


def _add_server(commands: Any) -> None:
    command = add_command(
        commands,
        "api-server",
        "",
        "serve the store over HTTP, for triggerers and workers that may not reach its database",
        "  airflow-incremental api-server --tokens /etc/incremental/tokens.json \\\n"
        "      --host 0.0.0.0 --tls-cert server.pem --tls-key server.key",
    )
    command.set_defaults(action=_SERVER)
    command.add_argument("--tokens", required=True, type=Path, metavar="FILE", help="who may call: see api-token")
    command.add_argument("--host", default="127.0.0.1", metavar="HOST", help="default: 127.0.0.1")
    command.add_argument("--port", type=port, default=8788, metavar="PORT", help="default: 8788")
    command.add_argument("--tls-cert", type=Path, metavar="FILE", help="the certificate, with those above it (PEM)")
    command.add_argument("--tls-key", type=Path, metavar="FILE", help="its key (PEM)")
    command.add_argument(
        "--plain-http", action="store_true", help="also on other hosts than this one without TLS: behind a proxy only"
    )
    command.add_argument("--max-request-mb", type=span, default=64, metavar="MB", help="default: 64")
    command.add_argument(
        "--max-requests-per-second", type=span, default=1000, metavar="N", help="of each name of tokens; default: 1000"
    )


def _add_token(commands: Any) -> None:
    command = add_command(
        commands,
        "api-token",
        "",
        "add a token to the file of tokens and print it: it is shown once, the file has a hash of it",
        "  airflow-incremental api-token /etc/incremental/tokens.json --name triggerer --scope read --scope write\n"
        "  airflow-incremental api-token tokens.json --name triggerer --scope read --scope write --retire-in 24\n"
        "  airflow-incremental api-token tokens.json --name triggerer --revoke",
        store=False,
    )
    command.set_defaults(action=_TOKENS)
    command.add_argument("file", type=Path, metavar="FILE", help="made when it is not there, for its owner only")
    command.add_argument("--name", required=True, metavar="NAME", help="who has it, for the log of writes")
    command.add_argument("--scope", action="append", choices=_SCOPES, metavar="SCOPE", help=", ".join(_SCOPES))
    command.add_argument(
        "--namespace", action="append", metavar="NAME", help="only watermarks of this one (several times for several)"
    )
    command.add_argument("--days", type=span, metavar="N", help="for how long it is good; default: for ever")
    command.add_argument(
        "--vouches", action="store_true", help="its holder is trusted to name the person who acts, as a console is"
    )
    command.add_argument(
        "--retire-in", type=span, metavar="HOURS", help="let the other tokens of this name end so many hours from now"
    )
    command.add_argument("--revoke", action="store_true", help="add none, and take out all tokens of this name at once")


def _add_bench(commands: Any) -> None:
    command = add_command(
        commands,
        "bench",
        "bench:run",
        "time whole poll cycles on the store: load, poll, commit, announce, confirm, claim, acknowledge; and the same "
        "without the poll",
        "  airflow-incremental bench --mode api --repeat 50\n"
        "  airflow-incremental bench --mode direct --items 300\n"
        "  airflow-incremental bench --store conn:incremental_api --against conn:incremental_store",
    )
    beside = command.add_mutually_exclusive_group()
    beside.add_argument(
        "--mode",
        choices=("direct", "api", "asset-state"),
        help="direct: the database alone; api: an API server that is started for it, beside the database itself; "
        "asset-state: says why Airflow's asset state store is none for watermarks",
    )
    beside.add_argument("--against", metavar="STORE", help="beside another store: see --store")
    command.add_argument("--repeat", type=several, default=20, metavar="N", help="cycles; default: 20, at least 2")
    command.add_argument(
        "--namespace",
        default="default",
        metavar="NAME",
        help="where a token is limited to some; default: default",
    )
    command.add_argument("--items", type=count, metavar="M", help="in each batch; default: 1, and then 300")
    add_output(command)
