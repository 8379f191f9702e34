"""The log of a replica is what its process wrote, whatever the kubelet does and wherever the agent is killed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.agent.kubernetes.relay import MISSED, QUIET_S, Relay
from tests.support.kubernetes_logs import ContainerLog


class Agent:
    """A relay that is killed and started again, with a clock."""

    def __init__(self, home: Path, preface: bytes = b"") -> None:
        self.source, self.target = home / "pods" / "pod" / "replica", home / "replica"
        self.target.mkdir()
        self.now = 0.0
        self._preface = preface
        self.relay = self._start()

    @property
    def log(self) -> bytes:
        return (self.target / "log").read_bytes()

    def _start(self) -> Relay:
        return Relay(self.source, self.target, self._preface)

    def work(self, steps: int = 20) -> bool:
        """Some steps; whether there was anything to do."""
        self.now += 2 * QUIET_S
        self.relay.look()
        moved = [self.relay.step(self.now) for _ in range(steps)]
        return any(moved)

    def kill(self, lost_bytes: int = 0) -> None:
        """End without a word, in the middle of a write where bytes of it are lost."""
        self.relay.close()
        saved = self.relay._saved.log_bytes
        os.truncate(self.target / "log", max(saved, len(self.log) - lost_bytes))
        self.relay = self._start()

    def finish(self) -> None:
        while self.work(20):
            pass
        self.relay.finish()
        self.relay.close()


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def test_output_comes_through_while_it_is_written(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    agent.work()
    assert agent.log == b"one\n"
    log.write(b" 10%\r 20%\rtwo\n")
    agent.work()
    log.write(b"no end")
    agent.finish()
    assert agent.log == log.written


def test_an_entry_that_is_being_written_waits_for_its_end(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    log.write_raw(b"2026-01-02T00:00:01Z stdout F tw")
    agent.work()
    assert agent.log == b"one\n"
    log.write_raw(b"o\n")
    agent.work()
    assert agent.log == b"one\ntwo\n"


def test_a_line_of_many_windows_comes_through(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"x" * 3_000_000 + b"\n", longest=10_000_000)
    log.write(b"y" * 1_000_000 + b"\n")
    agent.finish()
    assert agent.log == log.written


def test_a_rotated_file_is_read_to_its_end_first(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    agent.work(1)
    log.write(b"two\n")
    log.rotate()
    log.write(b"three\n")
    agent.finish()
    assert agent.log == b"one\ntwo\nthree\n"


def test_what_the_runtime_still_writes_into_a_renamed_file_comes_first(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    agent.work()
    log.rotate()
    renamed = next(log.directory.glob("0.log.*"))
    log.write(b"three\n")
    agent.relay.look()
    assert not agent.relay.step(agent.relay.moved_at + QUIET_S / 2)
    with renamed.open("ab") as file:
        file.write(b"2026-01-02T00:00:01Z stdout F two\n")
    agent.finish()
    assert agent.log == b"one\ntwo\nthree\n"


def test_files_that_were_seen_are_read_though_they_are_packed_and_removed_meanwhile(agent: Agent):
    log = ContainerLog(agent.source)
    for number in range(6):
        log.write(f"{number}\n".encode())
        agent.relay.look()
        log.rotate(keep=2)
    log.remove()
    agent.finish()
    assert agent.log == log.written


def test_packed_files_are_read_from_where_the_agent_was(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    agent.work()
    agent.relay.save(agent.now)
    log.write(b"two\n")
    for number in range(3):
        log.rotate()
        log.write(f"more {number}\n".encode())
    assert len(list(log.directory.glob("*.gz"))) == 2
    agent.kill()
    agent.finish()
    assert agent.log == log.written


def test_files_that_went_while_the_agent_was_away_are_told_of_in_the_log(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    agent.work()
    log.write(b"missed\n")
    agent.relay.close()
    for number in range(4):
        log.rotate(keep=1)
        log.write(f"{number}\n".encode())
    agent.relay = agent._start()
    agent.finish()
    assert agent.log == b"one\n" + MISSED + b"2\n3\n"


def test_a_directory_that_went_while_the_agent_was_away_is_told_of_once(agent: Agent):
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    agent.work()
    agent.relay.save(agent.now)
    log.remove()
    for _ in range(3):
        agent.kill(lost_bytes=5)
        agent.work()
        agent.relay.finish()
    assert agent.log == b"one\n" + MISSED


def test_a_packed_file_that_is_broken_is_told_of_and_what_follows_is_read(agent: Agent):
    log = ContainerLog(agent.source)
    for number in range(3):
        log.write(f"{number}\n".encode() + os.urandom(5000).replace(b"\n", b"") + b"\n")
        log.rotate()
    log.write(b"last\n")
    oldest = min(log.directory.glob("*.gz"))
    oldest.write_bytes(oldest.read_bytes()[:200])
    agent.finish()
    assert MISSED + b"1\n" in agent.log
    assert agent.log.endswith(b"last\n")


def test_a_log_that_may_not_be_read_is_an_error_and_not_an_empty_log(agent: Agent):
    log = ContainerLog(agent.source)
    log.path.rename(log.directory / "elsewhere")
    log.path.symlink_to(log.directory / "elsewhere")
    with pytest.raises(PermissionError, match="no regular file, or may not be read"):
        agent.relay.look()


def test_a_pod_that_never_ran_leaves_an_empty_log(agent: Agent):
    agent.finish()
    assert agent.log == b""


def test_a_preface_stands_first_and_once(tmp_path: Path):
    agent = Agent(tmp_path, b"[trainmaster] preface\n")
    log = ContainerLog(agent.source)
    log.write(b"one\n")
    agent.work()
    agent.kill(lost_bytes=10)
    agent.finish()
    assert agent.log == b"[trainmaster] preface\none\n"


def test_every_restart_of_a_container_is_read_in_order(agent: Agent):
    first, second = ContainerLog(agent.source, 9), ContainerLog(agent.source, 10)
    first.write(b"one\n")
    second._entries = 1
    second.write(b"two\n")
    agent.finish()
    assert agent.log == b"one\ntwo\n"


def test_the_inode_of_a_removed_file_may_come_again(agent: Agent):
    log = ContainerLog(agent.source)
    for number in range(12):
        log.write(f"{number}\n".encode() * 50)
        agent.work()
        log.rotate(keep=1)
    agent.finish()
    assert agent.log == log.written


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.binary(max_size=60)),
    st.tuples(st.just("long"), st.integers(1, 3)),
    st.tuples(st.just("rotate"), st.just(0)),
    st.tuples(st.just("work"), st.integers(0, 4)),
    st.tuples(st.just("save"), st.just(0)),
    st.tuples(st.just("kill"), st.integers(0, 80)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(OPERATIONS, max_size=40))
def test_no_byte_is_lost_or_doubled_wherever_the_agent_is_killed(operations: list[tuple[str, int | bytes]]):
    with tempfile.TemporaryDirectory() as home:
        agent = Agent(Path(home), b"first\n")
        log = ContainerLog(agent.source)
        for name, value in operations:
            if isinstance(value, bytes):
                log.write(value, longest=13)
            elif name == "long":
                log.write(b"x" * 140_000 * value + b"\n")
            elif name == "rotate":
                log.rotate(keep=1000)
            elif name == "work":
                agent.work(value)
            elif name == "save":
                agent.relay.save(agent.now)
            else:
                agent.kill(value)
        agent.finish()
        log.close()
        assert agent.log == (b"first\n" + log.written if log.written else b"")
