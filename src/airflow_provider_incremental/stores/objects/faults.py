"""What went wrong with a request to the object storage: whether to try again, and one sentence on what to do."""

from __future__ import annotations

from airflow_provider_incremental.core.errors import ConfigurationError, StoreUnavailableError
from airflow_provider_incremental.core.redact import describe, one_line
from airflow_provider_incremental.stores.objects.address import ObjectAddress

__all__ = ["StorageFaultError", "code_of", "fault_of", "no_conditions", "status_of"]

_ACTIONS = {
    "get_object": "s3:GetObject (and s3:ListBucket, without which what is not there looks forbidden)",
    "put_object": "s3:PutObject",
    "list_objects_v2": "s3:ListBucket",
    "delete_objects": "s3:DeleteObject",
}
_TEMPORARY_CODES = frozenset(
    {
        *("SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "RequestLimitExceeded"),
        *("OperationAborted", "ConditionalRequestConflict"),
    }
)
_EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"})
_CREDENTIALS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId", "UnrecognizedClientException"}
)
# By name, anywhere among the bases, so that no client has to be imported here.
_NO_ANSWER = frozenset(
    {"HTTPClientError", "ConnectionError", "OSError", "TimeoutError", "ClientPayloadError", "ResponseParserError"}
)
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"})
_TOO_MANY, _FORBIDDEN, _NOT_IMPLEMENTED, _FIRST_SERVER_ERROR = 429, 403, 501, 500
_LONGEST = 300


class StorageFaultError(StoreUnavailableError):
    """A request that failed.

    :param temporary: whether the same request can be expected to succeed later.
    :param expired: whether it can with new credentials.
    """

    def __init__(self, message: str, *, temporary: bool = False, expired: bool = False) -> None:
        super().__init__(message)
        self.temporary = temporary
        self.expired = expired


def code_of(error: BaseException) -> str:
    """Return the service's code of an error; empty when it did not answer."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error; 0 when nothing was answered."""
    response = getattr(error, "response", None)
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0) if isinstance(response, dict) else 0


def fault_of(error: Exception, address: ObjectAddress, operation: str) -> StorageFaultError:
    """Return what to raise for an error of the client. Credentials do not get into it."""
    where = f"the store {address}" + (f" (connection {address.conn_id!r})" if address.conn_id else "")
    if isinstance(error, ConfigurationError):
        return StorageFaultError(f"{where} cannot be opened: {error}")
    code, status = code_of(error), status_of(error)
    if not status:
        return _unanswered(error, where, address)
    response = getattr(error, "response", {})
    said = one_line(str(response.get("Error", {}).get("Message", "")))[:_LONGEST].rstrip(".")
    what = f"{where}: {operation} was answered {code or 'an error'} (HTTP {status})" + (f", {said}" if said else "")
    if code in _EXPIRED_CODES:
        return StorageFaultError(f"{what}; renew the credentials of the connection", temporary=True, expired=True)
    if status == _NOT_IMPLEMENTED:
        return no_conditions(address, what)
    if code in _TEMPORARY_CODES or status == _TOO_MANY or status >= _FIRST_SERVER_ERROR:
        return StorageFaultError(f"{what}; nothing has to be changed, it is tried again", temporary=True)
    return StorageFaultError(f"{what}; {_remedy(code, status, address, operation)}")


def no_conditions(address: ObjectAddress, what: str) -> StorageFaultError:
    """Return what to raise for a service on which two writers would overwrite one another."""
    service = f"the service behind connection {address.conn_id!r}" if address.conn_id else "the service"
    return StorageFaultError(
        f"{what}: {service} does not honour If-Match and If-None-Match of PutObject, so that two writers would "
        "overwrite one another. Nothing is kept there; use a service that has conditional writes "
        "(docs/object_storage.md), or a database"
    )


def _unanswered(error: Exception, where: str, address: ObjectAddress) -> StorageFaultError:
    bases = {kind.__name__ for kind in type(error).__mro__}
    what = f"{where} cannot be reached: {describe(error)[:_LONGEST]}"
    if bases & _NO_CREDENTIALS:
        return StorageFaultError(f"{what}; give the connection an access key or a role")
    temporary = bool(bases & _NO_ANSWER)
    remedy = "the endpoint_url, region and network of the connection" if address.conn_id else "the service"
    return StorageFaultError(f"{what}; check {remedy}", temporary=temporary)


def _remedy(code: str, status: int, address: ObjectAddress, operation: str) -> str:
    if code == "NoSuchBucket":
        return f"make the bucket {address.bucket!r}, or check its name, and the account of the connection"
    if code in _CREDENTIALS:
        return "check the access key and its secret in the connection"
    if code == "RequestTimeTooSkewed":
        return "set the clock of this machine"
    if status == _FORBIDDEN:
        return f"the connection needs {_ACTIONS.get(operation, operation)} on {address}*"
    return "check the connection"
