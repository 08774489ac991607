"""The servers of the harness are real, and gone when their context ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg2
import pytest
from botocore.exceptions import ClientError

from harness import servers
from harness.processes import HarnessError, serving, wait_until

ROOT = Path(__file__).parents[2]
NEEDS_MARIADB = "test_mysql_database_is_usable"


def test_each_test_has_an_empty_postgresql_database_of_its_own(postgres_database):
    """A table made in one database is not in the next one."""
    with closing(psycopg2.connect(postgres_database)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE made_here ()")
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert cursor.fetchone() == (1,)


def test_a_postgresql_template_is_copied_with_what_is_in_it(postgres_server):
    """A prepared database is cheap to have again."""
    template = postgres_server.create_database("prepared")
    with closing(psycopg2.connect(template)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE made_here ()")
        connection.commit()
    copy = postgres_server.create_database(template="prepared")
    with closing(psycopg2.connect(copy)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM made_here")
        assert cursor.fetchall() == []
    postgres_server.drop_database(copy)
    postgres_server.drop_database(template)


def test_postgresql_asks_for_the_password(postgres_server):
    """A wrong password is refused, as in the deployments that users have."""
    wrong = postgres_server.url.replace(f":{postgres_server.password}@", ":wrong@")
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(wrong)


def test_s3_checks_signatures(s3_server):
    """A bucket can be made with the right secret and not with a wrong one."""
    with closing(s3_server.client()) as client:
        client.create_bucket(Bucket="harness-signed")
        client.put_object(Bucket="harness-signed", Key="a b/ü+1.csv", Body=b"1")
        assert [item["Key"] for item in client.list_objects_v2(Bucket="harness-signed")["Contents"]] == ["a b/ü+1.csv"]
    stranger = servers.S3Server(endpoint=s3_server.endpoint, secret_key="wrong")
    with closing(stranger.client()) as client, pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client.list_buckets()


def test_mysql_database_is_usable(mysql_database, mariadb_server):
    """A database of one's own is there, under the address that the fixture gives."""
    name = urlsplit(mysql_database).path.lstrip("/")
    mariadb_server.execute(f"CREATE TABLE {name}.made_here (id int)")


@pytest.mark.usefixtures("mariadb_server")  # which says what to do where there is none
def test_a_mariadb_is_made_without_the_temporary_folder_of_all(tmp_path, monkeypatch):
    """Servers that start beside one another would delete the temporary tables of those that are being made there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with servers.mariadb() as server:
        assert server.answers()


@pytest.mark.parametrize(("ci", "said"), [("true", "1 error"), ("", "1 skipped")])
def test_a_missing_mariadb_fails_in_ci_and_is_said_elsewhere(tmp_path, ci, said):
    """No programs, no Docker engine, no address: CI ends with the error, and a developer reads what to install."""
    bare = {"PATH": str(tmp_path), "CI": ci, "HARNESS_DOCKER": "0", "INCREMENTAL_TEST_MYSQL_URL": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{NEEDS_MARIADB}"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | bare, capture_output=True, text=True, check=False)
    assert said in done.stdout.splitlines()[-1]
    assert "MariaDB is not installed: `apt-get install mariadb-server`" in done.stdout
    assert done.returncode == (1 if ci else 0)


def test_nothing_is_left_of_a_server():
    """Its processes and its port are gone once the context ends."""
    with servers.postgres() as server:
        assert server.answers()
    assert not server.answers()
    command_lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in command_lines if f"-p {server.port} " in line]


ORPHAN = """
import sys, time
from harness import servers
with servers.postgres() as server:
    print(server.port, flush=True)
    time.sleep(600)
"""


def test_nothing_is_left_of_a_server_when_the_harness_is_killed():
    """A guard ends what a killed harness could not end."""
    harness = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, cwd=ROOT)
    with harness:
        port = int(harness.stdout.readline())
        harness.kill()
    wait_until("the port is free", lambda: not _listens(port), timeout=20)


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_that_cannot_start_says_why(tmp_path):
    """The error ends with the server's own words."""
    broken = ["python3", "-c", "print('the disk is on fire'); raise SystemExit(3)"]
    with (
        pytest.raises(HarnessError, match=r"ended with 3(.|\n)*the disk is on fire"),
        serving("Broken", broken, home=tmp_path, ready=lambda: False),
    ):
        pass
