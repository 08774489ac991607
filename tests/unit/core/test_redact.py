"""What is shown of an error: one line, bounded, printable, without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import describe, one_line, without_secrets

SECRETS = [
    "postgresql://app:hunter2@db/shop",
    "postgresql+asyncpg://app:hunter2@db:5432/shop?ssl=require",
    "postgresql://app:hunter2@hunter2@db/shop",
    "postgresql://app:p/hunter2@db/shop",
    "redis://:hunter2@cache",
    "password=hunter2",
    "PASSWORD = 'hunter2 hunter2'",
    'connect(user="a", password="hunter2, hunter2")',
    "{'password': 'hunter2', 'user': 'a'}",
    '{"db_password": "hunter2"}',
    "Driver={x};UID=a;PWD=hunter2;",
    "aws_secret_access_key=hunter2",
    "AWS_SESSION_TOKEN=hunter2/hunter2==",
    "https://b.s3.amazonaws.com/k?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2&X-Amz-Security-Token=hunter2",
    "Authorization: Bearer hunter2.hunter2",
    "{'authorization': 'Basic hunter2='}",
    "api_key: hunter2",
    "AccountKey=hunter2==;EndpointSuffix=x",
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_taken_out(text: str) -> None:
    """Passwords of URLs and the values of named secrets become stars, in whatever notation."""
    assert "hunter2" not in without_secrets(f"cannot connect: {text} (attempt 3)")
    assert "cannot connect: " in without_secrets(f"cannot connect: {text} (attempt 3)")


@pytest.mark.parametrize(
    "text",
    [
        "no such table: orders",
        "could not connect to server db.example.org:5432",
        "see https://example.org/a:b for help, or mail me@example.org",
        "password authentication failed for user app",
        "s3://bucket/prefix is empty",
        "NoCredentialsError: Unable to locate credentials",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """An error that nobody can read helps nobody."""
    assert without_secrets(text) == text


def test_our_errors_speak_for_themselves_and_others_are_named() -> None:
    """The type of a foreign error is part of what happened; a message may be missing."""
    assert describe(SourceError("no such table")) == "no such table"
    assert describe(KeyError("id")) == "KeyError: 'id'"
    assert describe(TimeoutError()) == "TimeoutError"


def test_an_error_that_cannot_be_shown_is_named() -> None:
    """An exception whose message fails is described by its type, without another exception."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RecursionError

    assert describe(BrokenError()) == "BrokenError: (its message cannot be shown: RecursionError)"


@given(st.text(st.characters(exclude_categories=()), max_size=3000))
def test_a_description_is_one_bounded_line_that_everybody_takes(text: str) -> None:
    """No line break, no control character, no half character, at most a thousand characters."""
    shown = describe(RuntimeError(text))
    assert len(shown) <= 1000
    assert shown.isprintable()
    assert shown.encode("utf-8")


def test_lines_become_one() -> None:
    """Indented, many-line messages of databases are folded."""
    assert one_line("a\n  b\t\tc\r\n") == "a b c"
    assert one_line("a\x1b[31mred") == "a\N{REPLACEMENT CHARACTER}[31mred"


@pytest.mark.parametrize(
    "part",
    ["secret-", "token_Error", "://a:", "://a:b ", "[parameters: ", "[parameters: x] (Background", "DETAIL: ", "] "],
)
def test_no_text_takes_more_than_its_length(part: str) -> None:
    """Whoever sends a long one, made to be looked at again and again, does not stop the process."""
    text = f"x {part * (300_000 // len(part))} postgresql://app:hunter2@db/shop"
    assert "hunter2" not in without_secrets(text)


ROWS = [
    'null value in column "x" violates it\nDETAIL:  Failing row contains (1, hunter2).',
    "(NotNullViolation) null value\nDETAIL:  Failing row contains (1,\n hunter2).\n\n[SQL: INSERT INTO t]",
    "duplicate key DETAIL: Key (name)=(hunter2) already exists.",
    "(Error) refused\n[SQL: INSERT INTO t VALUES (%s)]\n[parameters: (1, 'hunter2')]\n(Background on this error at: x)",
    "(Error) refused [SQL: INSERT INTO t VALUES (%s)] [parameters: {'a': ['hunter2'], 'b': 1}]",
]


@pytest.mark.parametrize("text", ROWS)
def test_the_contents_of_rows_are_left_out(text: str) -> None:
    """A status and a log are read by people who may not read the table."""
    shown = one_line(text)
    assert "hunter2" not in shown
    assert shown == one_line(shown)
    assert shown.startswith(one_line(text[:12]))
    assert ("[SQL: INSERT INTO t" in shown) == ("[SQL: " in text)


def test_the_hint_behind_the_contents_of_a_row_stays() -> None:
    """What to do about it is no content of a row."""
    text = "refused\nDETAIL:  Failing row contains (hunter2).\nHINT:  Use another one."
    assert one_line(text) == "refused HINT: Use another one."


def test_values_that_were_bound_are_left_out_of_a_message_that_was_cut() -> None:
    """The end of their list is missing then."""
    error = RuntimeError(f"refused [SQL: INSERT INTO t] [parameters: ('hunter2', '{'x' * 30_000}')]")
    assert describe(error) == "RuntimeError: refused [SQL: INSERT INTO t]"
