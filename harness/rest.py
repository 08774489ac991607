"""A small client of Airflow's REST API, for what the harness asks of it."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from contextlib import closing
from typing import Any

from harness.processes import HarnessError

__all__ = ["RestClient"]

_TIMEOUT_SECONDS = 30
_FIRST_ERROR = 400


class RestClient:
    """Speaks to an api-server on which everybody is an administrator."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._token: str | None = None

    def is_up(self) -> bool:
        """Whether the api-server answers."""
        try:
            return self._send("GET", "/api/v2/version", None)[0] < _FIRST_ERROR
        except (OSError, http.client.HTTPException):
            return False

    def request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send a request as administrator and return the parsed answer.

        :param path: as in the API's documentation; parts that come from outside must be quoted already.
        :raises HarnessError: when the answer is an error; carries its text.
        """
        if self._token is None:
            self._token = self._parsed("GET", "/auth/token", None)["access_token"]
        address = f"{path}?{urllib.parse.urlencode(query, doseq=True)}" if query else path
        return self._parsed(method, address, body)

    def get(self, path: str, **query: Any) -> Any:
        """Send a GET as administrator and return the parsed answer."""
        return self.request("GET", path, **query)

    def pages(self, path: str, items: str, **query: Any) -> list[dict[str, Any]]:
        """Return all entries of a list that the API gives in pages."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(path, limit=100, offset=len(found), **query)
            found += page[items]
            if not page[items] or len(found) >= page["total_entries"]:
                return found

    def _parsed(self, method: str, address: str, body: Any) -> Any:
        status, text = self._send(method, address, body)
        if status >= _FIRST_ERROR:
            msg = f"{method} {address} answered {status}: {text}"
            raise HarnessError(msg)
        return json.loads(text) if text else None

    def _send(self, method: str, address: str, body: Any) -> tuple[int, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body)
        with closing(http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)) as connection:
            connection.request(method, address, body=data, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
