"""Where webhooks may go: to public addresses, and to networks that an admin allowed."""

from __future__ import annotations

import ipaddress

import pytest

from services.watchdog.adapters.webhook import DeliveryError, Destinations, Webhooks
from services.watchdog.domain.webhook_formats import WebhookRequest

INSIDE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "2001:0:1::1",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside_are_refused(address: str) -> None:
    assert not Destinations().permit(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_not(address: str) -> None:
    assert Destinations().permit(ipaddress.ip_address(address))


def test_a_network_that_was_allowed_is_reached_and_no_other() -> None:
    destinations = Destinations.parse("10.0.0.0/8, fc00::/7")
    assert destinations.permit(ipaddress.ip_address("10.1.2.3"))
    assert destinations.permit(ipaddress.ip_address("::ffff:10.1.2.3"))
    assert destinations.permit(ipaddress.ip_address("fc00::1"))
    assert not destinations.permit(ipaddress.ip_address("127.0.0.1"))


def test_a_list_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="has host bits set"):
        Destinations.parse("10.0.0.1/8")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/", "http://2130706433:1/"]
)
async def test_a_request_to_this_machine_is_refused_for_good_before_it_is_made(url: str) -> None:
    with pytest.raises(DeliveryError, match="not on the public internet") as refused:
        await Webhooks(Destinations()).post(WebhookRequest(url, b"{}"))
    assert refused.value.is_final
