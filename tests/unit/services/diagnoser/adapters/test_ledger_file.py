"""The ledger's file: what a start finds in it, and when it is made anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.diagnoser.adapters.ledger_file import REPORTS_KEPT, LedgerFile
from services.diagnoser.domain.book import Book, Touched
from shared import events as ev
from shared.jobs import Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STREAM = "2026-01-01T00:00:00Z"


def recorded(payload: ev.Payload, sequence: int = 1) -> Recorded:
    node = str(getattr(payload, "node", ""))
    at = NOW + timedelta(minutes=sequence)
    event = ev.Event.of(payload, job=node, attempt=0, time=at, owner="", project="")
    return Recorded(sequence, f"tm.node.main.{node}.{payload.SUFFIX}", event)


def diagnosed(node: str = "n-1", diagnosis: str = "dg-1", verdict: str = "green", fails: int = 0) -> ev.NodeDiagnosed:
    figure = ev.FigureMeasured(name="multiplication", value=90.0, unit="ms", device="cpu-0")
    pair = ev.PairMeasured(first=node, second="n-9", verdict="green", tests=2, bandwidth_mb_s=1000.0)
    beliefs = [
        ev.PartBelief(part=part, suspicion=0.5, evidence=(1.0,) * 4, fails=fails) for part in (node, f"{node}/c")
    ]
    fields = {"cluster": "main", "node": node, "diagnosis": diagnosis, "began": NOW, "took_s": 1.5, "kind": "EPYC"}
    return ev.NodeDiagnosed.model_validate(
        {**fields, "verdict": verdict, "figures": (figure,), "pairs": (pair,), "beliefs": beliefs, "node_count": 2}
    )


def take(file: LedgerFile, book: Book, payloads: Iterable[ev.Payload], first: int = 1) -> int:
    """The file after these events; gives the sequence of the last."""
    taken = [recorded(payload, first + number) for number, payload in enumerate(payloads)]
    for each in taken:
        book.take(each)
    reports = [each.event.data for each in taken if isinstance(each.event.data, ev.NodeDiagnosed)]
    file.write(book, book.touched, reports, first + len(taken) - 1)
    book.touched = Touched()
    return first + len(taken) - 1


def opened(path: Path, stream: str = STREAM, last: int = 1000) -> tuple[LedgerFile, Book, int]:
    file, book = LedgerFile(path), Book()
    return file, book, file.load(book, stream, last)


nodes = st.sampled_from(["n-1", "n-2"])
payloads = st.one_of(
    st.builds(diagnosed, nodes, verdict=st.sampled_from(["green", "amber", "red"]), fails=st.integers(0, 2)),
    st.builds(lambda node: ev.NodeSuspected(cluster="main", node=node, job="tj-a", attempt=1, rule="x"), nodes),
    st.builds(
        lambda node: ev.NodeLagged(cluster="main", node=node, job="tj-a", attempt=1, rank=1, reason="slow"), nodes
    ),
    st.builds(lambda node: ev.NodeRecalled(cluster="main", node=node, by="root", reason="x"), nodes),
    st.builds(
        lambda node, wish: ev.NodeMarked(cluster="main", node=node, wish=wish, by="root", reason="x"),
        nodes,
        st.sampled_from(["Ready", "Draining"]),
    ),
    st.builds(lambda node: ev.NodeJudged(cluster="main", node=node, health="suspect"), nodes),
    st.builds(
        lambda node, cpu: ev.NodeReported(cluster="main", node=node, cpu_millis=cpu, memory_bytes=1),
        nodes,
        st.integers(1, 2),
    ),
)


@given(st.lists(st.lists(payloads, max_size=5), max_size=4))
@settings(max_examples=40, deadline=None)
def test_a_start_finds_what_was_known_at_the_end(tmp_path_factory: pytest.TempPathFactory, batches) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    file, book, sequence = opened(path)
    for batch in batches:
        sequence = take(file, book, batch, first=sequence + 1)
    file.close()
    file, again, reached = opened(path)
    file.close()
    assert reached == sequence
    assert dict(again.pages) == dict(book.pages)
    later = NOW + timedelta(hours=5)
    assert again.known(["n-1", "n-2"], later) == book.known(["n-1", "n-2"], later)
    assert again.fleet("EPYC", "multiplication") == book.fleet("EPYC", "multiplication")
    assert again.own("n-1", "multiplication/cpu-0") == book.own("n-1", "multiplication/cpu-0")


@pytest.mark.parametrize("case", ["another stream", "a stream that is behind", "damage", "another schema"])
def test_a_file_that_cannot_be_trusted_is_made_anew(tmp_path: Path, case: str) -> None:
    path = tmp_path / "ledger.sqlite"
    file, book, _ = opened(path)
    take(file, book, [diagnosed()])
    file.close()
    stream, last = (STREAM, 1000)
    match case:
        case "another stream":
            stream = "later"
        case "a stream that is behind":
            last = 0
        case "damage":
            path.write_bytes(b"no database")
        case _:
            with sqlite3.connect(path) as database:
                database.execute("PRAGMA user_version = 99")
    file, again, reached = opened(path, stream, last)
    assert (reached, dict(again.pages), file.latest(10)) == (0, {}, [])
    assert take(file, again, [diagnosed()]) == 1
    file.close()


def test_reports_are_found_by_name_and_listed_the_latest_first(tmp_path: Path) -> None:
    file, book, _ = opened(tmp_path / "ledger.sqlite")
    parts = [diagnosed("n-2", "dg-1"), diagnosed("n-1", "dg-1"), diagnosed("n-1", "dg-2")]
    take(file, book, parts)
    assert [part.node for part in file.report("dg-1")] == ["n-1", "n-2"]
    assert file.report("dg-1")[0] == parts[1]
    assert file.report("dg-9") == ()
    assert [(each.first.diagnosis, each.parts) for each in file.latest(5)] == [("dg-2", 1), ("dg-1", 2)]
    assert len(file.latest(1)) == 1
    file.close()


def test_of_many_reports_the_last_are_kept(tmp_path: Path) -> None:
    file, book, _ = opened(tmp_path / "ledger.sqlite")
    take(file, book, [diagnosed(diagnosis=f"dg-{number}") for number in range(REPORTS_KEPT + 3)])
    assert (file.report("dg-2"), len(file.report("dg-3"))) == ((), 1)
    file.close()


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    file, book, _ = opened(path)
    take(file, book, [diagnosed()])
    blocker = sqlite3.connect(path, isolation_level=None, timeout=0)
    blocker.execute("BEGIN IMMEDIATE")
    file._database.execute("PRAGMA busy_timeout = 0")
    book.take(recorded(diagnosed("n-2"), 2))
    with pytest.raises(sqlite3.OperationalError):
        file.write(book, book.touched, [], 2)
    blocker.execute("ROLLBACK")
    blocker.close()
    file.write(book, book.touched, [], 2)
    file.close()
    file, again, reached = opened(path)
    assert (reached, dict(again.pages)) == (2, dict(book.pages))
    file.close()
