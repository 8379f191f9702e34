from __future__ import annotations

import pytest
from nats.js.api import PersistMode, StreamConfig
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


def test_the_transit_of_logs_is_written_without_syncing_unless_several_servers_keep_it() -> None:
    def logs(log_replicas: int) -> StreamConfig:
        (config,) = (config for config in stream_configs(3, log_replicas) if config.name == LOGS)
        return config

    assert (logs(1).num_replicas, logs(1).persist_mode) == (1, PersistMode.ASYNC)
    assert (logs(3).num_replicas, logs(3).persist_mode) == (3, None)
