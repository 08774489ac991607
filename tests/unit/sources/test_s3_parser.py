"""The fast parser says what botocore's says, whatever the answer; only listings that succeeded are its own."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

import pytest
from aiobotocore.parsers import AioResponseParserFactory
from aiobotocore.session import get_session
from botocore.compat import ETree
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.sources.s3_parser import ListingParserFactory

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


@cache
def operation(name: str) -> Any:
    """Return the model of an operation."""
    model = asyncio.run(get_session().get_service_model("s3"))
    return model.operation_model(name).output_shape


def said_by(factory: Any, response: dict[str, Any], shape: Any) -> Any:
    """Return what a parser says: its answer, or the kind and text of its error."""
    try:
        return plain(asyncio.run(factory.create_parser("rest-xml").parse(response, shape)))
    except Exception as error:
        return type(error), re.sub(r" at 0x[0-9a-f]+", "", str(error))


def plain(said: Any) -> Any:
    """Return an answer in which elements, which the stock parser leaves where they are repeated, can be compared."""
    if isinstance(said, dict):
        return {name: plain(value) for name, value in said.items()}
    if isinstance(said, list):
        return [plain(value) for value in said]
    return (said.tag, said.text) if isinstance(said, ETree.Element) else said


def answer(body: bytes, status: int = 200) -> dict[str, Any]:
    """Return an answer as the parsers get it."""
    headers = {"x-amz-request-id": "R", "x-amz-id-2": "H", "x-amz-request-charged": "requester", "Date": "now"}
    return {"status_code": status, "headers": headers, "body": body, "context": {"operation_name": "ListObjectsV2"}}


def both(body: bytes, status: int = 200, name: str = "ListObjectsV2") -> tuple[Any, Any]:
    """Return what our parser and botocore's say."""
    shape = operation(name)
    stock = AioResponseParserFactory()
    return (
        said_by(ListingParserFactory(stock), answer(body, status), shape),
        said_by(stock, answer(body, status), shape),
    )


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
def test_says_what_the_stock_parser_says(body):
    """Every listing gives the same result, or the same error, as with botocore's parser."""
    ours, stock = both(body)
    assert ours == stock


@settings(max_examples=100, deadline=None)
@given(listings(), st.sampled_from([206, 301, 400, 403, 404, 500, 503]))
@example(b"<Error><Code>AccessDenied</Code><Message>m</Message><RequestId>r</RequestId></Error>", 403)
@example(b"<html></html>", 503)
def test_errors_are_left_to_the_stock_parser(body, status):
    """An answer that is no success is read by botocore's parser."""
    ours, stock = both(body, status)
    assert ours == stock


@pytest.mark.parametrize("name", ["ListObjects", "ListBuckets", "ListObjectVersions", "HeadBucket"])
def test_other_operations_are_left_to_the_stock_parser(name):
    """Only ListObjectsV2 is read here."""
    body = b"<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"
    ours, stock = both(body, name=name)
    assert ours == stock


def test_no_shape_is_left_to_the_stock_parser():
    """An operation without an output is read by botocore's parser."""
    stock = AioResponseParserFactory()
    assert said_by(ListingParserFactory(stock), answer(b""), None) == said_by(stock, answer(b""), None)


def test_usual_page_is_read_without_the_stock_parser():
    """A page as S3 sends it needs botocore's parser for the headers only."""
    bodies = []

    class Stock:
        def create_parser(self, protocol_name: str) -> Any:
            assert protocol_name == "rest-xml"
            return self

        async def parse(self, response: Any, shape: Any) -> Any:
            bodies.append(response["body"])
            return {"ResponseMetadata": {}}

    entry = "<Key>a</Key><LastModified>2026-03-01T12:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>1</Size>"
    entry += "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
    entry += "<Owner><ID>i</ID></Owner><StorageClass>STANDARD</StorageClass>"
    head = "<Name>b</Name><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    body = f"<ListBucketResult{NAMESPACE}>{head}<Contents>{entry}</Contents></ListBucketResult>".encode()
    said = said_by(ListingParserFactory(Stock()), answer(body), operation("ListObjectsV2"))
    assert bodies == [b""]
    assert said["Contents"][0]["ETag"] == '"e"'
    assert said["Contents"][0]["ChecksumAlgorithm"] == ["CRC32"]
    assert said["IsTruncated"] is True
