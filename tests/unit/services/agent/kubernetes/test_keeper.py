"""The lives of replicas' directories through the passes of their keeper, without a clock and without an API server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from services.agent.domain.manifest import parse_manifest
from services.agent.kubernetes.keeper import FAILED_PAUSE_S, PodKeeper
from services.agent.kubernetes.pods import Pod, VolumePath
from services.agent.kubernetes.relay import QUIET_S
from services.agent.kubernetes.replica_home import FINDING_S, GONE_QUIET_S, Node
from services.agent.shipped import ShippedVerb
from shared.agent_wire import Shipped, decode_shipped, encode_shipped_request
from shared.kubernetes.names import node_id
from shared.kubernetes.watch import Changed, Gone, Listed, Unreachable
from shared.logs_wire import ReplicaRef
from tests.support.kubernetes_logs import ContainerLog

POD = Pod("u-1", "jobs", "tj-a-1-worker-0", ReplicaRef("tj-a", 1, "worker", 0), "2026-01-01T00:00:00+00:00")
RUNS = replace(POD, has_begun=True, container="abc")
ENDED = replace(RUNS, has_ended=True)


class Machine:
    """A node with a keeper, and the log of the one pod."""

    def __init__(self, home: Path) -> None:
        self.now = 0.0
        self.node = Node("main", "node-1", home / "pods", home / "kubelet", home / "gangs")
        self.node.pod_logs.mkdir()
        self.directory = self.node.directory(POD)
        self.keeper = PodKeeper(self.node)

    def log(self) -> ContainerLog:
        return ContainerLog(self.node.pod_logs / POD.log_directory / "replica")

    def passes(self, seconds: float = 1.5) -> None:
        """A pass now, and one after so many seconds."""
        for _ in range(2):
            while self.keeper.make_pass(self.now, look=True):
                pass
            self.now += seconds / 2

    def restart(self) -> None:
        self.keeper.close()
        self.keeper = PodKeeper(self.node)

    def ship(self) -> None:
        (self.directory / "shipped.json").write_text("{}")

    def has(self, name: str) -> bool:
        return (self.directory / name).exists()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_pod_becomes_a_directory_as_the_local_engine_lays_it(machine: Machine):
    machine.keeper.tell(Listed((RUNS, None)))
    machine.log().write(b"hello\n")
    machine.passes()
    manifest = parse_manifest((machine.directory / "ship.json").read_text())
    assert (manifest.replica, manifest.node, manifest.log) == (POD.replica, node_id("main", "node-1"), "log")
    assert (machine.directory / "log").read_bytes() == b"hello\n"
    assert not machine.has("exit.json")


def test_a_log_is_complete_once_the_container_has_ended_and_nothing_more_came(machine: Machine):
    machine.keeper.tell(Listed((RUNS,)))
    log = machine.log()
    log.write(b"one\n")
    machine.passes()
    machine.keeper.tell(Changed(ENDED))
    machine.passes(QUIET_S / 4)
    log.write(b"late\n")
    machine.passes(QUIET_S / 4)
    assert not machine.has("exit.json")
    machine.passes(2 * QUIET_S)
    machine.passes()
    assert machine.has("exit.json")
    assert (machine.directory / "log").read_bytes() == b"one\nlate\n"


def test_a_pod_that_never_ran_is_shipped_as_an_empty_log(machine: Machine):
    machine.keeper.tell(Listed((POD,)))
    machine.passes()
    assert not machine.has("ship.json")
    machine.keeper.tell(Gone(replace(POD, has_ended=True)))
    machine.passes(2 * QUIET_S)
    assert machine.has("ship.json")
    assert machine.has("exit.json")


def test_a_deleted_pod_that_nothing_was_told_of_may_still_write_for_its_grace(machine: Machine):
    machine.keeper.tell(Listed((RUNS,)))
    log = machine.log()
    log.write(b"one\n")
    machine.passes()
    machine.keeper.tell(Gone(RUNS))
    machine.passes(GONE_QUIET_S / 2)
    log.write(b"saved\n")
    machine.passes(GONE_QUIET_S / 2)
    assert not machine.has("exit.json")
    log.remove()
    machine.passes(2 * QUIET_S)
    assert machine.has("exit.json")
    assert (machine.directory / "log").read_bytes() == b"one\nsaved\n"


def test_a_directory_stays_until_it_is_shipped_and_its_pod_is_gone(machine: Machine):
    machine.keeper.tell(Listed((ENDED,)))
    machine.log().write(b"one\n")
    machine.passes(2 * QUIET_S)
    machine.ship()
    machine.passes()
    assert machine.has("log")
    machine.keeper.tell(Gone(ENDED))
    machine.passes()
    assert not machine.node.gangs.exists() or not list(machine.node.gangs.iterdir())


def test_what_an_earlier_life_laid_goes_on_and_pods_that_went_meanwhile_are_gone(machine: Machine):
    machine.keeper.tell(Listed((RUNS,)))
    log = machine.log()
    log.write(b"one\n")
    machine.passes()
    machine.restart()
    log.write(b"two\n")
    machine.passes()
    assert (machine.directory / "log").read_bytes() == b"one\ntwo\n"
    machine.keeper.tell(Listed(()))
    log.remove()
    machine.passes(2 * QUIET_S)
    assert machine.has("exit.json")


def test_event_files_are_waited_for_a_moment_and_the_log_is_shipped_without_them(machine: Machine):
    wanted = VolumePath("runs", "emptyDir", "")
    machine.keeper.tell(Listed((replace(RUNS, event_files=wanted),)))
    machine.log().write(b"one\n")
    machine.passes(FINDING_S / 2)
    assert not machine.has("ship.json")
    machine.passes(2 * FINDING_S)
    assert json.loads((machine.directory / "ship.json").read_text())["tensorboard"] is None


@pytest.mark.parametrize(("field", "key"), [("event_files", "tensorboard"), ("checkpoints", "checkpoints")])
def test_where_an_attempt_writes_is_known_after_a_restart_before_any_pod_is_listed(
    machine: Machine, field: str, key: str
):
    machine.keeper.tell(Listed((replace(POD, **{field: VolumePath("runs", "emptyDir", "deep")}),)))
    machine.passes()
    machine.restart()
    volume = machine.node.kubelet / "pods" / POD.uid / "volumes/kubernetes.io~empty-dir/runs"
    volume.mkdir(parents=True)
    machine.log().write(b"one\n")
    machine.passes()
    told = json.loads((machine.directory / "ship.json").read_text())
    assert (told[key], told[f"{key}_root"]) == (str(volume / "deep"), str(volume))


def test_a_pod_that_came_again_under_its_name_leaves_the_log_of_the_first(
    machine: Machine, caplog: pytest.LogCaptureFixture
):
    machine.keeper.tell(Listed((ENDED,)))
    machine.log().write(b"one\n")
    machine.passes(2 * QUIET_S)
    for _ in range(2):
        machine.keeper.tell(Changed(replace(RUNS, uid="u-2")))
    machine.passes()
    assert (machine.directory / "log").read_bytes() == b"one\n"
    assert caplog.text.count("came again as u-2") == 1


def test_a_log_that_cannot_be_written_rests_and_others_go_on(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    other = replace(RUNS, uid="u-2", name="other", replica=ReplicaRef("tj-b", 1, "worker", 0))
    machine.keeper.tell(Listed((RUNS, other)))
    machine.passes()
    log = machine.log()
    log.write(b"one\n")
    second = ContainerLog(machine.node.pod_logs / other.log_directory / "replica")
    second.write(b"two\n")
    with monkeypatch.context() as patched:
        patched.setattr("services.agent.kubernetes.relay.decode", _fails_for(b"one"))
        machine.passes(FAILED_PAUSE_S / 2)
    assert (machine.node.directory(other) / "log").read_bytes() == b"two\n"
    machine.now += 2 * FAILED_PAUSE_S
    machine.passes()
    assert (machine.directory / "log").read_bytes() == b"one\n"


def _fails_for(text: bytes):
    from services.agent.kubernetes.cri import decode

    def decode_or_fail(entries: bytes) -> bytes:
        if text in entries:
            raise OSError(28, "No space left on device")
        return decode(entries)

    return decode_or_fail


def test_a_keeper_that_is_closed_touches_nothing_any_more(machine: Machine):
    machine.keeper.tell(Listed((RUNS,)))
    machine.passes()
    machine.keeper.close()
    machine.log().write(b"one\n")
    assert not machine.keeper.make_pass(machine.now, look=True)
    assert (machine.directory / "log").read_bytes() == b""


async def test_a_gang_is_shipped_when_all_of_its_replicas_here_are(machine: Machine):
    async def asked() -> Shipped:
        verb = ShippedVerb(machine.node.gangs, lambda: "" if machine.keeper.is_current else "not known yet")
        return decode_shipped(await verb.answer(encode_shipped_request("tj-a-1")))

    assert (await asked()).waits_for == ("not known yet",)
    machine.keeper.tell(Unreachable("away"))
    machine.keeper.tell(Listed((RUNS,)))
    machine.passes()
    assert (await asked()).waits_for == ("worker-0",)
    machine.ship()
    assert (await asked()).is_all
