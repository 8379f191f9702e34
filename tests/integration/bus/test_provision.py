"""Making streams, consumers and buckets, and refusing what differs, against a real server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shared.bus import Bus
from shared.bus.errors import ProvisionError
from shared.bus.provision import provision
from shared.bus.streams import (
    CATALOG_BUCKET,
    CODE_BUCKET,
    JOBS,
    LOGS,
    NODES,
    REACTIONS,
    WATCHDOG_ATTEMPTS,
    bucket_configs,
    stream_configs,
)
from tests.support.nats import NatsServer


async def test_everything_that_is_named_exists_afterwards(bus: Bus) -> None:
    names = {info.config.name for info in await bus.js.streams_info()}
    assert {config.name for config in stream_configs()} <= names
    assert {f"KV_{config.bucket}" for config in bucket_configs()} <= names
    assert f"OBJ_{CODE_BUCKET}" in names
    for reaction in REACTIONS:
        info = await bus.js.consumer_info(reaction.stream, reaction.durable)
        assert info.config.filter_subject == reaction.subject


async def test_a_second_run_changes_nothing(bus: Bus) -> None:
    before = await bus.stream_identity()
    await provision(bus.js)
    assert await bus.stream_identity() == before


async def test_a_stream_with_other_settings_is_an_error_that_names_the_setting(bus: Bus) -> None:
    config = (await bus.js.stream_info(LOGS)).config
    await bus.js.update_stream(replace(config, max_bytes=1 << 20))
    with pytest.raises(ProvisionError, match="stream LOGS exists with max_bytes = 1048576") as refused:
        await provision(bus.js)
    assert refused.value.setting == "max_bytes"
    assert (await bus.js.stream_info(LOGS)).config.max_bytes == 1 << 20


async def test_a_stream_that_let_go_of_what_is_now_kept_for_ever_keeps_it_from_now_on(bus: Bus) -> None:
    config = (await bus.js.stream_info(NODES)).config
    await bus.js.update_stream(replace(config, max_age=3600))
    await provision(bus.js)
    assert not (await bus.js.stream_info(NODES)).config.max_age


async def test_a_stream_gets_the_subjects_that_a_new_version_adds(bus: Bus) -> None:
    config = (await bus.js.stream_info(JOBS)).config
    fewer = [each for each in config.subjects or [] if "platform" not in each]
    await bus.js.update_stream(replace(config, subjects=fewer))
    before = await bus.stream_identity()
    await provision(bus.js)
    assert (await bus.js.stream_info(JOBS)).config.subjects == config.subjects
    assert await bus.stream_identity() == before


async def test_a_stream_with_other_subjects_is_an_error(bus: Bus) -> None:
    config = (await bus.js.stream_info(JOBS)).config
    await bus.js.update_stream(replace(config, subjects=[*(config.subjects or []), "tm.more"]))
    with pytest.raises(ProvisionError, match="stream JOBS exists with subjects"):
        await provision(bus.js)


async def test_a_consumer_with_another_filter_is_an_error(bus: Bus) -> None:
    await bus.js.delete_consumer(JOBS, WATCHDOG_ATTEMPTS.durable)
    await bus.js.add_consumer(JOBS, replace(WATCHDOG_ATTEMPTS.config(), filter_subject="tm.job.*.state.submitted"))
    with pytest.raises(ProvisionError, match="consumer watchdog-attempts of JOBS exists with filter_subject"):
        await provision(bus.js)


async def test_consumers_of_an_earlier_version_get_the_pace_of_this_one_and_keep_their_place(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    server.start()
    await server.wipe()
    bus = await server.bus()
    made = []
    for each in REACTIONS:
        slower = replace(each.config(), ack_wait=61.0, max_ack_pending=7)
        made.append(await bus.js.add_consumer(each.stream, slower))
    await bus.close()
    server.kill()
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    found = [await bus.js.consumer_info(each.stream, each.durable) for each in REACTIONS]
    await bus.close()
    server.kill()
    wanted = [each.config() for each in REACTIONS]
    assert [each.config.ack_wait for each in found] == [each.ack_wait for each in wanted]
    assert [each.config.max_ack_pending for each in found] == [each.max_ack_pending for each in wanted]
    assert [each.created for each in found] == [each.created for each in made]


async def test_a_bucket_with_another_history_is_an_error(bus: Bus) -> None:
    config = (await bus.js.stream_info(f"KV_{CATALOG_BUCKET}")).config
    await bus.js.update_stream(replace(config, max_msgs_per_subject=1))
    with pytest.raises(ProvisionError, match="bucket catalog exists with max_msgs_per_subject = 1"):
        await provision(bus.js)
