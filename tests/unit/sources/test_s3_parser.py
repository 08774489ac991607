"""The fast parser says what botocore's says, whatever the answer; only listings that succeeded are its own."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape

import pytest
from aiobotocore.awsrequest import AioAWSResponse
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.compat import ETree
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.sources import s3_parser
from airflow_provider_incremental.sources.s3_parser import install
from airflow_provider_incremental.sources.s3_rows import Rows

NAMESPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20)
TEXT = ANY_TEXT | st.sampled_from(
    ["a//b", "e\u0301", "é", "%01%0A", "a+b", "😀", "<&>\"'", " ", "", "]]>", "\t\n\r", "true", "1", "url"]
)
STAMP = st.sampled_from(
    [
        *[
            "2026-03-01T12:00:00Z",
            "2026-03-01T12:00:00.000Z",
            "2026-03-01T12:00:00.123Z",
            "2026-03-01T12:00:00.123456Z",
        ],
        *["2026-03-01T12:00:00+02:00", "2026-03-01T12:00:00", "Sun, 01 Mar 2026 12:00:00 GMT", "1772366400", "2026"],
        *["2026-02-30T12:00:00Z", "2026-03-01T24:00:00Z", "2026-W01-1T12:00:00Z", "", "soon", "2026-03-01x12:00:00Z"],
    ]
)
NUMBER = st.integers(0, 2**63).map(str) | st.sampled_from(["", "-1", "1e3", " 7 ", "x", "٣"])
FLAG = st.sampled_from(["true", "false", "", "TRUE", "1"])
OBJECT = {
    "Key": TEXT,
    "LastModified": STAMP,
    "ETag": TEXT,
    "Size": NUMBER,
    "StorageClass": TEXT,
    "ChecksumAlgorithm": TEXT,
    "ChecksumType": TEXT,
    "Owner": st.sampled_from(["<ID>i</ID><DisplayName>n</DisplayName>", "<ID/>", "", "<ID>1</ID><ID>2</ID>", "<X/>"]),
    "RestoreStatus": st.just("<IsRestoreInProgress>true</IsRestoreInProgress>"),
    "Unheard": TEXT,
}
PAGE = {
    "Name": TEXT,
    "Prefix": TEXT,
    "Delimiter": TEXT,
    "StartAfter": TEXT,
    "ContinuationToken": TEXT,
    "NextContinuationToken": TEXT,
    "EncodingType": st.sampled_from(["url", ""]),
    "MaxKeys": NUMBER,
    "KeyCount": NUMBER,
    "IsTruncated": FLAG,
    "CommonPrefixes": st.just("<Prefix>a/</Prefix>"),
    "Unheard": TEXT,
}
NESTED = {"Owner", "RestoreStatus", "CommonPrefixes"}
USUAL_OBJECT = ["Key", "LastModified", "ETag", "Size", "StorageClass"]
USUAL_PAGE = ["Name", "Prefix", "KeyCount", "MaxKeys", "EncodingType", "IsTruncated"]


HEAD = "<Name>b</Name><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
ENTRY = (
    "<Contents><Key>a</Key><LastModified>2026-03-01T12:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag>"
    "<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
)
PUT_IN = [
    "<!--",
    "-->",
    "<Contents>",
    "</Contents>",
    "<x>",
    "</x>",
    "&amp;",
    "&",
    "]]>",
    "<![CDATA[",
    "\x01",
    "é",
    "<?x ?>",
]


@st.composite
def elements(draw: st.DrawFn, known: dict[str, st.SearchStrategy[str]], usual: list[str]) -> str:
    """Draw the elements of one level: those that S3 sends, or any, in any order and number."""
    names = draw(st.just(usual) | st.lists(st.sampled_from(sorted(known)), max_size=8))
    texts = [(name, draw(known[name])) for name in names]
    return "".join(f"<{name}>{text if name in NESTED else escape(text)}</{name}>" for name, text in texts)


@st.composite
def listings(draw: st.DrawFn) -> bytes:
    """Draw the body of an answer."""
    entries = draw(st.lists(elements(OBJECT, USUAL_OBJECT).map("<Contents>{}</Contents>".format), max_size=3))
    head = draw(elements(PAGE, USUAL_PAGE))
    at = draw(st.integers(0, 1))
    content = "".join([head, *entries] if at else [*entries, head])
    root = draw(st.sampled_from([f"ListBucketResult{NAMESPACE}", "ListBucketResult", "Other"]))
    start = draw(st.sampled_from(['<?xml version="1.0" encoding="UTF-8"?>\n', ""]))
    return f"{start}<{root}>{content}</{root.split()[0]}>".encode()


class Body:
    """The body of an answer, as a client reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def read(self) -> bytes:
        """Return all of it."""
        return self._content


class Clients:
    """A client that reads listings fast and one that does not, which get the same answers."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.answer = AioAWSResponse("http://s3", 200, {}, Body(b""))
        self._contexts = [self._made(install), self._made(lambda _: None)]
        self._clients = [self.loop.run_until_complete(context.__aenter__()) for context in self._contexts]

    def _made(self, prepare: Any) -> Any:
        session = get_session()
        prepare(session)
        session.register("before-send.s3", lambda **_: self.answer)
        login = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
        return session.create_client("s3", config=AioConfig(retries={"max_attempts": 0}), **login)

    def both(self, body: bytes, status: int = 200, operation: str = "list_objects_v2") -> tuple[Any, Any]:
        """Return what the fast client and the other say to an answer."""
        headers = {"x-amz-request-id": "R", "x-amz-id-2": "H", "x-amz-request-charged": "requester", "Date": "now"}
        said = []
        for client in self._clients:
            self.answer = AioAWSResponse("http://s3", status, headers, Body(body))
            try:
                arguments = {} if operation == "list_buckets" else {"Bucket": "b", "EncodingType": "url"}
                said.append(plain(self.loop.run_until_complete(getattr(client, operation)(**arguments))))
            except Exception as error:
                said.append((type(error).__name__, re.sub(r" at 0x[0-9a-f]+", "", str(error))))
        return said[0], said[1]

    def close(self) -> None:
        """Close both."""
        for context in self._contexts:
            self.loop.run_until_complete(context.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    """Both clients."""
    clients = Clients()
    yield clients
    clients.close()


def plain(said: Any) -> Any:
    """Return an answer in which elements, which the stock parser leaves where they are repeated, can be compared."""
    if isinstance(said, dict):
        return {name: plain(value) for name, value in said.items()}
    if isinstance(said, (list, Rows)):
        return [plain(value) for value in said]
    return (said.tag, said.text) if isinstance(said, ETree.Element) else said


@settings(max_examples=400, deadline=None)
@given(listings())
@example(b"")
@example(b"<ListBucketResult/>")
@example(b"<Error><Code>InternalError</Code></Error>")
@example(b"<ListBucketResult><IsTruncated>false</IsTruncated>")
@example(b"<ListBucketResult><Error><Code>SlowDown</Code></Error></ListBucketResult>")
@example(b"<ListBucketResult><Contents><Key>a<!-- c -->b<x/>c</Key></Contents></ListBucketResult>")
@example(b"<ListBucketResult><Contents><Key><![CDATA[<&>]]>&#10;&#x1F600;</Key></Contents></ListBucketResult>")
@example(b"<ListBucketResult><Name><Contents><Key>no</Key></Contents></Name></ListBucketResult>")
@example(b"<ListBucketResult><Contents/><Contents>text</Contents></ListBucketResult>")
@example(b"<!DOCTYPE x [<!ENTITY e 'v'>]><ListBucketResult><Name>&e;</Name></ListBucketResult>")
@example(b"<s:ListBucketResult xmlns:s='u'><s:Contents><s:Key>a</s:Key></s:Contents></s:ListBucketResult>")
@example(b"<ListBucketResult xmlns='u'><Contents xmlns='v'><Key>a</Key></Contents></ListBucketResult>")
@example(b"<ListBucketResult><Name>\xff</Name></ListBucketResult>")
def test_says_what_the_stock_parser_says(clients, body):
    """Every listing gives the same result, or the same error, as with botocore's parser."""
    ours, stock = clients.both(body)
    assert ours == stock


@settings(max_examples=100, deadline=None)
@given(listings(), st.sampled_from([206, 301, 400, 403, 404, 500, 503]))
@example(b"<Error><Code>AccessDenied</Code><Message>m</Message><RequestId>r</RequestId></Error>", 403)
@example(b"<html></html>", 503)
def test_errors_are_left_to_the_stock_parser(clients, body, status):
    """An answer that is no success is read by botocore's parser."""
    ours, stock = clients.both(body, status)
    assert ours == stock


VERSION = (
    "<Version><Key>a</Key><VersionId>v</VersionId><IsLatest>true</IsLatest><LastModified>2026-03-01T12:00:00.000Z"
    "</LastModified><ETag>&quot;e&quot;</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Version>"
)
VERSIONS = f"<ListVersionsResult{NAMESPACE}>{HEAD}{VERSION}<DeleteMarker><Key>b</Key></DeleteMarker>{VERSION}"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_versions_are_what_the_stock_parser_says(clients, data):
    """A listing of versions, read in a thread, is what it was: with anything put in or taken out, and its errors."""
    body = data.draw(st.sampled_from(['<?xml version="1.0"?>\n', "", " "])) + VERSIONS + "</ListVersionsResult>"
    at = data.draw(st.integers(0, len(body)))
    end = data.draw(st.just(at) | st.integers(at, min(at + 40, len(body))))
    put = data.draw(st.sampled_from(["", body[at:end] * 2, *PUT_IN, "<Version><Size>x</Size></Version>"]))
    ours, stock = clients.both((body[:at] + put + body[end:]).encode(), operation="list_object_versions")
    assert ours == stock


def test_versions_do_not_hold_up_the_event_loop(clients, monkeypatch):
    """Of a full page of versions, only the headers are read on the event loop."""
    read_on: list[str] = []
    stock = s3_parser._stock_parsed

    def watched(response, shape):
        read_on.append(threading.current_thread().name)
        return stock(response, shape)

    monkeypatch.setattr(s3_parser, "_stock_parsed", watched)
    body = f"{VERSIONS}{VERSION * 1000}</ListVersionsResult>".encode()
    ours, stock_said = clients.both(body, operation="list_object_versions")
    assert ours == stock_said
    assert read_on != []
    assert threading.main_thread().name not in read_on


@pytest.mark.parametrize("operation", ["list_objects", "list_buckets", "list_object_versions"])
def test_other_operations_are_left_to_the_stock_parser(clients, operation):
    """Only ListObjectsV2 is read here."""
    body = b"<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"
    ours, stock = clients.both(body, operation=operation)
    assert ours == stock


ROWS = [
    ENTRY,
    ENTRY.replace(
        "<Size>", "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><Size>"
    ),
    ENTRY.replace("<Key>a", "\n  <Key>b"),
    ENTRY.replace("<Key>a", "<Key>%3C+%25"),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(ROWS), min_size=1, max_size=4), st.sampled_from(["", "\n"]), st.data())
def test_rows_with_anything_anywhere(clients, rows, space, data):
    """Rows that are alike, with something put in, taken out or doubled anywhere, mean what they mean to botocore."""
    body = f"<ListBucketResult{NAMESPACE}>{HEAD}{space.join(rows)}</ListBucketResult>"
    at = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(at, min(at + 40, len(body))) | st.just(at))
    put = data.draw(st.sampled_from(["", body[at:end] * 2, *PUT_IN]))
    ours, stock = clients.both((body[:at] + put + body[end:]).encode())
    assert ours == stock


@pytest.mark.parametrize("rows", [[ROWS[0]] * 3, ROWS])
def test_usual_page_is_read_without_the_stock_parser(rows, monkeypatch):
    """A page as S3 sends it is read in one go: neither botocore nor the way element by element has to help."""
    monkeypatch.setattr(s3_parser, "_object", None)
    answer = {
        "status_code": 200,
        "body": f"<ListBucketResult{NAMESPACE}>{HEAD}{''.join(rows)}</ListBucketResult>".encode(),
    }
    said: dict[str, Any] = {}
    assert s3_parser._read_listing(answer, said)
    assert answer["body"] == b""
    assert len(said["Contents"]) == len(rows)
    assert said["IsTruncated"] is True
    assert {each["ETag"] for each in said["Contents"]} == {'"e"'}
