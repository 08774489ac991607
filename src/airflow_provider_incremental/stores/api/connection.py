"""Requests to an API: a body with many calls goes out, an answer for each comes back, and refusals are understood."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from typing import Any

import aiohttp

from airflow_provider_incremental.core.errors import StoreError, StoreUnavailableError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.stores.api.address import Address
from airflow_provider_incremental.stores.api.calls import REQUESTS_AT_ONCE, Answer, Call
from airflow_provider_incremental.stores.api.credentials import Credentials
from airflow_provider_incremental.stores.api.elsewhere import is_redirect, proxy_for, redirected
from airflow_provider_incremental.stores.api.text import BIG

__all__ = ["AWAY", "Connection"]

AWAY = frozenset({429, 502, 503, 504})
"""Statuses of a server that may be well again in a moment."""

_DONE = 200
_NO_SUCH_PAGE = 404
_CREDENTIALS = (401, 403)
_CONNECT = 10.0
_KEEP_ALIVE = 4.0  # less than the five seconds after which uvicorn, Airflow's server, hangs up
_LONGEST_WAIT = 60.0
_NO_TLS = "WRONG_VERSION_NUMBER"
"""What OpenSSL says of an answer that is none of TLS."""


class Connection:
    """A client of one API, with its credentials.

    :param address: the API.
    """

    def __init__(self, *, address: Address) -> None:
        self._address = address
        self._credentials = Credentials(address=address)
        self._client: aiohttp.ClientSession | None = None
        self._tls = address.tls() if address.base.startswith("https") else None
        self._proxy = proxy_for(address.base)

    async def send(self, calls: Sequence[Call]) -> Sequence[Answer]:
        """Send calls in one request, and return an answer for each.

        :raises StoreUnavailableError: when no answer came.
        :raises StoreError: when what answered is not this API, or does not let us in.
        """
        body = f'{{"operations":[{",".join(call.text for call in calls)}]}}'.encode()
        try:
            token = await self._credentials.token(self._session())
            status, headers, text = await self._post(body, token)
            if status in _CREDENTIALS and self._credentials.renewable:
                token = await self._credentials.token(self._session(), refused=token)
                status, headers, text = await self._post(body, token)
        except aiohttp.ClientConnectorCertificateError as error:
            msg = f"the certificate of {self._address.base} is not trusted: {describe(error)}; is ca_file=... missing?"
            raise StoreError(msg) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreached(error) from error
        except ValueError as error:
            msg = (
                f"the store {self._address.base} cannot be asked: {describe(error)}. Are its token and the proxy right?"
            )
            raise StoreError(msg) from error
        found = await asyncio.to_thread(_json, text) if len(text) > BIG else _json(text)
        if status == _DONE and isinstance(found, dict) and isinstance(found.get("results"), list):
            return _answers(found["results"], len(calls), len(text), self._address.base)
        refused = 0 if status == _DONE else status
        problem = self._refusal(status, headers, found)
        return [Answer(refused, problem, _seconds(headers.get("Retry-After")))] * len(calls)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._client is None:
            connector = aiohttp.TCPConnector(
                limit=REQUESTS_AT_ONCE, keepalive_timeout=_KEEP_ALIVE, ssl=self._tls or True
            )
            self._client = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._address.timeout, connect=_CONNECT),
            )
        return self._client

    async def _post(self, body: bytes, token: str) -> tuple[int, Any, bytes]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = f"{self._address.base}/v1/batch"
        async with self._session().post(
            url, data=io.BytesIO(body), headers=headers, allow_redirects=False, proxy=self._proxy
        ) as response:
            return response.status, response.headers, await response.read()

    def _unreached(self, error: Exception) -> StoreError:
        """Return what is said when no answer came; what talks another protocol is not waited for."""
        where = self._address.base
        if isinstance(error, aiohttp.ClientConnectorSSLError) and _NO_TLS in str(error):
            return StoreError(f"{where} speaks no TLS: write api+http:// (a connection: schema http), or another port")
        trouble = describe(error) if str(error) else "it did not answer in time"
        hint = "Is it up, and [incremental] store right?"
        if where.startswith("http:") and isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError):
            hint = "Is it up? Does it want TLS: api+https:// (in a connection: schema https)?"
        return StoreUnavailableError(f"the store {where} cannot be reached: {trouble}. {hint}")

    def _refusal(self, status: int, headers: Any, found: Any) -> dict[str, Any]:
        """Return the problem of a whole request; what is not ours gets one that says what it may be."""
        if isinstance(found, dict) and str(found.get("type", "")).startswith("urn:airflow-provider-incremental:"):
            detail = f"{found.get('detail')} ({_HINTS[status]})" if status in _HINTS else found.get("detail")
            return found | {"detail": detail}
        said = found.get("detail") if isinstance(found, dict) else None
        if is_redirect(status):
            said = redirected(headers.get("Location"))
        hint = _HINTS.get(status, "is that the API? in Airflow its path is /incremental/api")
        return {"status": status, "code": "not-this-api", "detail": f"{said or 'no reason given'}: {hint}"}


_HINTS = {
    401: "check the token, or the login and password, of [incremental] store",
    403: "check what the token or user of [incremental] store may do",
    404: "check the path of [incremental] store; in Airflow it is /incremental/api, and a server of its own has none",
    413: "let a poll find less with a smaller limit, or raise the limit of the server or of the proxy before it",
    **dict.fromkeys(AWAY, "the server, or the proxy before it, is busy or starting"),
}


def _answers(results: list[Any], wanted: int, size: int, where: str) -> list[Answer]:
    if len(results) != wanted or not all(isinstance(each, dict) and "status" in each for each in results):
        msg = f"the store {where} answered {len(results)} results to {wanted} operations: does a proxy change them?"
        raise StoreError(msg)
    return [Answer(each["status"], each.get("answer", each.get("problem")), size=size) for each in results]


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _seconds(text: str | None) -> float:
    """Read Retry-After, where it is a number of seconds."""
    return min(float(text), _LONGEST_WAIT) if text and text.isdecimal() else 0.0
