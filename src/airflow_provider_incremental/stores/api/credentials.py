"""The token that a client shows: given, read from a file, or asked of an Airflow; got anew when it is refused."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import aiohttp

from airflow_provider_incremental.core.errors import StoreError, StoreUnavailableError
from airflow_provider_incremental.stores.api.address import Address
from airflow_provider_incremental.stores.api.elsewhere import is_redirect, proxy_for, redirected

__all__ = ["Credentials"]

_REFUSED = (400, 401, 403, 422)
_TOKEN = re.compile(r"[^\s\x00-\x1f\x7f]+")
_NO_TEXT = "\0"


class Credentials:
    """What stands in the header ``Authorization``.

    What is true at every ``await``: of all requests that were refused with one token, one gets the next.

    :param address: the API.
    """

    def __init__(self, *, address: Address) -> None:
        self._address = address
        self._token: str | None = None
        self._turn = asyncio.Lock()

    async def token(self, session: aiohttp.ClientSession, refused: str | None = None) -> str:
        """Return the token.

        :param refused: one that the server did not take, so that another one is needed.
        :raises StoreError: when there is none to be had.
        """
        async with self._turn:
            if self._token is None or self._token == refused:
                self._token = await self._fetch(session)
            return self._token

    @property
    def renewable(self) -> bool:
        """Whether another token may be had once one is refused."""
        return self._address.login is not None or self._address.token_file is not None

    async def _fetch(self, session: aiohttp.ClientSession) -> str:
        address = self._address
        if address.token_file is not None:
            return await asyncio.to_thread(self._read)
        if address.login is None:
            return address.secret or ""
        return await self._ask(session)

    def _read(self) -> str:
        try:
            text = str(self._address.token_file and self._address.token_file.read_text().strip())
        except OSError as error:
            msg = f"token_file={str(self._address.token_file)!r} of [incremental] store cannot be read: {error}"
            raise StoreError(msg) from error
        except UnicodeDecodeError:
            text = _NO_TEXT
        if text and not _TOKEN.fullmatch(text):
            msg = (
                f"what token_file={str(self._address.token_file)!r} of [incremental] store has is no token: it is one "
                "line without blanks, as `airflow-incremental api-token` prints it"
            )
            raise StoreError(msg)
        return text

    async def _ask(self, session: aiohttp.ClientSession) -> str:
        """Log in, as scripts do: https://airflow.apache.org/docs/apache-airflow/stable/security/api.html."""
        url, body = self._address.token_url, {"username": self._address.login, "password": self._address.secret}
        proxy = proxy_for(url)
        async with session.post(url, json=body, allow_redirects=False, proxy=proxy) as response:
            text = await response.text()
        if is_redirect(response.status):
            away = redirected(response.headers.get("Location"))
            msg = f"{url} gave no token ({response.status}): {away}; name the place for tokens as token_url"
            raise StoreError(msg)
        if response.status in _REFUSED:
            msg = (
                f"{url} gave no token to the user {self._address.login!r} ({response.status}): check login and password"
            )
            raise StoreError(msg)
        token = _token_in(text)
        if not response.ok or token is None:
            msg = (
                f"{url} answered {response.status} without a token; is it an Airflow 3, and [incremental] store right? "
                "A server of its own takes no login: give its token as the password, without a user"
            )
            raise StoreUnavailableError(msg)
        return token


def _token_in(text: str) -> str | None:
    try:
        answer: Any = json.loads(text)
    except ValueError:
        return None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    return token if isinstance(token, str) else None
