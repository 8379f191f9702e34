"""The whole procedure, with agents that measure as a test wants: what it finds, what it asks, what it leaves behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from services.diagnoser.asking import Subject
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.examination import Examination
from services.diagnoser.domain.facts import Floors
from services.diagnoser.domain.injection import NoSuchDeviceError, read_injections
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.stages import Profile
from services.diagnoser.procedure import NotWantedError, Procedure
from shared.agent_facts import Complaint, Gpu
from shared.clock import ManualClock
from shared.diagnosis_wire import DeviceResult, TestAnswer, TestRequest
from shared.events import Event, NodeSuspected
from shared.jobs import Recorded
from tests.support.ledgers import NOW, remember
from tests.support.probes import answer_of, measurement

FOUR = ("n-1", "n-2", "n-3", "n-4")
OTHERS = ("n-5", "n-6", "n-7", "n-8")
# Tests that a node makes by itself.
ALONE = frozenset({"compute", "memory", "hostDevice", "local", "link"})


@dataclass
class Cluster:
    """Machines whose figures vary by `noise`; a node is a machine of its own."""

    noise: float = 0.01
    seed: int = 1
    silent: frozenset[str] = frozenset()
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tests: list[TestRequest] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    pairs: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311  # noise, no secret

    def noisy(self, value: float) -> float:
        return value * max(self._dice.gauss(1, self.noise), 0.1)

    async def probe(self, machine: str, nodes: Sequence[str], _places: Mapping[str, bool]) -> dict[str, Reading]:
        self.probes.append(machine)
        devices = {"cpu-0": self.noisy(90.0), "cpu-1": self.noisy(90.0)}
        measured = measurement(kind="EPYC", device_ms=devices, **self.changes.get(machine, {}))
        return {node: Reading(measured, 1_000_000, 1_000_000) for node in nodes if node not in self.silent}

    async def test(self, _machine: str, request: TestRequest) -> TestAnswer:
        self.tests.append(request)
        answer = answer_of(request)
        devices = {name: replace(each, figures=self.vary(each.figures)) for name, each in answer.devices.items()}
        figures = self.pair(request) if request.test == "exchange" else self.vary(answer.figures)
        return replace(answer, figures=figures, devices=devices)

    def vary(self, figures: Mapping[str, float]) -> dict[str, float]:
        return {name: self.noisy(value) for name, value in figures.items()}

    def pair(self, request: TestRequest) -> dict[str, float]:
        """Both nodes of a pair tell of the same test."""
        if request.round not in self.pairs:
            self.pairs[request.round] = self.vary(answer_of(request).figures)
        return self.pairs[request.round]

    async def cancel(self, machine: str, _session: str) -> None:
        self.cancelled.append(machine)


async def wanted() -> bool:
    return True


async def examined(
    cluster: Cluster, nodes: tuple[str, ...] = FOUR, *inject: str, book: Book | None = None, **more: Any
) -> Examination:
    faults = read_injections(inject, {node: node for node in nodes})
    subject = Subject("dg-1", nodes, {node: node for node in nodes}, injections=faults, **more)
    dice = random.Random(3)  # noqa: S311  # a flaky node, no secret
    procedure = Procedure(cluster, book or Book(), Floors(), ManualClock(NOW), dice.random)
    return await procedure.run(subject, wanted)


def verdicts(examination: Examination, nodes: tuple[str, ...] = FOUR) -> dict[str, str | None]:
    return {node: examination.finding(node).verdict for node in nodes}


def told(examination: Examination, node: str) -> str:
    finding = examination.finding(node)
    return "; ".join((*finding.problems, *finding.doubts))


async def test_sound_nodes_are_green_and_the_search_is_short() -> None:
    cluster = Cluster()
    examination = await examined(cluster)
    assert set(verdicts(examination).values()) == {"green"}
    assert len(examination.search.rounds) == 2
    assert cluster.probes == list(FOUR)


@pytest.mark.parametrize(
    ("fault", "node", "verdict", "words"),
    [
        ("slow-device:n-2:cpu-1:0.85", "n-2", "red", "cpu-1: multiplication is"),
        ("corrupt-gemm:n-3:cpu-0", "n-3", "red", "CPU 0 computed wrong: checksum 48167b6d"),
        ("missing-device:n-1:cpu-1", "n-1", "red", "CPU 1 did not finish"),
        ("read-only:n-4:/mnt/data", "n-4", "amber", "/mnt/data cannot be written"),
        ("clock-skew:n-2:2", "n-2", "amber", "its clock is off by 2.0 s"),
        ("clock-skew:n-2:-2", "n-2", "amber", "its clock is off by 2.0 s"),
        ("flaky:n-3:1", "n-3", "red", "the exchange failed"),
        ("silent:n-3", "n-3", "amber", "its agent gave no measurement in time"),
        ("full-disk:n-1", "n-1", "amber", "0B on the platform's disk are free"),
        ("unreachable:n-2:/mnt/x", "n-2", "amber", "/mnt/x cannot be read"),
        ("wrong-collective:n-4", "n-4", "amber", "the whole gang: the result of the all-reduce is wrong"),
    ],
)
async def test_a_pretended_fault_is_found_and_named_and_nobody_else_is_blamed(
    fault: str, node: str, verdict: str, words: str
) -> None:
    examination = await examined(Cluster(), FOUR, fault)
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {node: verdict}
    assert words in told(examination, node)


async def test_pretended_faults_that_no_test_has_met_are_told() -> None:
    others_out = [f"silent:{node}" for node in FOUR[1:]]
    alone = await examined(
        Cluster(), FOUR, "wrong-collective:n-1", "flaky:n-1:1", "slow-link:n-1-n-2:0.5", "clock-skew:n-1:9", *others_out
    )
    assert alone.about("n-1")["unmet"] == "wrong-collective:n-1, flaky:n-1:1, slow-link:n-1-n-2:0.5"
    met = await examined(Cluster(), FOUR, "wrong-collective:n-1", "slow-link:n-1-n-2:0.5", "slow-memory:n-1:cpu-0:0.9")
    assert "unmet" not in met.about("n-1")


async def test_a_damaged_link_is_told_from_its_nodes() -> None:
    examination = await examined(Cluster(), FOUR, "damaged-link:n-1-n-3")
    (pair,) = (each for each in examination.pairs("n-1") if each.second == "n-3")
    assert (pair.verdict, pair.why) == ("red", "a block was damaged on the way")
    assert not [node for node in FOUR if examination.finding(node).problems]


async def test_a_fault_of_a_device_that_is_not_there_is_refused_before_anything_is_tested() -> None:
    cluster = Cluster()
    with pytest.raises(NoSuchDeviceError, match="no device 'cpu-9'; it has cpu-0, cpu-1"):
        await examined(cluster, FOUR, "slow-device:n-1:cpu-9:0.5")
    assert {request.test for request in cluster.tests} == {"begin"}


async def test_a_pair_has_what_its_bandwidth_was_judged_by() -> None:
    examination = await examined(Cluster(), tuple(f"n-{number}" for number in range(8)))
    (pair, *_) = examination.pairs("n-0")
    assert pair.median_mb_s == pytest.approx(1000, rel=0.05)
    assert pair.percentile is not None
    assert pair.against.endswith("others of this run")
    assert pair.floor_mb_s is None


async def test_the_report_has_every_fact_of_a_node_and_none_of_a_silent_one() -> None:
    examination = await examined(Cluster(silent=frozenset({"n-2"})))
    assert {"room on the disk", "open files", "clock off by"} <= {fact.name for fact in examination.facts("n-1")}
    assert examination.facts("n-2") == ()


@pytest.mark.parametrize("count", [4, 8])
async def test_a_link_at_sixty_percent_of_its_peers_is_found_and_its_nodes_are_not_bad(count: int) -> None:
    nodes = tuple(f"n-{number}" for number in range(count))
    clean = await examined(Cluster(), nodes)
    pair = clean.search.rounds[0][0].pair
    examination = await examined(Cluster(), nodes, f"slow-link:{pair.first}-{pair.second}:0.6")
    link = next(each for each in examination.pairs(pair.first) if each.second == pair.second)
    assert link.verdict == "red"
    assert "pair bandwidth is" in link.why
    assert f"the link to {pair.second} is red" in told(examination, pair.first)
    assert not [node for node in nodes if examination.finding(node).problems]


@pytest.mark.parametrize("gang", [1, 2, 3])
async def test_a_slow_device_in_a_small_gang_is_found_by_what_the_fleet_gave(gang: int) -> None:
    book = Book()
    remember(book, await examined(Cluster(seed=9)), FOUR)
    nodes = ("n-7", "n-8", "n-9")[:gang]
    examination = await examined(Cluster(), nodes, "slow-device:n-7:cpu-0:0.85", book=book)
    assert verdicts(examination, nodes) == dict.fromkeys(nodes, "green") | {"n-7": "red"}


async def test_on_noisy_machines_without_a_fault_nothing_is_red_in_fifty_runs() -> None:
    book = Book()
    for seed in range(50):
        examination = await examined(Cluster(noise=0.06, seed=seed), book=book, thorough=True)
        assert "red" not in verdicts(examination).values()
        remember(book, examination, FOUR)


async def test_a_problem_that_is_gone_at_the_second_look_is_a_doubt() -> None:
    class Recovering(Cluster):
        async def probe(self, machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
            first = machine not in self.probes
            self.changes = {"n-2": {"disk_free_bytes": 0}} if first else {}
            return await super().probe(machine, nodes, places)

    finding = (await examined(Recovering())).finding("n-2")
    assert (finding.verdict, finding.problems) == ("amber", ())
    assert "on the platform's disk are free" in finding.doubts[0]


@pytest.mark.parametrize(("slow_looks", "verdict"), [(1, "green"), (2, "red")])
async def test_a_cpu_that_was_slow_in_one_look_alone_is_no_doubt(slow_looks: int, verdict: str) -> None:
    class Slow(Cluster):
        async def probe(self, machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
            is_slow = machine == "n-2" and self.probes.count("n-2") < slow_looks
            found = await super().probe(machine, nodes, places)
            times = {"cpu-0": 150.0, "cpu-1": 90.0}
            slow = {node: replace(each.measurement, device_ms=times) for node, each in found.items()}
            return {node: replace(found[node], measurement=slow[node]) for node in found} if is_slow else found

    cluster = Slow()
    assert verdicts(await examined(cluster)) == dict.fromkeys(FOUR, "green") | {"n-2": verdict}
    assert cluster.probes.count("n-2") == 2


@pytest.mark.parametrize(("slow_looks", "verdict"), [(2, "green"), (99, "amber")])
async def test_a_cpu_that_multiplies_slowly_in_some_looks_alone_is_no_doubt(slow_looks: int, verdict: str) -> None:
    class Shared(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            answer = await super().test(machine, request)
            times = sum(1 for each in self.tests if (each.node, each.test) == ("n-2", "compute"))
            if (request.node, request.test) != ("n-2", "compute") or times > slow_looks:
                return answer
            slow = {name: value / 2 for name, value in answer.devices["cpu-0"].figures.items()}
            devices = {**answer.devices, "cpu-0": replace(answer.devices["cpu-0"], figures=slow)}
            return replace(answer, devices=devices)

    assert verdicts(await examined(Shared())) == dict.fromkeys(FOUR, "green") | {"n-2": verdict}


@dataclass
class Endless(Cluster):
    """The time is up in the middle of one test."""

    within: str = ""

    async def test(self, machine: str, request: TestRequest) -> TestAnswer:
        if request.test == self.within:
            raise TimeoutError
        return await super().test(machine, request)


async def test_where_the_time_is_up_the_report_says_so_and_no_gang_has_passed() -> None:
    examination = await examined(Endless(within="exchange"))
    assert examination.about("n-1")["limit"] == "their time, 80 s, was up"
    assert (examination.was_tested("n-1"), examination.gang) == (True, "")


async def test_nodes_whose_own_tests_were_not_all_made_in_time_have_no_pass() -> None:
    examination = await examined(Endless(within="memory"))
    assert examination.about("n-1")["excuse"] == "tests were broken off: their time, 80 s, was up"
    assert (examination.was_tested("n-1"), examination.stages("n-1")) == (False, ())


async def test_a_silent_node_fails_and_the_others_are_tested_without_it() -> None:
    cluster = Cluster(silent=frozenset({"n-1"}))
    examination = await examined(cluster)
    assert examination.finding("n-1").problems == ("its agent gave no measurement in time",)
    assert "n-1" not in {request.node for request in cluster.tests if request.test != "begin"}
    assert verdicts(examination)["n-2"] == "green"


async def test_nodes_with_a_valid_pass_are_only_looked_at() -> None:
    book, cluster = Book(), Cluster()
    remember(book, await examined(Cluster()), FOUR)
    examination = await examined(cluster, book=book)
    assert cluster.tests == []
    assert not examination.was_tested("n-1")
    assert set(verdicts(examination).values()) == {"green"}


async def test_of_a_gang_with_one_new_node_few_others_are_tested_again() -> None:
    book, cluster = Book(), Cluster()
    nodes = tuple(f"n-{number}" for number in range(12))
    remember(book, await examined(Cluster(), nodes), nodes)
    examination = await examined(cluster, (*nodes, "new"), book=book)
    assert [node for node in (*nodes, "new") if examination.was_tested(node)] == ["new"]
    assert {request.node for request in cluster.tests if request.test in ALONE} == {"new"}
    assert len({node for test in examination.search.tests for node in test.pair.nodes}) == 3
    assert {request.node for request in cluster.tests if request.test == "gang"} == {*nodes, "new"}


async def test_sound_nodes_that_never_met_have_their_links_and_their_gang_tested_and_nothing_else() -> None:
    book, cluster = Book(), Cluster()
    for nodes in (FOUR, OTHERS):
        remember(book, await examined(Cluster(), nodes), nodes)
    mixed = (*FOUR[:2], *OTHERS[:2])
    examination = await examined(cluster, mixed, book=book)
    assert not [request for request in cluster.tests if request.test in ALONE]
    across = {Pair.of(one, other) for one in mixed[:2] for other in mixed[2:]}
    assert {test.pair for test in examination.search.tests} == across
    assert {request.node for request in cluster.tests if request.test == "gang"} == set(mixed)
    remember(book, examination, mixed)
    again = Cluster()
    await examined(again, mixed, book=book)
    assert again.tests == []


async def test_a_bad_node_among_sound_ones_that_never_met_is_found() -> None:
    book = Book()
    for nodes in (FOUR, OTHERS):
        remember(book, await examined(Cluster(), nodes), nodes)
    mixed = (*FOUR, *OTHERS)
    examination = await examined(Cluster(), mixed, "flaky:n-3:1", book=book)
    assert verdicts(examination, mixed) == dict.fromkeys(mixed, "green") | {"n-3": "red"}


async def test_a_gang_in_which_somebody_failed_has_not_met() -> None:
    book, cluster = Book(), Cluster()
    remember(book, await examined(Cluster(), FOUR, "wrong-collective:n-4"), FOUR)
    await examined(cluster, FOUR[:3], book=book)
    assert {request.node for request in cluster.tests if request.test == "gang"} == set(FOUR[:3])
    assert not [request for request in cluster.tests if request.test in ALONE]


async def test_what_was_heard_of_a_node_voids_its_links_and_gangs() -> None:
    book, cluster = Book(), Cluster()
    remember(book, await examined(Cluster()), FOUR)
    failed = NodeSuspected(cluster="main", node="n-1", job="tj-a", attempt=1, rule="xid-79")
    book.take(Recorded(1, "tm.node.main.n-1.x", Event.of(failed, job="n-1", attempt=0, time=NOW, owner="", project="")))
    examination = await examined(cluster, book=book)
    assert [node for node in FOUR if examination.was_tested(node)] == ["n-1"]
    assert {test.pair for test in examination.search.tests} >= {Pair.of("n-1", other) for other in FOUR[1:3]}
    assert "gang" in {request.test for request in cluster.tests}


async def test_nodes_that_others_work_on_are_not_put_under_load() -> None:
    cluster = Cluster()
    await examined(cluster, in_use=frozenset({"n-1", "n-2"}))
    assert {request.node for request in cluster.tests} == {"n-3", "n-4"}


async def test_a_node_that_others_work_on_is_told_as_untested_unless_its_pass_holds() -> None:
    book = Book()
    remember(book, await examined(Cluster(), FOUR[:1]), FOUR[:1])
    examination = await examined(Cluster(), in_use=frozenset({"n-1", "n-2"}), book=book)
    untested = {node: examination.finding(node).untested for node in FOUR}
    assert untested == dict.fromkeys(FOUR, "") | {"n-2": "a job was on it already"}


async def test_workers_are_ended_also_where_nobody_waits_any_more() -> None:
    cluster, asked = Cluster(), iter([True, False])

    async def still_wanted() -> bool:
        return next(asked)

    subject = Subject("dg-1", FOUR, {node: node for node in FOUR})
    with pytest.raises(NotWantedError):
        await Procedure(cluster, Book(), Floors(), ManualClock(NOW), lambda: 1.0).run(subject, still_wanted)
    assert cluster.cancelled == list(FOUR)


async def test_a_wrong_all_reduce_is_a_doubt_of_its_nodes() -> None:
    class Wrong(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            if request.test == "gang" and request.node == "n-2":
                return TestAnswer(problem="the all-reduce gave a wrong result")
            return await super().test(machine, request)

    examination = await examined(Wrong())
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-2": "amber"}


async def test_a_worker_that_does_not_listen_makes_its_node_red() -> None:
    class Deaf(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            if request.test == "exchange" and "n-2" in {peer.node for peer in request.peers}:
                return TestAnswer(problem="connection refused")
            return await super().test(machine, request)

    examination = await examined(Deaf())
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-2": "red"}
    assert "connection refused" in told(examination, "n-2")


async def test_a_suspect_is_probed_several_times_and_two_failures_of_a_device_are_enough() -> None:
    class Fickle(Cluster):
        async def probe(self, machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
            shows = self.probes.count("n-2") in {2, 4}
            self.changes = {"n-2": {"checksums": {"00000bad": (0, 1)}}} if shows else {}
            return await super().probe(machine, nodes, places)

    book, cluster = Book(), Fickle()
    event = Event.of(
        NodeSuspected(cluster="main", node="n-2", job="tj-a", attempt=1, rule="xid-79"),
        job="n-2",
        attempt=0,
        time=NOW,
        owner="",
        project="",
    )
    book.take(Recorded(1, "tm.node.main.n-2.suspected", event))
    examination = await examined(cluster, book=book)
    assert cluster.probes == [*FOUR, "n-2", "n-2", "n-2", "n-2"]
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-2": "red"}


async def test_other_nodes_are_called_by_their_names() -> None:
    names = {node: f"vm-{node}" for node in FOUR}
    examination = await examined(Cluster(), FOUR, "flaky:n-3:1", names=names)
    assert "tests with vm-n-1, vm-n-2, vm-n-4 failed" in told(examination, "n-3")


# --- GPUs, profiles, the whole gang ----------------------------------------------------------------------------------

GPUS = ("GPU-a", "GPU-b")
LEAVES = {"n-1": "leaf-1", "n-2": "leaf-1", "n-3": "leaf-2", "n-4": "leaf-2"}


def with_gpus(**more: Any) -> tuple[Cluster, dict[str, Any]]:
    """A cluster whose nodes have two GPUs each, and the devices as a subject has them."""
    listed = {"gpus": tuple(Gpu(gpu, "NVIDIA H200") for gpu in GPUS)}
    return Cluster(changes=dict.fromkeys(FOUR, listed), **more), {"devices": dict.fromkeys(FOUR, GPUS)}


async def test_gpus_are_tested_by_the_same_procedure_and_more_of_them() -> None:
    cluster, devices = with_gpus()
    examination = await examined(cluster, **devices)
    assert set(verdicts(examination).values()) == {"green"}
    made = [request.test for request in cluster.tests if request.node == "n-1" and request.test != "serve"]
    alone = ["begin", "compute", "memory", "hostDevice", "local", "link"]
    assert made[: len(alone)] == alone
    assert set(made[len(alone) :]) == {"exchange", "gang"}
    together = [request for request in cluster.tests if request.test in {"exchange", "gang"}]
    assert {(request.transport, request.ranks_each) for request in together} == {("nccl", 2)}
    assert {request.devices for request in cluster.tests} == {GPUS}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("slow-device:n-2:GPU-b:0.85", "GPU-b: bf16 multiplication is"),
        (
            "corrupt-gemm:n-2:GPU-a",
            "GPU-a: it computed wrong: bf16 exact 512 has checksum 9dcabc53 instead of 9dcabc52",
        ),
        ("missing-device:n-2:GPU-b", "the driver does not list GPU-b"),
    ],
)
async def test_a_fault_of_one_gpu_is_found_and_named(fault: str, words: str) -> None:
    cluster, devices = with_gpus()
    examination = await examined(cluster, FOUR, fault, **devices)
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-2": "red"}
    assert words in told(examination, "n-2")


def on_kubernetes(*withheld: Gpu, **more: Any) -> tuple[Cluster, dict[str, Any]]:
    """A cluster whose kubelets give two GPUs, and what a placement knows of them."""
    free = {gpu: Gpu(gpu, "NVIDIA H200") for gpu in GPUS} | {gpu.id: gpu for gpu in withheld}
    listed = {"kubelet_gives": True, "gpus": tuple(free.values()), **more}
    return Cluster(changes=dict.fromkeys(FOUR, listed)), {"devices": dict.fromkeys(FOUR, ("gpu-0", "gpu-1"))}


async def test_where_the_kubelet_gives_gpus_all_that_are_free_are_tested() -> None:
    cluster, devices = on_kubernetes(Gpu("GPU-c", "NVIDIA H200", given_to="pod ns/x has it"))
    examination = await examined(cluster, **devices)
    assert set(verdicts(examination).values()) == {"green"}
    assert {request.devices for request in cluster.tests} == {GPUS}
    assert examination.about("n-1")["gpus"] == "GPU-c: pod ns/x has it"
    assert {stage.partition("/")[2] for stage in examination.stages("n-1")} == set(GPUS)


async def test_what_others_use_is_a_doubt_and_not_touched() -> None:
    cluster, devices = on_kubernetes(Gpu("GPU-b", "NVIDIA H200", used_by="processes use it: 7"))
    examination = await examined(cluster, **devices)
    assert told(examination, "n-1") == "GPU-b was given to no pod, and processes use it: 7"
    assert verdicts(examination) == dict.fromkeys(FOUR, "amber")
    assert {request.devices for request in cluster.tests} == {("GPU-a",)}


async def test_a_pass_of_all_gpus_of_a_node_holds_for_whatever_of_them_a_job_gets() -> None:
    cluster, devices = on_kubernetes()
    book = Book()
    remember(book, await examined(cluster, **devices), FOUR)
    again, devices = on_kubernetes()
    await examined(again, book=book, **devices)
    assert again.tests == []


async def test_gpus_that_the_agent_does_not_see_are_no_fault_of_the_node_and_its_cpus_are_tested() -> None:
    cluster, devices = on_kubernetes(gpus_unseen="agent.gpus.enabled")
    cluster.changes = {node: {**each, "gpus": ()} for node, each in cluster.changes.items()}
    examination = await examined(cluster, **devices)
    assert set(verdicts(examination).values()) == {"green"}
    assert examination.about("n-1")["gpus"] == "agent.gpus.enabled"
    assert {request.devices for request in cluster.tests} == {()}


async def test_fewer_gpus_than_the_node_offers_make_it_red() -> None:
    cluster, devices = on_kubernetes()
    cluster.changes = {**cluster.changes, "n-2": {"kubelet_gives": True, "gpus": (Gpu("GPU-a", "NVIDIA H200"),)}}
    examination = await examined(cluster, **devices)
    assert verdicts(examination)["n-2"] == "red"
    assert told(examination, "n-2") == "the driver lists 1 GPUs where there are to be 2"


@pytest.mark.parametrize("test", ["begin", "compute", "local", "link", "serve", "exchange", "gang"])
async def test_a_node_with_an_excuse_is_left_out_and_neither_it_nor_its_partners_are_blamed(test: str) -> None:
    class Interrupted(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            if request.node == "n-2" and (test == request.test or any(self.ended)):
                self.ended.append(True)
            if self.ended and "n-2" in {request.node, *(peer.node for peer in request.peers)}:
                is_own = request.node == "n-2"
                return TestAnswer(excuse="a pod came") if is_own else TestAnswer(problem="n-2 went away")
            return await super().test(machine, request)

    cluster, devices = on_kubernetes()
    interrupted = Interrupted(changes=cluster.changes)
    interrupted.ended = []
    examination = await examined(interrupted, **devices)
    assert set(verdicts(examination).values()) == {"green"}
    assert examination.about("n-2")["excuse"] == "a pod came"
    assert examination.finding("n-2").untested == "its tests were broken off: a pod came"
    assert [node for node in FOUR if examination.was_tested(node)] == ["n-1", "n-3", "n-4"]
    assert examination.stages("n-2") == ()
    assert "n-2" in interrupted.cancelled or test == "begin"


async def test_an_uneven_rail_fails_the_pair() -> None:
    class Uneven(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            answer = await super().test(machine, request)
            uneven = request.test == "exchange" and "n-3" in {peer.node for peer in request.peers}
            return replace(answer, rails=(500.0, 250.0, 500.0)) if uneven else answer

    examination = await examined(Uneven())
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-3": "red"}
    assert "rail 1 has 250 MB/s" in told(examination, "n-3")


async def test_stages_that_the_profile_leaves_out_are_not_made() -> None:
    cluster = Cluster(changes={"n-1": {"disk_free_bytes": 0}})
    off = Profile(off=frozenset({"facts", "compute", "devices", "gang"}))
    examination = await examined(cluster, profiles=dict.fromkeys(FOUR, off))
    assert {request.test for request in cluster.tests} == {"begin", "memory", "serve", "exchange"}
    assert set(verdicts(examination).values()) == {"green"}


async def test_tests_measure_as_long_as_the_profile_says_and_those_of_several_nodes_as_the_longest() -> None:
    cluster = Cluster()
    profiles = {"n-1": Profile(seconds={"memory": 2.0, "pairs": 3.0}), "n-2": Profile(seconds={"pairs": 4.0})}
    await examined(cluster, FOUR[:2], profiles=profiles)
    times = {(request.node, request.test): request.work_s for request in cluster.tests}
    assert (times["n-1", "memory"], times["n-2", "memory"]) == (2.0, 0.15)
    assert (times["n-1", "exchange"], times["n-2", "exchange"]) == (4.0, 4.0)


async def test_a_floor_of_the_profile_is_found_where_all_nodes_are_alike_slow() -> None:
    cluster, devices = with_gpus()
    floors = Profile(floors={"memoryGbS": 12.0})
    examination = await examined(cluster, profiles=dict.fromkeys(FOUR, floors), **devices)
    assert set(verdicts(examination).values()) == {"red"}
    assert "at least 12 GB/s are needed" in told(examination, "n-1")


async def test_collectives_that_are_slow_are_followed_to_the_leaf_that_makes_them_so() -> None:
    class SlowLeaf(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            answer = await super().test(machine, request)
            nodes = {peer.node for peer in request.peers}
            slow = request.test == "gang" and {"n-3", "n-4"} <= nodes
            return replace(answer, figures={"allReduceMbS": 100.0, "allToAllMbS": 400.0}) if slow else answer

    floors = Profile(floors={"allReduceMbS": 300.0})
    examination = await examined(SlowLeaf(), profiles=dict.fromkeys(FOUR, floors), leaves=LEAVES)
    assert verdicts(examination) == {"n-1": "green", "n-2": "green", "n-3": "amber", "n-4": "amber"}
    assert "collectives are slow among leaf leaf-2" in told(examination, "n-3")


async def test_without_leaves_slow_collectives_are_told_and_nobody_is_blamed() -> None:
    floors = Profile(floors={"allReduceMbS": 3000.0})
    examination = await examined(Cluster(), profiles=dict.fromkeys(FOUR, floors))
    assert set(verdicts(examination).values()) == {"green"}
    figure = next(each for each in examination.all_figures("n-1") if each.name.startswith("all-reduce of 4 nodes"))
    assert "at least 3000 MB/s are needed" in figure.why


async def test_deep_tests_are_made_on_request_and_what_fails_in_them_is_a_problem_at_once() -> None:
    class Deep(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            if request.test != "deep":
                return await super().test(machine, request)
            self.tests.append(request)
            failed = DeviceResult(problem="DCGM: GPU Memory failed")
            return TestAnswer(devices={"GPU-a": failed if request.node == "n-2" else DeviceResult()})

    made, devices = with_gpus()
    cluster = Deep(changes=made.changes)
    examination = await examined(cluster, deep=2, **devices)
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-2": "red"}
    assert {(request.level, request.limit_s) for request in cluster.tests if request.test == "deep"} == {(2, 900.0)}


async def test_nodes_of_which_one_has_no_pytorch_are_paired_over_tcp() -> None:
    class Plain(Cluster):
        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            if request.test == "begin" and request.node == "n-2":
                return TestAnswer(about={"transport": "tcp", "without": "no PyTorch"})
            return await super().test(machine, request)

    cluster = Plain()
    examination = await examined(cluster)
    pairs = {(pair.first, pair.second): pair.transport for node in FOUR for pair in examination.pairs(node)}
    assert {pair for pair, transport in pairs.items() if transport == "tcp"} == {
        pair for pair in pairs if "n-2" in pair
    }
    assert {request.test for request in cluster.tests if request.node == "n-2"} == {
        "memory",
        "serve",
        "exchange",
        "gang",
    }
    assert examination.about("n-2")["without"] == "no PyTorch"


XID = Complaint("xid", "0000:cb:00", 79, 60.0, "GPU has fallen off the bus.")
BUSY = Gpu("GPU-b", "NVIDIA H200", processes={"4711": "python"})


@pytest.mark.parametrize(
    ("facts", "verdict", "words"),
    [
        ({"complaints": (XID,)}, "red", "GPU-a gave Xid 79"),
        ({"gpus": (Gpu("GPU-a", "NVIDIA H200"), BUSY)}, "amber", "GPU-b is used by processes of somebody else"),
        ({"versions": {"driver": "550.54"}}, "amber", "its driver is 550.54, that of 3 others 570.86"),
    ],
)
async def test_facts_of_gpus_are_found_and_those_of_broken_devices_are_red(
    facts: dict[str, Any], verdict: str, words: str
) -> None:
    cluster, devices = with_gpus()
    placed = tuple(
        Gpu(gpu, "NVIDIA H200", bus=f"00000000:{bus}:00.0") for gpu, bus in zip(GPUS, ("cb", "cc"), strict=True)
    )
    usual = {"gpus": placed, "versions": {"driver": "570.86"}}
    cluster.changes = {**dict.fromkeys(FOUR, usual), "n-3": {**usual, **facts}}
    examination = await examined(cluster, **devices)
    assert verdicts(examination) == dict.fromkeys(FOUR, "green") | {"n-3": verdict}
    assert words in told(examination, "n-3")


async def test_on_nodes_that_others_work_on_their_processes_are_nothing_wrong() -> None:
    cluster, devices = with_gpus()
    cluster.changes = {node: {"gpus": (Gpu("GPU-a", "NVIDIA H200"), BUSY)} for node in FOUR}
    examination = await examined(cluster, in_use=frozenset(FOUR), **devices)
    assert set(verdicts(examination).values()) == {"green"}


async def test_tests_of_cpus_are_begun_while_facts_are_looked_at_and_those_of_gpus_after() -> None:
    order: list[str] = []

    class Ordered(Cluster):
        async def probe(self, machine: str, nodes: Sequence[str], places: Mapping[str, bool]) -> dict[str, Reading]:
            await asyncio.sleep(0)
            order.append("probe")
            return await super().probe(machine, nodes, places)

        async def test(self, machine: str, request: TestRequest) -> TestAnswer:
            order.append(request.test)
            return await super().test(machine, request)

    await examined(Ordered(), ("n-1",))
    cpus, order[:] = list(order), []
    made, devices = with_gpus()
    await examined(Ordered(changes=made.changes), ("n-1",), **devices)
    assert (cpus[:2], order[:2]) == (["begin", "probe"], ["probe", "begin"])


async def test_what_was_begun_is_ended_where_the_facts_forbid_the_tests() -> None:
    cluster = Cluster(changes={"n-1": {"disk_free_bytes": 0}})
    await examined(cluster, ("n-1",))
    assert [request.test for request in cluster.tests] == ["begin"]
    assert cluster.cancelled == ["n-1"]
