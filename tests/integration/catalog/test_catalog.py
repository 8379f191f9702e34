"""The catalog over a real server: writes under a revision, views that see everything, restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shared.bus import Bus, ConcurrentWriteError
from shared.bus.provision import provision
from shared.catalog import CatalogStore, CatalogWatch, Dataset
from shared.errors import UnavailableError
from tests.support.catalog import dataset
from tests.support.nats import NatsServer


async def test_what_was_put_is_seen_by_the_next_refresh_of_every_watch(bus: Bus) -> None:
    store, watch = CatalogStore(bus), CatalogWatch(bus)
    entry = await store.put(dataset("训练集 @#+".replace(" ", "")), expected=0)
    view = await watch.refresh()
    assert view.find(Dataset, "训练集@#+") == entry


async def test_of_two_writers_with_one_revision_exactly_one_wins(bus: Bus) -> None:
    store = CatalogStore(bus)
    results = await asyncio.gather(
        *(store.put(dataset("a", uri=f"file:///{number}"), expected=0) for number in range(10)), return_exceptions=True
    )
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    assert sum(isinstance(result, ConcurrentWriteError) for result in results) == 9


async def test_a_name_can_be_used_again_after_its_deletion(bus: Bus) -> None:
    store, watch = CatalogStore(bus), CatalogWatch(bus)
    first = await store.put(dataset("a"), expected=0)
    await store.delete(Dataset, "a", expected=first.revision)
    view = await watch.refresh()
    assert view.get(Dataset, "a") is None
    with pytest.raises(ConcurrentWriteError):
        await store.put(dataset("a"), expected=0)
    await store.put(dataset("a"), expected=view.revision(Dataset, "a"))
    assert (await watch.refresh()).get(Dataset, "a") == dataset("a")


async def test_a_running_watch_tells_its_listeners_of_changes(bus: Bus) -> None:
    watch, changed = CatalogWatch(bus), asyncio.Event()
    running = asyncio.create_task(watch.run())
    await watch.loaded.wait()
    watch.on_change(changed.set)
    await CatalogStore(bus).put(dataset("a"), expected=0)
    await asyncio.wait_for(changed.wait(), 45)
    assert watch.view.get(Dataset, "a") == dataset("a")
    running.cancel()


async def test_a_watch_lives_through_a_restart_of_the_server(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    bus = await server.bus()
    await provision(bus.js)
    watch, changed = CatalogWatch(bus), asyncio.Event()
    running = asyncio.create_task(watch.run())
    await watch.loaded.wait()
    await CatalogStore(bus).put(dataset("a"), expected=0)
    server.kill()
    server.start()
    watch.on_change(lambda: changed.set() if watch.view.get(Dataset, "b") else None)
    other = await server.bus("other")
    await CatalogStore(other).put(dataset("b"), expected=0)
    while not changed.is_set():
        await watch.refresh()
    assert [found.name for found in watch.view.all(Dataset)] == ["a", "b"]
    running.cancel()
    await other.close()
    await bus.close()
    server.kill()


async def test_readiness_waits_for_the_first_read(bus: Bus) -> None:
    watch = CatalogWatch(bus)
    with pytest.raises(UnavailableError):
        await watch.check()
    await watch.refresh()
    assert await watch.check() == "sequence 0"
