"""The address of an API: taken apart into its pieces, and refused by name when it cannot be used."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.stores.api.address import Address
from airflow_provider_incremental.stores.api.store import api_store


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("api+https://host", "who calls"),
        ("api+https://me@host", "no password"),
        ("api+https://:token@", "address of an API"),
        ("api+https://:token@host:port", "address of an API"),
        ("api+https://:token@host?tiemout=3", "tiemout"),
        ("api+https://:token@host?timeout=0", "timeout='0'"),
        ("api+https://:token@host?timeout=nan", "timeout='nan'"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_by_name(url, says):
    """Before anything is sent, and without showing the token."""
    with pytest.raises(ConfigurationError, match=says) as caught:
        api_store(url)
    assert "token@" not in str(caught.value)


def test_an_address_is_taken_apart():
    """Brackets of IPv6, quoted secrets, a path."""
    address = Address.parse("api+https://me:p%2Fw@[::1]:8443/incremental/api/?timeout=7")
    assert (address.base, address.login, address.secret) == ("https://[::1]:8443/incremental/api", "me", "p/w")
    assert (address.token_url, address.timeout) == ("https://[::1]:8443/auth/token", 7)
    assert "p/w" not in repr(address)
