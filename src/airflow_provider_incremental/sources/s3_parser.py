"""Reads the answer of ListObjectsV2 in a fraction of the time that botocore takes, with the same result.

botocore reads each answer twice, walks the model of the answer for every element, and parses each time stamp with
dateutil: up to 90 ms for a page of 1,000 objects, in which the event loop stands still. Here the objects of a page,
which are all alike, are taken apart by one regular expression, and where they are not alike, element by element.
Whatever is unusual (an error, an element that is unknown, repeated or odd in its text) is left to botocore, which
alone decides what it means. An answer of ListObjectVersions is read by botocore's parser too, but in a thread: it takes
60 to 90 ms, in which the event loop goes on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from botocore.compat import ETree, XMLParseError
from botocore.exceptions import DataNotFoundError
from botocore.parsers import ResponseParserError, ResponseParserFactory

from airflow_provider_incremental.sources.s3_rows import UnusualError, read_stamps, take_rows

__all__ = ["install"]

_OK = 200
_ROOT = "ListBucketResult"
# The trie of handlers puts this name before "before-parse.s3.*", where botocore looks for errors in any 200: that reads
# the whole answer a first time. If the order should change, time is lost and nothing else.
_EVENT = "before-parse.*.ListObjectsV2"
_VERSIONS_EVENT = "before-parse.*.ListObjectVersions"
_VERSIONS_ROOT = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<ListVersionsResult[\s>]")

Node = Any
"""An element of the XML tree: its ``tag`` with the namespace, its ``text``, and its children by iteration."""


def install(session: Any) -> None:
    """Let the clients of a session read listings fast. Reads botocore's files, so call it in a thread.

    :param session: an aiobotocore session of one's own.
    """
    turn = asyncio.Lock()

    async def read_listing(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
        # One page in a round of the event loop: others have their turn between pages that arrived together.
        async with turn:
            if _read_listing(response_dict, customized_response_dict):
                await asyncio.sleep(0)

    session.register(_EVENT, read_listing)
    session.register(_VERSIONS_EVENT, _read_versions)
    # A client is made on the event loop, which the loading of the models would hold up for 50 ms.
    loader = session.get_component("data_loader")
    for name in ("service-2", "endpoint-rule-set-1"):
        with suppress(DataNotFoundError):
            loader.load_service_model("s3", name)
    for name in ("partitions", "endpoints", "sdk-default-configuration", "_retry"):
        with suppress(DataNotFoundError):
            loader.load_data(name)


def _read_listing(response_dict: dict[str, Any], customized_response_dict: dict[str, Any]) -> bool:
    """Take the body's part of an answer, and leave botocore its headers; whether that could be done."""
    if response_dict["status_code"] != _OK or not response_dict["body"]:
        return False
    try:
        page = _page(response_dict["body"])
    except (UnusualError, ValueError, XMLParseError):
        return False
    customized_response_dict.update(page)
    response_dict["body"] = b""
    return True


async def _read_versions(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    body = response_dict["body"]
    if response_dict["status_code"] == _OK and body and _VERSIONS_ROOT.match(body):
        parsed = await asyncio.to_thread(_stock_parsed, dict(response_dict), operation_model.output_shape)
        if parsed is not None:
            customized_response_dict.update(parsed)
            response_dict["body"] = b""


def _stock_parsed(response: dict[str, Any], shape: Any) -> dict[str, Any] | None:
    """Return what botocore reads in the body of an answer; None for what it cannot read, so that it says so itself."""
    try:
        parsed: dict[str, Any] = ResponseParserFactory().create_parser("rest-xml").parse(response, shape)
    except (ResponseParserError, ValueError):
        return None
    del parsed["ResponseMetadata"]  # the headers are read where they always are
    return parsed


def _page(body: bytes) -> dict[str, Any]:
    rest, rows = take_rows(body)
    root = _tree(body if rows is None else rest)
    namespace, _, name = root.tag.rpartition("}")
    if name != _ROOT:
        raise UnusualError
    space = f"{namespace}}}" if namespace else ""
    in_page, in_object, in_owner = (_qualified(space, members) for members in (_PAGE, _OBJECT, _OWNER))
    page: dict[str, Any] = {}
    entries: list[Node] = []
    for node in root:
        if node.tag == space + "Contents":
            entries.append(node)
        else:
            _put_scalar(page, node, in_page)
    if rows is not None:
        if len(entries) != 1:  # the one that stands for the rows: they were somewhere else
            raise UnusualError
        page["Contents"] = rows
    elif entries:
        objects = [_object(entry, in_object, in_owner) for entry in entries]
        read_stamps(objects)
        page["Contents"] = objects
    return page


def _tree(body: bytes) -> Node:
    parser = ETree.XMLParser(target=ETree.TreeBuilder(), encoding="utf-8")
    parser.feed(body)
    return parser.close()


def _object(node: Node, members: _Members, owner: _Members) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for child in node:
        name, _ = members.get(child.tag, _NONE)
        if name == "ChecksumAlgorithm":
            found.setdefault(name, []).append(child.text or "")
        elif name == "Owner" and name not in found:
            found[name] = {}
            for part in child:
                _put_scalar(found[name], part, owner)
        else:
            _put_scalar(found, child, members)
    return found


def _put_scalar(found: dict[str, Any], node: Node, members: _Members) -> None:
    name, read = members.get(node.tag, _NONE)
    if name in found:
        raise UnusualError
    found[name] = read(node.text or "")


def _unknown(text: str) -> Any:
    raise UnusualError(text)


def _boolean(text: str) -> bool:
    return text == "true"


_Members = Mapping[str, tuple[str, Callable[[str], Any]]]
_NONE = ("", _unknown)

_PAGE: Mapping[str, Callable[[str], Any]] = {
    "Name": str,
    "Prefix": str,
    "Delimiter": str,
    "EncodingType": str,
    "StartAfter": str,
    "ContinuationToken": str,
    "NextContinuationToken": str,
    "MaxKeys": int,
    "KeyCount": int,
    "IsTruncated": _boolean,
}
_OBJECT: Mapping[str, Callable[[str], Any]] = {
    "Key": str,
    "LastModified": str,
    "ETag": str,
    "Size": int,
    "StorageClass": str,
    "ChecksumType": str,
    "ChecksumAlgorithm": _unknown,
    "Owner": _unknown,
}
_OWNER: Mapping[str, Callable[[str], Any]] = {"ID": str, "DisplayName": str}


def _qualified(space: str, members: Mapping[str, Callable[[str], Any]]) -> _Members:
    return {space + name: (name, read) for name, read in members.items()}
