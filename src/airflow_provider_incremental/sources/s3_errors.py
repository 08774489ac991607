"""What went wrong with a listing: one sentence that says where, what, and what to check."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.core.redact import without_secrets

__all__ = ["Place", "S3ListingError", "broken_answer", "listing_failed"]


class S3ListingError(SourceError):
    """A prefix could not be listed to its end.

    :param code: S3's code of the error, such as ``NoSuchBucket``; None when nothing was answered.
    :param status: the HTTP status; None when nothing was answered.
    :param temporary: whether the same request can be expected to succeed later, with nothing changed.
    :param unsplittable: whether the server cannot begin a listing behind a key.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        temporary: bool = False,
        unsplittable: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.temporary = temporary
        self.unsplittable = unsplittable


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is listed, and through which connection, as messages name it."""

    bucket: str
    prefix: str
    conn_id: str | None = None

    @property
    def connection(self) -> str:
        """The connection as a sentence names it."""
        return f"connection {self.conn_id!r}" if self.conn_id else "connection"

    def __str__(self) -> str:
        """Return the prefix as a URL."""
        return f"s3://{self.bucket}/{self.prefix}"


_PERMISSION = (
    "check that the {connection} may s3:ListBucket on arn:aws:s3:::{bucket}; "
    "a condition on s3:prefix has to allow the prefix {prefix!r}"
)
_REGION = "the bucket lives in {region}; set region_name (and a fitting endpoint_url) in the {connection}"
_EXPIRED = "the credentials have expired; renew them in the {connection}"
_CREDENTIALS = "check the access key and its secret in the {connection}"
_NO_CREDENTIALS = (
    "no credentials were found; make the {connection} (aws_conn_id) with an access key or a role, or give this machine "
    "a role"
)
_MISSING = "check the bucket's name, and the account and endpoint_url of the {connection}"
_NO_ANSWER = "nothing was answered: check endpoint_url, region, proxy and network of the {connection}"
_CLOCK = "set the clock of this machine"
_LATER = "S3 asks for patience; nothing has to be changed, the whole listing is tried again later"
_TORN = "the answer was cut short or is no listing; the whole listing is tried again later"
_NOT_OF_S3 = (
    "this is no answer of S3's, though perhaps of a proxy's; the whole listing is tried again later; if it stays, "
    "check endpoint_url and proxy of the {connection}"
)
_ROUND = "the server redirects without end: check endpoint_url and region of the {connection}"
_UNKNOWN = "check the {connection}"

_BY_CODE = {
    "AccessDenied": _PERMISSION,
    "AllAccessDisabled": _PERMISSION,
    "AccountProblem": _PERMISSION,
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "UnrecognizedClientException": _CREDENTIALS,
    "NoSuchBucket": _MISSING,
    "RequestTimeTooSkewed": _CLOCK,
    "SlowDown": _LATER,
    "RequestTimeout": _LATER,
    "ServiceUnavailable": _LATER,
    "InternalError": _LATER,
    "OperationAborted": _LATER,
    "Throttling": _LATER,
    "ThrottlingException": _LATER,
    "RequestLimitExceeded": _LATER,
}
_BY_STATUS = {301: _REGION, 307: _REGION, 401: _CREDENTIALS, 403: _PERMISSION, 404: _MISSING, 429: _LATER}
# By name, anywhere among the bases, so that no client has to be imported here.
_BY_CLASS = {
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _CREDENTIALS,
    "CredentialRetrievalError": _CREDENTIALS,
    "UnauthorizedSSOTokenError": _EXPIRED,
    "SSOTokenLoadError": _EXPIRED,
    "ResponseParserError": _TORN,
    "ResponseStreamingError": _TORN,
    "IncompleteReadError": _TORN,
    "ClientPayloadError": _TORN,
    "ConnectionClosedError": _TORN,
    "HTTPClientError": _NO_ANSWER,
    "ConnectionError": _NO_ANSWER,
    "OSError": _NO_ANSWER,
    "RecursionError": _ROUND,
    "TimeoutError": _NO_ANSWER,
}
_FIRST_SERVER_ERROR = 500
_LONGEST = 400


def listing_failed(error: Exception, place: Place) -> S3ListingError:
    """Return what to raise for an error of the client. Credentials do not get into it."""
    if isinstance(error, ConfigurationError):
        return S3ListingError(f"cannot list {place}: {error}")
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        bases = [kind.__name__ for kind in type(error).__mro__]
        remedy = next((_BY_CLASS[name] for name in bases if name in _BY_CLASS), _UNKNOWN)
        temporary = remedy in (_NO_ANSWER, _TORN)
        said = _shown(error)
        # In brackets: after a colon, a name such as NoCredentialsError would make it look like a secret.
        what = type(error).__name__ + (f" ({said})" if said else "")
        return S3ListingError(_sentence(place, what, remedy, {}), temporary=temporary)
    answer, metadata = response.get("Error", {}), response.get("ResponseMetadata", {})
    code, status = str(answer.get("Code", "")), int(metadata.get("HTTPStatusCode") or 0)
    # Where a body is none of S3's, botocore takes the status for the code, and 500 for a page of HTML.
    later = _NOT_OF_S3 if code == str(status) else _LATER
    remedy = _BY_CODE.get(code) or _BY_STATUS.get(status, later if status >= _FIRST_SERVER_ERROR else _UNKNOWN)
    said = _shown(answer.get("Message", ""))
    what = f"{code or type(error).__name__} (HTTP {status})" + (f": {said.rstrip('.')}" if said else "")
    message = _sentence(place, what, remedy, metadata.get("HTTPHeaders", {}))
    return S3ListingError(message, code=code or None, status=status or None, temporary=remedy in (_LATER, _NOT_OF_S3))


def broken_answer(place: Place, what: str, *, unsplittable: bool = False) -> S3ListingError:
    """Return what to raise when an answer cannot be a page of a complete listing."""
    return S3ListingError(
        f"cannot list {place}: {what}. Nothing was taken from the listing, it is tried again; if it stays, the server "
        f"behind the {place.connection} does not answer ListObjectsV2 as S3 does",
        temporary=True,
        unsplittable=unsplittable,
    )


def _shown(said: object) -> str:
    text = without_secrets(" ".join(str(said).split()))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _sentence(place: Place, what: str, remedy: str, headers: dict[str, str]) -> str:
    region = headers.get("x-amz-bucket-region") or "another region"
    advice = remedy.format(connection=place.connection, bucket=place.bucket, prefix=place.prefix, region=region)
    return f"cannot list {place}: {what}; {advice}"
