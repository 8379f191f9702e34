"""What the tests of single nodes say of their devices: rates, bandwidths, checksums of products. Pure.

Each figure is compared with that of like devices in this run and before. A checksum is wrong where it is not the golden
one, and that of drawn numbers where most like devices have another. Every test is made once more where something is
wrong with it: what shows in both is the device's problem, what showed once is a doubt. On a machine without GPUs its
rates and bandwidths depend on what else runs there, on the other thread of the same core, too, so they never are more
than a doubt, and that only where no look is without it; the multiplication of the probe, which counts processor time of
every CPU, judges those.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.figures import MANY, FigureRule, Ordinary, Ruling, least_good, rule_on
from services.diagnoser.domain.golden import GOLDEN
from services.diagnoser.domain.stages import EVERYTHING, Profile
from shared.diagnosis_wire import DeviceResult, TestName
from shared.events import FigureMeasured

Look = Mapping[str, DeviceResult]
Looks = Mapping[str, Mapping[TestName, tuple[Look, ...]]]
WHOLE_NODE: Final = ""
_FEWEST_LIKE: Final = 3
_TWICE: Final = 2
# NVIDIA's own tests take so long, and say so clearly what is wrong, that once is enough.
_ONCE_IS_ENOUGH: Final[frozenset[TestName]] = frozenset({"deep"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What is judged alike: machines of this kind with this software; `gpu` says which devices they have."""

    machine: str
    software: str = ""
    gpu: bool = False


_CPU_EFFECTS: Final = (0.2, 0.06)
# What CPUs of one machine send each other depends so much on what else runs there that only a floor can judge it.
_BY_FLOOR_ALONE: Final = (1.0, 0.06)
_GPU_RATE: Final = (0.05, 0.01)
_GPU_WAY: Final = (0.1, 0.02)
_NAMES: Final[Mapping[TestName, Mapping[str, tuple[str, str, tuple[float, float]]]]] = {
    "compute": {
        "bf16Tflops": ("bf16 multiplication", "TFLOP/s", _GPU_RATE),
        "fp32Tflops": ("fp32 multiplication", "TFLOP/s", _GPU_RATE),
    },
    "memory": {"memoryGbS": ("memory bandwidth", "GB/s", _GPU_RATE)},
    "hostDevice": {
        "hostToDeviceGbS": ("host to device", "GB/s", _GPU_WAY),
        "deviceToHostGbS": ("device to host", "GB/s", _GPU_WAY),
    },
    "local": {
        "allReduceMbS": ("all-reduce in the node", "MB/s", _GPU_WAY),
        "allToAllMbS": ("all-to-all in the node", "MB/s", _GPU_WAY),
    },
    "link": {"bandwidthMbS": ("way between devices", "MB/s", _GPU_WAY)},
}
# What the floors of a profile are called where it is not like the figure.
_FLOORS: Final[Mapping[tuple[TestName, str], str]] = {
    ("hostDevice", "hostToDeviceGbS"): "hostDeviceGbS",
    ("hostDevice", "deviceToHostGbS"): "hostDeviceGbS",
    ("local", "allReduceMbS"): "deviceAllReduceMbS",
    ("local", "allToAllMbS"): "deviceAllToAllMbS",
    ("link", "bandwidthMbS"): "deviceLinkMbS",
}


def rule_of(test: TestName, figure: str, kind: Kind, profile: Profile) -> FigureRule | None:
    """How the figure is judged; None where it is not."""
    named = _NAMES.get(test, {}).get(figure)
    if named is None:
        return None
    name, unit, of_gpus = named
    of_cpus = _BY_FLOOR_ALONE if test in {"local", "link"} else _CPU_EFFECTS
    effect, noise = of_gpus if kind.gpu else of_cpus
    floor = profile.floors.get(_FLOORS.get((test, figure), figure))
    return FigureRule(name, unit, floor=floor, effect=effect, noise=noise)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that a look has found wrong; a soft one is no more than a doubt."""

    text: str
    device: str
    test: TestName
    about: str
    is_hard: bool

    @property
    def times_needed(self) -> int:
        """In how many looks it must have been there to be more than chance."""
        return 1 if self.test in _ONCE_IS_ENOUGH else _TWICE


@dataclass(frozen=True)
class Devices:
    """The devices of all nodes of a run."""

    looks: Looks
    kinds: Mapping[str, Kind]
    book: Book
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    _told: dict[tuple[str, TestName, int], tuple[Trouble, ...]] = field(default_factory=dict, compare=False)

    def figures(self, node: str) -> list[FigureMeasured]:
        """Those of the last looks, judged."""
        found = []
        for test, looks in self.looks.get(node, {}).items():
            for device, result in looks[-1].items():
                for name, value in result.figures.items():
                    rule = rule_of(test, name, self.kinds[node], self._profile(node))
                    if rule is not None:
                        found.append(told_of(rule, self._ruling(node, test, device, name, value, rule), device))
        return found

    def looks_bad(self, node: str, test: TestName) -> bool:
        """Whether the last look of this test says that something is wrong."""
        looks = self.looks.get(node, {}).get(test, ())
        return bool(looks) and bool(self._troubles(node, test, len(looks) - 1))

    def problems(self, node: str) -> list[str]:
        """What was wrong twice, and is no doubt only."""
        return [each.text for each, times in self._seen(node) if each.is_hard and times >= each.times_needed]

    def doubts(self, node: str) -> list[str]:
        """What was wrong once, and what says little though it was wrong each time, twice at least."""
        seen = ((each, times, len(self.looks[node][each.test])) for each, times in self._seen(node))
        return [each.text for each, times, looks in seen if _is_doubt(each, times, looks)]

    def is_broken(self, node: str) -> bool:
        """Whether a device was wrong, or slow, in two looks."""
        return bool(self.problems(node))

    def tests_of(self, node: str) -> dict[str, list[bool]]:
        """For each device, whether each look at it was bad, doubts left aside."""
        found: defaultdict[str, list[bool]] = defaultdict(list)
        for test, looks in self.looks.get(node, {}).items():
            for number, look in enumerate(looks):
                hard = {each.device for each in self._troubles(node, test, number) if each.is_hard}
                for device in look:
                    found[device].append(device in hard)
        found.pop(WHOLE_NODE, None)
        return dict(found)

    def enough(self, node: str, test: TestName) -> dict[str, float]:
        """For each figure of a test the least that is good, as far as anything is known."""
        kind, known = self.kinds[node], {}
        for name in _NAMES.get(test, {}):
            rule = rule_of(test, name, kind, self._profile(node))
            if rule is not None:
                known[name] = least_good(rule, self.book.fleet(kind.machine, rule.name))
        return {name: value for name, value in known.items() if value}

    def _seen(self, node: str) -> Iterator[tuple[Trouble, int]]:
        """Each trouble as it was last told, and in how many looks it was there."""
        for test, looks in self.looks.get(node, {}).items():
            told = [each for number in range(len(looks)) for each in self._troubles(node, test, number)]
            times = Counter((each.device, each.about) for each in told)
            last = {(each.device, each.about): each for each in told}
            yield from ((each, times[key]) for key, each in last.items())

    def _profile(self, node: str) -> Profile:
        return self.profiles.get(node, EVERYTHING)

    def _troubles(self, node: str, test: TestName, number: int) -> tuple[Trouble, ...]:
        """What the look with this number has found wrong; it is asked for several times, and made once."""
        key = (node, test, number)
        if key not in self._told:
            self._told[key] = tuple(self._found(node, test, self.looks[node][test][number]))
        return self._told[key]

    def _found(self, node: str, test: TestName, look: Look) -> Iterator[Trouble]:
        for device, result in look.items():
            named = f"{device}: " if device else ""
            if result.problem:
                yield Trouble(f"{named}{result.problem}", device, test, "problem", is_hard=True)
            for about, why, is_hard in self._checked(node, result):
                yield Trouble(f"{named}{why}", device, test, about, is_hard)
            for name, value in result.figures.items():
                rule = rule_of(test, name, self.kinds[node], self._profile(node))
                why = self._ruling(node, test, device, name, value, rule).why if rule else ""
                if why:
                    yield Trouble(f"{named}{why}", device, test, name, self.kinds[node].gpu)

    def _checked(self, node: str, result: DeviceResult) -> Iterator[tuple[str, str, bool]]:
        """What is wrong with checksums, as (about what, sentence, whether it is more than a doubt)."""
        for name, given in result.checksums.items():
            golden = GOLDEN.get(name)
            if golden is not None and given != golden:
                yield name, f"it computed wrong: {name} has checksum {given} instead of {golden}", True
            like = self._checksums.get((self.kinds[node], name), Counter())
            most, count = like.most_common(1)[0] if like else (given, 0)
            alike = sum(like.values()) >= _FEWEST_LIKE and 2 * count > sum(like.values())
            if golden is None and alike and given != most:
                why = f"it computes otherwise than {count} like devices: {name} has {given} instead of {most}"
                yield name, why, self.kinds[node].gpu

    @cached_property
    def _checksums(self) -> dict[tuple[Kind, str], Counter[str]]:
        """What devices of each kind gave in their last look."""
        found: defaultdict[tuple[Kind, str], Counter[str]] = defaultdict(Counter)
        for node, tests in self.looks.items():
            for looks in tests.values():
                for result in looks[-1].values():
                    for name, given in result.checksums.items():
                        found[self.kinds[node], name][given] += 1
        return dict(found)

    @cached_property
    def _values(self) -> dict[tuple[Kind, TestName, str], dict[tuple[str, str], float]]:
        """The last values of each figure by kind, each with node and device."""
        found: defaultdict[tuple[Kind, TestName, str], dict[tuple[str, str], float]] = defaultdict(dict)
        for node, tests in self.looks.items():
            for test, looks in tests.items():
                for device, result in looks[-1].items():
                    for name, value in result.figures.items():
                        found[self.kinds[node], test, name][node, device] = value
        return dict(found)

    @cached_property
    def _many(self) -> dict[tuple[Kind, TestName, str], Ordinary]:
        """Where there are many values, each is compared with all: one more or less does not matter."""
        many = {key: tuple(values.values()) for key, values in self._values.items() if len(values) > MANY}
        return {key: Ordinary(values, f"{len(values)} values of this run") for key, values in many.items()}

    def _ruling(self, node: str, test: TestName, device: str, name: str, value: float, rule: FigureRule) -> Ruling:
        kind = self.kinds[node]
        others: Ordinary | list[float] | None = self._many.get((kind, test, name))
        if others is None:
            values = self._values[kind, test, name]
            others = [each for key, each in values.items() if key != (node, device)]
        own = self.book.own(node, f"{rule.name}/{device}" if device else rule.name)
        return rule_on(rule, value, others, self.book.fleet(kind.machine, rule.name), own)


def _is_doubt(trouble: Trouble, times: int, looks: int) -> bool:
    """A hard one that was not there often enough; a soft one only where no look was without it."""
    return times < trouble.times_needed if trouble.is_hard else times == looks >= trouble.times_needed


def with_look(looks: Looks, node: str, test: TestName, look: Look) -> dict[str, Mapping[TestName, tuple[Look, ...]]]:
    """The looks with one more."""
    own = dict(looks.get(node, {}))
    own[test] = (*own.get(test, ()), look)
    return {**looks, node: own}


def with_floor(rule: FigureRule, floor: float | None) -> FigureRule:
    """The rule with the floor of a profile, where that has one."""
    return rule if floor is None else replace(rule, floor=floor)


def told_of(rule: FigureRule, ruling: Ruling, device: str) -> FigureMeasured:
    """The figure as reports have it."""
    return FigureMeasured(
        name=rule.name,
        value=round(ruling.value, 3),
        unit=rule.unit,
        device=device or None,
        floor=rule.floor,
        less_is_better=not rule.more_is_better,
        median=ruling.median,
        percentile=ruling.percentile,
        against=ruling.against,
        why=f"{device}: {ruling.why}" if device and ruling.why else ruling.why,
    )
