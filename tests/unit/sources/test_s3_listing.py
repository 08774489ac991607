"""Only a complete listing counts: whatever goes wrong on any page is an error that moves nothing and loses nothing."""

from __future__ import annotations

import itertools
import re
from contextlib import asynccontextmanager

import pytest
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.sources.s3_errors import Place, S3ListingError
from airflow_provider_incremental.sources.s3_pages import VERSIONS, Tokens
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket, at, client_error
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket() -> FakeBucket:
    """Three pages; the oldest object is on the last one."""
    bucket = FakeBucket(page_size=1)
    bucket.put("a", modified=100)
    bucket.put("b", modified=90)
    bucket.put("c", modified=50)
    return bucket


FAULTS = {
    "throttled": client_error("SlowDown", 503),
    "internal": client_error("InternalError", 500),
    "denied": client_error("AccessDenied", 403),
    "gone": client_error("NoSuchBucket", 404),
    "expired": client_error("ExpiredToken", 400),
    "torn": ResponseParserError("Unable to parse response, invalid XML received"),
    "reset": ConnectionResetError("reset"),
    "late": boto.ReadTimeoutError(endpoint_url="http://s3"),
    "timeout": TimeoutError(),
    "bug": RuntimeError("bug"),
}
CHANGES = {
    "empty answer": lambda answer: [answer.pop(name) for name in ("IsTruncated", "Contents")],
    "error in a 200": lambda answer: answer.pop("IsTruncated"),
    "truncated without token": lambda answer: answer.update(IsTruncated=True, NextContinuationToken=None),
    "truncated with empty token": lambda answer: answer.update(IsTruncated=True, NextContinuationToken=""),
    "object without key": lambda answer: answer["Contents"][0].pop("Key"),
    "object without time": lambda answer: answer["Contents"][0].pop("LastModified"),
    "object without zone": lambda answer: answer["Contents"][0].update(LastModified=at(1).replace(tzinfo=None)),
    "object without size": lambda answer: answer["Contents"][0].pop("Size"),
}


@pytest.mark.parametrize("page", [1, 2, 3])
@pytest.mark.parametrize("fault", FAULTS)
async def test_error_on_any_page(bucket, page, fault):
    """An error on any page raises, and the next poll delivers everything, the oldest object of the last page too."""
    watcher = Watcher(bucket, lateness=0)
    bucket.errors[page] = FAULTS[fault]
    with pytest.raises(S3ListingError, match="cannot list s3://landing/") as raised:
        await watcher.poll()
    assert raised.value.__cause__ is FAULTS[fault]
    await watcher.poll()
    assert watcher.keys == ["c", "b", "a"]


@pytest.mark.parametrize("page", [1, 2, 3])
@pytest.mark.parametrize("change", CHANGES)
async def test_broken_answer_on_any_page(bucket, page, change):
    """An answer that is no page of a complete listing raises; it is never the end of the listing."""
    watcher = Watcher(bucket, lateness=0)
    bucket.changes[page] = CHANGES[change]
    with pytest.raises(S3ListingError, match=r"cannot list s3://landing/: .*Nothing was taken"):
        await watcher.poll()
    await watcher.poll()
    assert watcher.keys == ["c", "b", "a"]


@pytest.mark.parametrize("page", [1, 2, 3])
@pytest.mark.parametrize("read", ["latest", "at"])
async def test_baseline_needs_a_complete_listing_too(bucket, page, read):
    """No start is decided by half a listing."""
    source = S3KeySource(bucket="landing", client=bucket)
    bucket.errors[page] = FAULTS["throttled"]
    with pytest.raises(S3ListingError):
        await (source.latest() if read == "latest" else source.at((at(1000), "")))


async def test_empty_page_with_a_token_goes_on(bucket):
    """A page without objects that says there are more is not the end."""
    watcher = Watcher(bucket)
    bucket.changes[1] = lambda answer: answer.update(Contents=[], NextContinuationToken="0")
    bucket.changes[2] = lambda answer: answer.pop("Contents") and answer.update(NextContinuationToken="00")
    await watcher.poll()
    assert watcher.keys == ["c", "b", "a"]


@pytest.mark.parametrize("length", [1, 2, 3, 7])
async def test_tokens_in_a_circle(length):
    """A server that sends the listing round in a circle is noticed, whatever the circle's length."""

    class Circle:
        def __init__(self) -> None:
            self.pages = itertools.count()

        async def list_objects_v2(self, **arguments):
            number = next(self.pages)
            assert number < 100
            token = "start" if number < 5 else f"t{number % length}"
            headers = {"date": "Sun, 01 Mar 2026 12:00:00 GMT"}
            return {
                "IsTruncated": True,
                "NextContinuationToken": f"{number}" if number < 5 else token,
                "ResponseMetadata": {"HTTPHeaders": headers},
            }

    with pytest.raises(S3ListingError, match="circle"):
        await S3KeySource(bucket="landing", client=Circle()).poll(None, 10, frozenset())


@pytest.mark.parametrize("date", [None, "", "yesterday", "Sun, 99 Mar 2026 12:00:00 GMT"])
async def test_date_of_the_server_is_needed(bucket, date):
    """Without the server's time no bound is known, so nothing is delivered and the message says why."""
    bucket.changes[1] = lambda answer: answer["ResponseMetadata"].update(HTTPHeaders={"date": date} if date else {})
    with pytest.raises(S3ListingError, match="Date header"):
        await Watcher(bucket).poll()


async def test_date_without_zone_is_utc(bucket):
    """An old form of the header has no zone: HTTP means UTC."""
    bucket.changes[1] = lambda answer: answer["ResponseMetadata"].update(
        HTTPHeaders={"date": "Sun Mar 01 12:01:35 2026"}
    )
    watcher = Watcher(bucket)
    await watcher.poll()
    assert watcher.keys == ["c", "b"]


async def test_date_of_the_first_page_only(bucket):
    """Later pages do not raise the bound, and need no date."""
    bucket.now = 95
    bucket.before_page[2] = lambda: setattr(bucket, "now", 500)
    bucket.changes[3] = lambda answer: answer["ResponseMetadata"].update(HTTPHeaders={})
    watcher = Watcher(bucket)
    await watcher.poll()
    assert watcher.keys == ["c", "b"]


ADVICE = [
    (
        client_error("AccessDenied", 403),
        ["AccessDenied (HTTP 403)", "s3:ListBucket", "arn:aws:s3:::landing", "'in/'"],
        False,
    ),
    (client_error("", 403), ["HTTP 403", "s3:ListBucket"], False),
    (client_error("NoSuchBucket", 404), ["NoSuchBucket (HTTP 404)", "bucket's name"], False),
    (
        client_error("PermanentRedirect", 301, headers={"x-amz-bucket-region": "eu-west-3"}),
        ["HTTP 301", "lives in eu-west-3", "region_name"],
        False,
    ),
    (client_error("AuthorizationHeaderMalformed", 400), ["another region"], False),
    (client_error("ExpiredToken", 400), ["expired", "renew"], False),
    (client_error("SignatureDoesNotMatch", 403), ["access key"], False),
    (client_error("RequestTimeTooSkewed", 403), ["clock of this machine"], False),
    (
        client_error("SlowDown", 503, "Please reduce your request rate."),
        ["SlowDown", "reduce your request rate; "],
        True,
    ),
    (client_error("", 502), ["HTTP 502", "patience"], True),
    (client_error("500", 500, "Internal Server Error"), ["no answer of S3's", "endpoint_url"], True),
    (client_error("504", 504, "Gateway Timeout"), ["no answer of S3's", "proxy"], True),
    (RecursionError("maximum recursion depth exceeded"), ["redirects without end", "endpoint_url"], False),
    (client_error("Odd", 418), ["Odd (HTTP 418)", "check the connection"], False),
    (
        boto.EndpointConnectionError(endpoint_url="http://u:hidden@s3"),
        ["EndpointConnectionError", "endpoint_url"],
        True,
    ),
    (boto.ConnectTimeoutError(endpoint_url="http://s3"), ["ConnectTimeoutError", "network"], True),
    (boto.NoCredentialsError(), ["NoCredentialsError", "access key"], False),
    (ResponseParserError("invalid XML"), ["ResponseParserError", "cut short"], True),
    (OSError("no route"), ["no route", "network"], True),
]


@pytest.mark.parametrize(("error", "parts", "temporary"), ADVICE)
async def test_message_says_where_what_and_what_to_check(bucket, error, parts, temporary):
    """Each kind of failure names the prefix, S3's answer, the connection and the remedy; and no credential."""
    bucket.errors[1] = error
    source = S3KeySource(bucket="landing", prefix="in/", client=bucket, conn_id="my_aws")
    with pytest.raises(S3ListingError) as raised:
        await source.poll(None, 10, frozenset())
    text = str(raised.value)
    assert text.startswith("cannot list s3://landing/in/: ")
    assert [part for part in parts if part not in text] == []
    assert "'my_aws'" in text or "clock" in text or temporary
    assert "hidden" not in text
    assert raised.value.temporary is temporary
    assert describe(raised.value) == text


async def test_secrets_in_an_answer_are_not_repeated(bucket):
    """What S3 says of a credential is not shown."""
    bucket.errors[1] = client_error("InvalidToken", 400, "The token=FwoGZXIvYXdzEPT is malformed")
    with pytest.raises(S3ListingError) as raised:
        await Watcher(bucket).poll()
    assert "FwoGZXIvYXdzEPT" not in str(raised.value)


class Clients:
    """Makes clients, and counts those that are open."""

    def __init__(self, bucket: FakeBucket) -> None:
        self.bucket = bucket
        self.made = 0
        self.open = 0
        self.fail_once: Exception | None = None

    async def __call__(self):
        self.made += 1
        return self.context()

    @asynccontextmanager
    async def context(self):
        if (error := self.fail_once) is not None:
            self.fail_once = None
            raise error
        self.open += 1
        try:
            yield self.bucket
        finally:
            self.open -= 1


async def test_one_client_for_all_polls(bucket):
    """A client is made at the first poll, kept, kept over a temporary error, and given back at the end."""
    clients = Clients(bucket)
    watcher = Watcher(bucket, client=clients)
    assert clients.made == 0
    await watcher.poll()
    bucket.errors[1] = FAULTS["throttled"]
    with pytest.raises(S3ListingError):
        await watcher.poll()
    await watcher.poll()
    assert (clients.made, clients.open) == (1, 1)
    await watcher.source.aclose()
    await watcher.source.aclose()
    assert (clients.made, clients.open) == (1, 0)


@pytest.mark.parametrize("fault", ["denied", "expired", "gone", "bug"])
async def test_new_client_after_an_error_that_new_credentials_may_cure(bucket, fault):
    """After such an error the connection is read again, so that its repair needs no restart."""
    clients = Clients(bucket)
    watcher = Watcher(bucket, client=clients)
    bucket.errors[2] = FAULTS[fault]
    with pytest.raises(S3ListingError):
        await watcher.poll()
    assert (clients.made, clients.open) == (1, 0)
    await watcher.poll()
    assert (clients.made, clients.open) == (2, 1)
    assert watcher.keys == ["c", "b", "a"]


async def test_client_that_cannot_be_made(bucket):
    """A connection that cannot be used is an error of the listing like any other, and is tried again."""
    clients = Clients(bucket)
    clients.fail_once = LookupError("The conn_id `my_aws` isn't defined")
    watcher = Watcher(bucket, client=clients, conn_id="my_aws")
    with pytest.raises(S3ListingError, match=re.escape("isn't defined); check the connection 'my_aws'")):
        await watcher.poll()
    await watcher.poll()
    assert watcher.keys == ["c", "b", "a"]


def test_markers_of_versions():
    """Of the markers in an answer with encoded keys, only the one that is a key is encoded."""
    answer = {"IsTruncated": True, "EncodingType": "url", "NextKeyMarker": "a%2Bb+c", "NextVersionIdMarker": "v+1%2F"}
    token = Tokens(VERSIONS, Place(bucket="landing", prefix="")).after(answer)
    assert token == {"KeyMarker": "a+b c", "VersionIdMarker": "v+1%2F"}
