"""What leads away from the server that was named: proxies of the environment, and redirects, which get no secrets."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from airflow_provider_incremental.core.redact import one_line

__all__ = ["is_redirect", "proxy_for", "redirected"]

_REDIRECTS = range(300, 400)
_LONGEST_SHOWN = 200


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment has for a URL: ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``.

    aiohttp can look as well, but then it looks into ``~/.netrc`` too, and refuses a token where that has a password.
    """
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def is_redirect(status: int) -> bool:
    """Whether an answer only says where else to ask."""
    return status in _REDIRECTS


def redirected(location: str | None) -> str:
    """Return what is said of a redirect, which is not followed: whoever stands between could name any place."""
    place = one_line((location or "nowhere").partition("?")[0])[:_LONGEST_SHOWN]
    return f"it redirects to {place}, where no secret is sent"
