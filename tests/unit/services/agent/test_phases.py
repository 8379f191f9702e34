"""What a phase file says, and when the watchdog is told of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from services.agent.memory import Memory
from services.agent.phases import REPEAT_S, PhaseMarks, declared_in
from services.agent.replica import Replica, open_replica
from shared.logs_wire import PHASE_FILE, Chunk


class Recorder:
    """A publisher that remembers."""

    def __init__(self) -> None:
        self.connected = True
        self.chunks: list[Chunk] = []

    async def publish(self, chunk: Chunk, file: int) -> None:
        assert file == 0
        self.chunks.append(chunk)

    def phases(self) -> list[str | None]:
        told, self.chunks = [chunk.phase for chunk in self.chunks], []
        return told


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    directory = tmp_path / "gangs/g/replicas/worker-0"
    (directory / "tmp").mkdir(parents=True)
    manifest = {"job": "tj-a", "attempt": 1, "role": "worker", "index": 0, "node": "n-1", "log": "log"}
    (directory / "ship.json").write_text(json.dumps(manifest | {"started_at": "2026-01-01T00:00:00Z"}))
    opened = open_replica(directory, Memory(tmp_path / "agent"))
    assert opened is not None
    return opened


def declare(replica: Replica, text: str) -> None:
    (replica.directory / "tmp" / PHASE_FILE).write_text(text)


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("checkpoint\n", "checkpoint"),
        ("TM_PHASE=setup", "setup"),
        ("", ""),
        ("Two Words\n", ""),
        ("a" * 300, ""),
    ],
)
def test_the_file_holds_the_name_of_a_phase(replica: Replica, text: str, phase: str) -> None:
    declare(replica, text)
    assert declared_in(replica.directory) == phase


def test_no_link_and_no_pipe_is_read(replica: Replica, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("checkpoint")
    path = replica.directory / "tmp" / PHASE_FILE
    path.symlink_to(tmp_path / "elsewhere")
    assert declared_in(replica.directory) == ""
    path.unlink()
    os.mkfifo(path)
    assert declared_in(replica.directory) == ""


async def test_a_phase_is_told_when_it_changes_and_again_after_a_while(replica: Replica) -> None:
    recorder = Recorder()
    marks = PhaseMarks(recorder)
    await marks.send([replica], 1.0)
    assert recorder.phases() == [], "a replica that declares nothing is not told of"
    declare(replica, "checkpoint")
    await marks.send([replica], 2.0)
    (mark,) = recorder.chunks
    assert (mark.offset, mark.data, mark.end, mark.phase) == (0, b"", None, "checkpoint")
    recorder.phases()
    await marks.send([replica], 3.0)
    assert recorder.phases() == []
    await marks.send([replica], 2.0 + REPEAT_S)
    assert recorder.phases() == ["checkpoint"]
    (replica.directory / "tmp" / PHASE_FILE).unlink()
    await marks.send([replica], 3.0 + REPEAT_S)
    assert recorder.phases() == [""]


async def test_what_could_not_be_told_is_told_when_the_connection_is_back(replica: Replica) -> None:
    recorder = Recorder()
    marks = PhaseMarks(recorder)
    declare(replica, "setup")
    recorder.connected = False
    await marks.send([replica], 1.0)
    recorder.connected = True
    await marks.send([replica], 2.0)
    assert recorder.phases() == ["setup"]
