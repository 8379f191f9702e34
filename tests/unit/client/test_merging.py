from __future__ import annotations

import threading
from collections.abc import Iterator

from trainmaster.merging import Finished, Item, Merger, Tick


def collected(merger: Merger[int], sources: int) -> list[object]:
    found: list[object] = []
    for item in merger:
        if isinstance(item, Finished):
            sources -= 1
        if not isinstance(item, Tick):
            found.append(item)
        if sources == 0:
            break
    return found


def test_every_value_of_every_source_arrives_in_its_order() -> None:
    merger: Merger[int] = Merger()
    merger.add("a", range(2000))
    merger.add("b", range(3000))
    found = collected(merger, 2)
    for name, count in (("a", 2000), ("b", 3000)):
        values = [item.value for item in found if isinstance(item, Item) and item.source == name]
        assert values == list(range(count))


def test_the_error_that_ends_a_source_is_handed_over() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("gone")

    merger: Merger[int] = Merger()
    merger.add("a", broken())
    first, last = collected(merger, 1)
    assert first == Item("a", 1)
    assert isinstance(last, Finished)
    assert str(last.error) == "gone"


def test_while_nothing_comes_the_reader_gets_ticks() -> None:
    gate = threading.Event()

    def late() -> Iterator[int]:
        gate.wait()
        yield 1

    merger: Merger[int] = Merger(tick_s=0.001)
    merger.add("a", late())
    items = iter(merger)
    assert next(items) == Tick()
    gate.set()
    while isinstance(item := next(items), Tick):
        pass
    assert item == Item("a", 1)


def test_values_can_be_put_in_from_outside() -> None:
    merger: Merger[int] = Merger()
    merger.put("a", 5)
    assert next(iter(merger)) == Item("a", 5)
