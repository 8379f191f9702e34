"""What the measurements of one diagnosis say: figures against others, pairs as a search, nodes by colour. Pure.

A node with a problem, or a suspect, was measured several times. What was seen twice is its problem, and fails the job;
what was seen once is a doubt, but that a CPU was slow once is none. Red is a node whose device was broken twice, or
that the search found; amber one with any other problem or doubt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.blame import PairOutcome
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.devices import told_of, with_floor
from services.diagnoser.domain.facts import Floors, facts_of
from services.diagnoser.domain.figures import MANY, FigureRule, Ordinary, Ruling, rule_on
from services.diagnoser.domain.gang import figures_of
from services.diagnoser.domain.gathered import Gathered, PairValue
from services.diagnoser.domain.given import are_all_free, used_by_nobody_known, why_not_tested
from services.diagnoser.domain.hardware import odd_ones
from services.diagnoser.domain.pair_values import PairRulings, search_of
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.passes import gang_name, stages_of_devices
from services.diagnoser.domain.readings import Reading
from services.diagnoser.domain.stages import LIMIT_ON_CPUS, stages_of_gang
from services.diagnoser.domain.unmet import unmet
from services.diagnoser.domain.verdict import broken, judge
from shared.events import FigureMeasured, NodeFinding, PairMeasured, PartBelief

GEMM: Final = FigureRule("multiplication", "ms", more_is_better=False, effect=0.12, noise=0.02)


class Examination:
    """The verdicts on what was gathered, beside what the book knows."""

    def __init__(self, gathered: Gathered, book: Book, floors: Floors) -> None:
        self._all = gathered
        self._book = book
        self._floors = floors
        self._rulings = PairRulings(gathered, book)
        self.search = search_of(gathered, book)
        self.devices = gathered.of_devices(book)

    def problems_at(self, node: str, measured: int) -> list[str]:
        """What is wrong with the node by its measurement with this number."""
        reading = self._all.readings[node][measured]
        facts, idle = self._all.profile(node).has("facts"), node not in self._all.in_use
        devices = self._all.devices.get(node, ())
        found = list(judge(node, reading, devices, self._floors, facts=facts, idle=idle).problems)
        return found if not facts else found + [figure.why for figure in self.figures(node, measured) if figure.why]

    def finding(self, node: str) -> NodeFinding:
        """What the job is told of the node."""
        readings = self._all.readings[node]
        bad = self._bad_readings(node)
        problems = bad[-1] if len(bad) > 1 else []
        once = self._without_slow(node, bad[0]) if len(bad) == 1 else []
        problems = [*problems, *self.devices.problems(node)]
        last = self._last(node)
        strays = used_by_nobody_known(last.measurement) if last and self._all.wanted.get(node) else []
        doubts = [
            *once,
            *strays,
            *self._odd_ones.get(node, ()),
            *self.devices.doubts(node),
            *self._doubts_of_pairs(node),
        ]
        workless = self._all.worker_problems.get(node, ())
        if len(workless) > 1:
            problems = [*problems, f"it cannot be tested: {workless[-1]}"]
        if self._colour_of_pairs(node) == "red":
            problems = [*problems, self._why_red(node)]
        if node in self._all.gang_doubts:
            doubts.append(self._all.gang_doubts[node])
        is_red = self._colour_of_pairs(node) == "red" or self._is_broken(node) or self.devices.is_broken(node)
        return NodeFinding(
            node=node,
            problems=tuple(problems),
            doubts=tuple(doubts),
            figures=judge(node, readings[-1], (), self._floors).figures,
            verdict="red" if is_red else "amber" if problems or doubts else "green",
            untested=self._untested(node),
        )

    def _untested(self, node: str) -> str:
        """Why a node without a pass was only looked at, where that is nothing against it."""
        excuse = self._all.excuses.get(node, "")
        if excuse:
            return f"its tests were broken off: {excuse}"
        return "a job was on it already" if node in self._all.spared else ""

    @cached_property
    def _odd_ones(self) -> dict[str, list[str]]:
        """What nodes have otherwise than the others, by the facts that are judged."""
        last = {node: readings[-1] for node, readings in self._all.readings.items() if readings}
        judged = {node: each for node, each in last.items() if each and self._all.profile(node).has("facts")}
        return odd_ones({node: each.measurement for node, each in judged.items()}, self._all.about)

    def _bad_readings(self, node: str) -> list[list[str]]:
        """The problems of each measurement that had any."""
        seen = (self.problems_at(node, number) for number in range(len(self._all.readings[node])))
        return [problems for problems in seen if problems]

    def _without_slow(self, node: str, problems: Sequence[str]) -> list[str]:
        """Problems of one look. What else runs on a machine only slows it: a CPU that was quick in another is fine."""
        numbers = range(len(self._all.readings[node]))
        slow = (
            {figure.why for number in numbers for figure in self.figures(node, number)} if len(numbers) > 1 else set()
        )
        return [problem for problem in problems if problem not in slow]

    def figures(self, node: str, measured: int = -1) -> list[FigureMeasured]:
        """The judged figures of the node's CPUs, as the probe has measured them."""
        reading = self._all.readings[node][measured]
        devices = reading.measurement.device_ms if reading else {}
        kind, rule = self._all.kind(node), with_floor(GEMM, self._all.profile(node).floors.get(LIMIT_ON_CPUS))
        rulings = ((device, self._gemm(node, kind, device, ms, rule)) for device, ms in sorted(devices.items()))
        return [told_of(rule, ruling, device) for device, ruling in rulings]

    def all_figures(self, node: str) -> tuple[FigureMeasured, ...]:
        """Every judged figure of the node and its devices."""
        gang = self._all.gang
        together = figures_of(gang, self._all, self._book) if gang and node in gang.nodes else ()
        return (*self.figures(node), *self.devices.figures(node), *together)

    def facts(self, node: str) -> tuple[FigureMeasured, ...]:
        """What the last look at the node gave in numbers; nothing where no answer came."""
        reading = self._last(node)
        return facts_of(reading, self._floors) if reading else ()

    def pairs(self, node: str) -> tuple[PairMeasured, ...]:
        """The pairs that the node is the first of."""
        return tuple(self._pair(pair) for pair in self._pairs_of.get(node, ()))

    def about(self, node: str) -> dict[str, str]:
        """With what the node was tested, and why not all of it."""
        reading, told = self._last(node), dict(self._all.about.get(node, {}))
        why = why_not_tested(reading.measurement) if reading and self._all.wanted.get(node) else ""
        excuse = self._all.excuses.get(node, "")
        unlooked = ", ".join(reading.measurement.unlooked) if reading else ""
        limit = self._all.cut_short if self.was_loaded(node) else ""
        beside = {"gpus": why, "excuse": excuse, "directories": unlooked, "limit": limit}
        beside["unmet"] = ", ".join(unmet(node, self._all))
        return told | {name: each for name, each in beside.items() if each}

    def stages(self, node: str) -> tuple[str, ...]:
        """What a pass of the node covers."""
        stages, devices = self._all.profile(node).node_stages, self._all.devices.get(node, ())
        if not self.was_tested(node):
            return ()
        reading = self._last(node)
        # Whatever GPUs of the node a job gets by and by, all of them have passed.
        named = self._all.wanted.get(node, ()) if reading and are_all_free(reading.measurement) else ()
        return stages_of_devices(stages, {*devices, *named} if devices else ())

    @cached_property
    def gang(self) -> str:
        """The name of the gang that passed all of it together; empty where somebody did not."""
        loaded = self._all.loaded
        stages = stages_of_gang(loaded, self._all.profile, self._all.devices)
        is_whole = self._all.gang is not None or not any(self._all.profile(node).has("gang") for node in loaded)
        all_green = all(self.finding(node).verdict == "green" for node in loaded)
        return gang_name(loaded, stages) if len(loaded) > 1 and is_whole and all_green else ""

    def was_loaded(self, node: str) -> bool:
        """Whether the node was put under load, and not only looked at."""
        return node in self._all.loaded

    def was_tested(self, node: str) -> bool:
        """Whether the node was tested by itself, and was not at most a partner of others."""
        return node in self._all.tested

    def kind(self, node: str) -> str:
        """Which machines the node can be compared with."""
        return self._all.kind(node)

    def beliefs(self, node: str, before: Mapping[str, Belief]) -> tuple[PartBelief, ...]:
        """What the ledger is to remember: of the node, of links that it is the first of, of its doubtful devices."""
        blames = self.search.blames
        own = blames[node].learned if node in blames else before.get(node, Belief())
        bad, looks = len(self._bad_readings(node)), len(self._all.readings[node])
        parts = {node: own.after(fails=bad, passes=looks - bad)}
        links = {pair.link: blames[pair.link] for pair in self._pairs_of.get(node, ())}
        parts |= {link: each.learned for link, each in links.items() if each.fails or link in before}
        for device, failed in self._device_tests(node).items():
            name = f"{node}/{device}"
            if any(failed) or name in before:
                known = before.get(name, Belief())
                parts[name] = known.after(fails=sum(failed), passes=failed.count(False))
        return tuple(
            PartBelief(
                part=part, suspicion=round(each.suspicion, 6), evidence=each.evidence, fails=round(each.fails, 4)
            )
            for part, each in parts.items()
        )

    def _device_tests(self, node: str) -> dict[str, list[bool]]:
        """For each device, whether each of its measurements was bad."""
        tests: dict[str, list[bool]] = {}
        for number in range(len(self._all.readings[node])):
            slow = self._slow_devices(node, number)
            for figure in self.figures(node, number):
                if figure.device:
                    tests.setdefault(figure.device, []).append(figure.device in slow)
        for device, failed in self.devices.tests_of(node).items():
            tests.setdefault(device, []).extend(failed)
        return tests

    @cached_property
    def _values_of(self) -> dict[Pair, list[PairValue]]:
        found: defaultdict[Pair, list[PairValue]] = defaultdict(list)
        for values in self._all.rounds:
            for value in values:
                found[value.pair].append(value)
        return dict(sorted(found.items()))

    @cached_property
    def _pairs_of(self) -> dict[str, list[Pair]]:
        """The pairs that each node is the first of."""
        found: defaultdict[str, list[Pair]] = defaultdict(list)
        for pair in self._values_of:
            found[pair.first].append(pair)
        return found

    @cached_property
    def _tests_of(self) -> dict[str, list[PairOutcome]]:
        """The tests that each node was in."""
        found: defaultdict[str, list[PairOutcome]] = defaultdict(list)
        for test in self.search.tests:
            for node in test.pair.nodes:
                found[node].append(test)
        return found

    def _gemm(self, node: str, kind: str, device: str, ms: float, rule: FigureRule) -> Ruling:
        fleet, own = self._book.fleet(kind, GEMM.name), self._book.own(node, f"{GEMM.name}/{device}")
        others: Ordinary | list[float] | None = self._many_devices.get(kind)
        if others is None:
            itself = (self._place(node), device, ms)
            others = [value for key, value in self._devices.get(kind, {}).items() if key != itself]
        return rule_on(rule, ms, others, fleet, own)

    def _place(self, node: str) -> str:
        return self._all.machines.get(node, node)

    @cached_property
    def _devices(self) -> dict[str, dict[tuple[str, str, float], float]]:
        """Values of all devices of each kind. Shares of one machine tell of the same device: it counts once."""
        found: defaultdict[str, dict[tuple[str, str, float], float]] = defaultdict(dict)
        for node in self._all.nodes:
            for reading in self._all.readings[node][-1:]:
                for name, ms in (reading.measurement.device_ms if reading else {}).items():
                    found[self._all.kind(node)][self._place(node), name, ms] = ms
        return found

    @cached_property
    def _many_devices(self) -> dict[str, Ordinary]:
        """Where a kind has many devices, each is compared with all: one more or less does not matter."""
        many = {kind: tuple(values.values()) for kind, values in self._devices.items() if len(values) > MANY}
        return {kind: Ordinary(values, f"{len(values)} values of this run") for kind, values in many.items()}

    def _last(self, node: str) -> Reading | None:
        return self._all.readings[node][-1] if self._all.readings[node] else None

    def _is_broken(self, node: str) -> bool:
        """Whether a device of it was wrong, or slow, in two measurements."""
        seen: Counter[str] = Counter()
        for number, reading in enumerate(self._all.readings[node]):
            seen.update(broken(reading, self._all.devices.get(node, ())))
            seen.update(self._slow_devices(node, number))
        return any(times > 1 for times in seen.values())

    def _slow_devices(self, node: str, measured: int) -> set[str]:
        return {figure.device for figure in self.figures(node, measured) if figure.device and figure.why}

    # --- pairs -------------------------------------------------------------------------------------------------------

    def _colour_of_pairs(self, node: str) -> str:
        return self.search.colour(node) if node in self.search.nodes else "green"

    def _why_red(self, node: str) -> str:
        partners = sorted({self._all.name(test.pair.partner(node)) for test in self._failed(node)})
        why = self._failed(node)[-1].why
        return f"tests with {', '.join(partners)} failed: {why}"

    def _doubts_of_pairs(self, node: str) -> Iterator[str]:
        if self._colour_of_pairs(node) == "amber":
            for test in self._failed(node)[:1]:
                yield f"a test with {self._all.name(test.pair.partner(node))} failed: {test.why}"
        for pair in sorted({test.pair for test in self._failed(node)}):
            colour = self.search.link_colour(pair)
            if colour != "green":
                why = next(test.why for test in self._failed(node) if test.pair == pair)
                yield f"the link to {self._all.name(pair.partner(node))} is {colour}: {why}"

    def _put_down(self, pair: Pair) -> str:
        """Who failed tests of a pair are put down to, where that is not the link."""
        if self.search.link_colour(pair) != "green":
            return ""
        blamed = [self._all.name(node) for node in pair.nodes if self._colour_of_pairs(node) != "green"]
        return f" (put down to {' and '.join(blamed) or 'chance'}, not to the link)"

    def _failed(self, node: str) -> list[PairOutcome]:
        return [test for test in self._tests_of.get(node, ()) if test.failed]

    def _pair(self, pair: Pair) -> PairMeasured:
        values = self._values_of[pair]
        tests = [test for test in self._tests_of[pair.first] if test.pair == pair]
        failed = [test for test in tests if test.failed]
        best = max(values, key=lambda value: value.bandwidth_mb_s or 0.0)
        rule, ruling = self._rulings.of(best)
        return PairMeasured(
            first=pair.first,
            second=pair.second,
            verdict=self.search.link_colour(pair),
            tests=len(tests),
            failed=len(failed),
            bandwidth_mb_s=best.bandwidth_mb_s,
            latency_us=min((value.latency_us for value in values if value.latency_us), default=None),
            rails_mb_s=best.rails,
            floor_mb_s=rule.floor,
            median_mb_s=ruling.median if ruling else None,
            percentile=ruling.percentile if ruling else None,
            against=ruling.against if ruling else "",
            why=f"{failed[-1].why}{self._put_down(pair)}" if failed else "",
            compared="; ".join(dict.fromkeys(filter(None, map(self._rulings.comparison, values)))),
            transport=values[-1].transport,
        )
