"""Synthetic failures of whole gangs: what each replica prints and when, what is true, and what the watchdog says.

A scenario is composed from the catalogue's own samples by a seeded generator: one original error in one replica; then,
at delays as they are seen in practice, lines of survivors (cascades, but also errors that would be originals had nobody
failed before: broken connections, collectives that time out); noise and harmless lines everywhere; clocks that are
wrong by up to an hour; chunks cut anywhere, that arrive late. The generator knows nothing of how causes are found, and
no rule or delay is left out because it is hard. `judge` runs a scenario through the watchdog's own code.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from services.watchdog.catalogue import built_in_rules, preset_rows
from services.watchdog.domain import torchrun
from services.watchdog.domain.clocks import Clocks
from services.watchdog.domain.found import Found, Sighting
from services.watchdog.domain.matching import Hit, Scan, take
from services.watchdog.domain.rootcause import Catalogue, root_cause
from services.watchdog.domain.rulebook import Rulebook
from services.watchdog.domain.rules import FailureClass, Rule
from shared import events as ev
from shared.jobs import Attempt
from shared.logs_wire import Chunk, FileRef, ReplicaRef
from tests.support.jobs import START, job_after

BEGIN_MS: Final = int(START.timestamp() * 1000)
BENIGN: Final = yaml.safe_load((Path(__file__).parent / "benign_lines.yaml").read_text())
ORIGINALS: Final = (FailureClass.INFRASTRUCTURE, FailureClass.NODE, FailureClass.USER, FailureClass.AMBIGUOUS)
# What survivors print though they are not at fault: delays in ms from the original error.
SECONDARY: Final = {
    "nccl-socket-reset": (5, 3_000),
    "nccl-remote-closed": (5, 3_000),
    "nccl-remote-error": (10, 5_000),
    "gloo-closed": (5, 3_000),
    "dist-backend-error": (10, 8_000),
    "nccl-unhandled-system": (10, 8_000),
    "nccl-watchdog-timeout": (600_000, 1_800_000),
    "pg-watchdog-terminated": (600_100, 1_800_100),
    "nccl-connect": (200, 30_000),
    "store-wait": (500, 60_000),
    "store-connect": (60_000, 300_000),
    "nccl-ib-completion": (4_000, 20_000),
    "exit-sigabrt": (600_200, 1_800_200),
    "child-failed": (1_000, 9_000),
    "sig-term": (10_000, 10_500),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a replica at a true time."""

    replica: int
    at_ms: int
    text: str


@dataclass(slots=True)
class Scenario:
    """What happens, and what is true of it; `replica` is None where no single one is at fault."""

    name: str
    failure_class: str
    replica: int | None
    replicas: int
    lines: list[Line] = field(default_factory=list)
    first_failure: int = 0
    exit: ev.ReplicaExit = field(default_factory=lambda: ev.ReplicaExit(code=1))
    reason: ev.EndReason = ev.EndReason.FAILED
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the watchdog says."""

    failure_class: str | None
    replica: int | None
    rule: str | None


class Watchdog:
    """The watchdog's own parts, wired without streams."""

    def __init__(self) -> None:
        self.rules = built_in_rules()
        presets = preset_rows()
        self.catalogue = Catalogue.of(self.rules, presets)
        self._book = Rulebook([*(rule.line_rule for rule in (*presets, *self.rules)), torchrun.HEADER])

    def judge(self, scenario: Scenario) -> Judgement:
        """The root cause of the scenario's attempt."""
        found = list(self._found(scenario))
        cause = root_cause(_attempt(scenario), found, self.catalogue)
        if cause is None:
            return Judgement(None, None, None)
        return Judgement(cause.failure_class, cause.replica.index if cause.replica else None, cause.rule)

    def _found(self, scenario: Scenario) -> Iterator[Found]:
        """Chunks are read in the order in which they arrive, as the one clock of the stream has it."""
        chance, clocks = random.Random(scenario.seed + 1), Clocks()  # noqa: S311  # a seeded generator
        arrivals = sorted(
            (each for index in range(scenario.replicas) for each in _shipped(scenario, index, chance)),
            key=lambda each: each[0],
        )
        scans = {index: Scan() for index in range(scenario.replicas)}
        seen: dict[tuple[int, str], tuple[Sighting, Sighting]] = {}
        for arrived_ms, index, chunk in arrivals:
            clocks.note(chunk.node, chunk.times[-1][1], arrived_ms)
            times = tuple((offset, clocks.corrected_ms(chunk.node, ms)) for offset, ms in chunk.times)
            taken = take(scans[index], replace(chunk, times=times), self._book)
            scans[index] = taken.scan
            for hit in taken.hits:
                _note(seen, index, hit, arrived_ms)
        for (index, rule), (first, last) in seen.items():
            ref = ev.ReplicaRef(role="worker", index=index)
            yield Found.of(rule, ref, first, last, scans[index].progress_at_ms)


def _note(seen: dict[tuple[int, str], tuple[Sighting, Sighting]], index: int, hit: Hit, arrived_ms: int) -> None:
    sighting = Sighting(hit.line, arrived_ms if hit.at_ms is None else hit.at_ms, hit.offset)
    first, _ = seen.get((index, hit.rule), (sighting, sighting))
    seen[index, hit.rule] = (first, sighting)


def _shipped(scenario: Scenario, index: int, chance: random.Random) -> Iterator[tuple[int, int, Chunk]]:
    """The replica's log as its agent ships it: chunks of a few lines, each some time after its last line."""
    skew_ms = chance.choice([0, *(chance.randint(-most, most) for most in (200, 5_000, 3_600_000))])
    file, node = FileRef(ReplicaRef("tj-corpus", 1, "worker", index)), f"n-{index}"
    lines = sorted((line for line in scenario.lines if line.replica == index), key=lambda line: line.at_ms)
    offset, arrived_ms = 0, 0
    while lines:
        count = chance.randint(1, 4)
        batch = [line for line in lines[:count] if line.at_ms - lines[0].at_ms < 200]
        lines = lines[len(batch) :]
        data, times = b"", []
        for line in batch:
            times.append((offset + len(data), line.at_ms + skew_ms))
            data += line.text.encode() + chance.choice([b"\n", b"\n", b"\r\n"])
        arrived_ms = max(arrived_ms, batch[-1].at_ms + chance.choice([20, 60, 150, 220, chance.randint(20, 8_000)]))
        yield arrived_ms, index, Chunk(file, offset, data, times=tuple(times), node=node)
        offset += len(data)
    yield arrived_ms + 100, index, Chunk(file, offset, times=((offset, arrived_ms + skew_ms),), node=node, end=offset)


def _attempt(scenario: Scenario) -> Attempt:
    names = tuple(f"n-{index}" for index in range(scenario.replicas))
    role = ev.RolePlacement(role="worker", pool="p", nodes=names, node_of=tuple(range(scenario.replicas)))
    first = ev.ReplicaRef(role="worker", index=scenario.first_failure)
    changes = tuple(
        ev.ReplicaChange(role="worker", index=index, state="exited", at=START, exit=_exit(scenario, index))
        for index in range(scenario.replicas)
    )
    end = ev.AttemptEnded(reason=scenario.reason, first_failure=first, exit=scenario.exit)
    placed = ev.Placed(cluster="main", roles=(role,))
    return job_after(placed, ev.Started(), ev.ReplicasChanged(changes=changes), end).attempt


def _exit(scenario: Scenario, index: int) -> ev.ReplicaExit:
    return scenario.exit if index == scenario.first_failure else ev.ReplicaExit(code=143, cause="stopped")


# --- scenarios -------------------------------------------------------------------------------------------------------


def scenarios(seed: int = 20) -> list[Scenario]:
    """All of them, the same for the same seed."""
    rules = built_in_rules()
    originals = [(rule, sample) for rule in rules if rule.failure_class in ORIGINALS for sample in rule.matches]
    numbered = enumerate(originals, start=seed * 10_000)
    composed = [_composed(rule, sample, number, rules) for number, (rule, sample) in numbered]
    return [*composed, *hand_made(seed)]


def _composed(rule: Rule, sample: str, seed: int, rules: Sequence[Rule]) -> Scenario:
    chance = random.Random(seed)  # noqa: S311  # a seeded generator
    replicas = chance.choice([2, 2, 3, 4, 8, 16])
    root = chance.randrange(replicas)
    scenario = Scenario(f"{rule.id}: {sample[:60]}", rule.failure_class, root, replicas, seed=seed)
    # Whose process ends first is no evidence: launchers differ in how long they take to die.
    scenario.first_failure = chance.choice([root, root, chance.randrange(replicas)])
    fatal_ms = BEGIN_MS + chance.randint(60_000, 4_000_000)
    scenario.lines += _noise(chance, replicas, BEGIN_MS, fatal_ms)
    if chance.random() < 0.25:
        scenario.lines += _survived(chance, rules, replicas, fatal_ms)
    scenario.lines.append(Line(root, fatal_ms, sample))
    scenario.lines += _aftermath(chance, rules, scenario, rule.id, fatal_ms)
    if chance.random() < 0.4:
        scenario.lines += _block(root, fatal_ms + chance.randint(500, 4_000))
    return scenario


def _noise(chance: random.Random, replicas: int, begin_ms: int, end_ms: int) -> Iterator[Line]:
    # The noise has steps of its own, and a log has one count of them.
    benign = [line for family, line in BENIGN.items() if family not in ("progress bar", "step", "checkpoint")]
    for index in range(replicas):
        for step in range(chance.randint(4, 20)):
            at_ms = begin_ms + (end_ms - begin_ms) * step // 20
            yield Line(index, at_ms, f"step {step * 10} loss {chance.random():.4f}")
            if chance.random() < 0.3:
                yield Line(index, at_ms + 40, chance.choice(benign))


def _survived(chance: random.Random, rules: Sequence[Rule], replicas: int, fatal_ms: int) -> Iterator[Line]:
    """An error that somebody printed and got over, a while before the fatal one."""
    overcome = chance.choice([rule for rule in rules if rule.id in ("hf-timeout", "s3", "dns", "ckpt-write", "estale")])
    index, at_ms = chance.randrange(replicas), fatal_ms - chance.randint(200_000, 3_000_000)
    yield Line(index, at_ms, chance.choice(overcome.matches))
    for step in range(5):
        yield Line(index, at_ms + (fatal_ms - at_ms) * (step + 1) // 6, f"step {1_000 + step} loss 1.0")


def _aftermath(
    chance: random.Random, rules: Sequence[Rule], scenario: Scenario, own: str, fatal_ms: int
) -> Iterator[Line]:
    """What others print because of it, and the failed replica itself on its way out."""
    known = {rule.id: rule for rule in rules}
    yield Line(scenario.replica or 0, fatal_ms + chance.randint(1, 30), "Traceback (most recent call last):")
    for index in range(scenario.replicas):
        for rule_id in chance.sample(sorted(SECONDARY), chance.randint(1, 4)):
            low, high = SECONDARY[rule_id]
            if rule_id != own and (index != scenario.replica or rule_id not in ("nccl-ib-completion", "sig-term")):
                yield Line(index, fatal_ms + chance.randint(low, high), chance.choice(known[rule_id].matches))


def _block(root: int, at_ms: int) -> Iterator[Line]:
    texts = (
        "Root Cause (first observed failure):", "[0]:", "  time      : 2024-03-01_12:00:00",
        f"  host      : tj-corpus-1-worker-{root}.tj-corpus-1", f"  rank      : {root} (local_rank: 0)",
        "  exitcode  : 1 (pid: 77)", "  error_file: <N/A>", "  traceback : To enable traceback see the documentation",
    )  # fmt: skip
    return (Line(root, at_ms + number, text) for number, text in enumerate(texts))


def hand_made(seed: int) -> Iterator[Scenario]:
    """Ends that no single line tells, and those that mislead."""
    t = BEGIN_MS + 1_000_000
    reset = "NCCL WARN socketProgressOpt: Call to recv from 10.0.0.1<44> failed : Connection reset by peer"
    closed = "NCCL WARN socketProgress: Connection closed by remote peer host<1>"
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    backend = "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, unhandled system error"
    killed = ev.ReplicaExit(signal=9)
    memory = ev.ReplicaExit(signal=9, out_of_memory=ev.OutOfMemory.CERTAIN)
    lost = ev.ReplicaExit(cause="lost", message="its node is gone")
    yield Scenario(
        "memory ran out, peers reset", "user", 1, 3, [Line(0, t, reset), Line(2, t + 9, closed)], 1, memory, seed=seed
    )
    yield Scenario(
        "a node was lost, peers reset", "infrastructure", 2, 3, [Line(0, t, reset), Line(1, t, backend)], 2, lost,
        ev.EndReason.PLATFORM, seed,
    )  # fmt: skip
    yield Scenario("killed without a word", "ambiguous", 1, 2, [Line(0, t, closed)], 1, killed, seed=seed)
    yield Scenario("no such command", "user", 0, 2, [], 0, ev.ReplicaExit(code=127), seed=seed)
    survivors = [Line(0, t, closed), Line(1, t + 50, backend)]
    yield Scenario("only survivors speak", "ambiguous", None, 3, survivors, seed=seed)
    yield Scenario(
        "a typo, then NCCL complains in the same replica", "user", 1, 2,
        [Line(1, t, "NameError: name 'lsos' is not defined"), Line(1, t + 3, backend), Line(0, t + 20, reset)],
        seed=seed,
    )  # fmt: skip
    yield Scenario(
        "memory of the GPU, caught and retried for hours, then a reset", "infrastructure", 0, 2,
        [Line(0, t, oom), *(Line(0, t + 100_000 * k, f"step {k}") for k in range(1, 9)), Line(0, t + 900_000, reset)],
        seed=seed,
    )  # fmt: skip
    yield Scenario(
        "the same error is overcome and then fatal", "user", 1, 2,
        [
            Line(1, t, oom), *(Line(i, t + 50_000 * k, f"step {k}") for k in range(1, 9) for i in (0, 1)),
            Line(1, t + 500_000, oom), Line(0, t + 500_040, reset),
        ],
        seed=seed,
    )  # fmt: skip
    yield Scenario(
        "a survivor trips over its own clean-up at once", "infrastructure", 1, 2,
        [Line(1, t, "OSError: [Errno 116] Stale file handle: '/mnt/data/x'"), Line(0, t + 300, "KeyError: 'peer'")],
        seed=seed,
    )  # fmt: skip
    yield Scenario(
        "launchers say that they were told to end", "user", 0, 3,
        [
            Line(0, t, "ModuleNotFoundError: No module named 'flash_attn'"),
            Line(1, t + 10_000, "Received 15 death signal, shutting down workers"),
            Line(2, t + 10_000, "Received 15 death signal, shutting down workers"),
        ],
        seed=seed,
    )  # fmt: skip
    yield Scenario(
        "the reason is on the line after Last error", "node", 1, 2,
        [
            Line(1, t, backend), Line(1, t, "Last error:"),
            Line(1, t, "NET/OFI Request 0x7f completed with error. RC: 113. Error: UNDELIVERABLE"),
        ],
        seed=seed,
    )  # fmt: skip
    yield Scenario(
        "a forged block names nobody", "user", 1, 2,
        [*_block(77, t - 5), Line(1, t, oom), Line(0, t + 30, reset)], seed=seed,
    )  # fmt: skip


# --- figures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often what was true was judged as what, and which scenarios were judged wrongly."""

    counts: Counter[tuple[str, str]]
    wrong: tuple[tuple[Scenario, Judgement], ...]
    total: int

    @property
    def right(self) -> float:
        """Part of the scenarios whose replica and class are both right."""
        return 1 - len(self.wrong) / self.total

    def table(self) -> str:
        """Rows are what is true, columns what was said."""
        names = [str(each) for each in ORIGINALS] + ["none"]
        rows = [["", *names]] + [[true, *(str(self.counts[true, said]) for said in names)] for true in names[:-1]]
        return "\n".join("  ".join(cell.rjust(14) for cell in row) for row in rows)


def confusion(seed: int = 20) -> Confusion:
    """Judge every scenario."""
    watchdog, counts, wrong = Watchdog(), Counter[tuple[str, str]](), []
    made = scenarios(seed)
    for scenario in made:
        said = watchdog.judge(scenario)
        counts[str(scenario.failure_class), str(said.failure_class or "none")] += 1
        is_right = said.failure_class == scenario.failure_class and scenario.replica in (None, said.replica)
        if not is_right:
            wrong.append((scenario, said))
    return Confusion(counts, tuple(wrong), len(made))
