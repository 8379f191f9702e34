from __future__ import annotations

import pytest
from pydantic import ValidationError

from shared.bus.streams import LOGS, stream_configs
from shared.nats_servers import servers, trust
from shared.settings import ServiceSettings


def test_addresses_stand_with_commas_between() -> None:
    assert servers("nats://a:4222, nats://b:4222,") == ["nats://a:4222", "nats://b:4222"]


def test_without_an_authority_nothing_is_encrypted() -> None:
    assert trust(None) is None


@pytest.mark.parametrize("url", ["http://a", "nats://a,b", "nats://", ""])
def test_what_is_no_address_of_nats_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        ServiceSettings.model_validate({"nats_url": url})


def test_only_a_single_server_writes_the_transit_of_logs_without_syncing() -> None:
    modes = {replicas: {str(c.name): c.persist_mode for c in stream_configs(replicas)}[LOGS] for replicas in (1, 3)}
    assert modes[1] is not None
    assert modes[3] is None
