"""The failure catalogue: data files of rules, read and checked as one list.

Each file is a list of rules about one subject, in the order in which they win; the files follow each other in the order
of `FILES`. `presets.yaml` comes last and stands apart: its rows decide about retries as they are written, beside the
catalogue, so they may say what a rule of the catalogue says, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, Final

import yaml

from services.watchdog.domain.rule_checks import violations_of
from services.watchdog.domain.rules import Rule
from shared.documents.parsing import must_parse
from shared.errors import InvalidInputError, Violation

FILES: Final = (
    "gpu.yaml",
    "host.yaml",
    "storage.yaml",
    "network.yaml",
    "training.yaml",
    "infiniband.yaml",
    "collectives.yaml",
    "rendezvous.yaml",
    "launchers.yaml",
    "clusters.yaml",
    "code.yaml",
)
PRESETS: Final = "presets.yaml"


def built_in_rules() -> tuple[Rule, ...]:
    """The rules of the catalogue, the first of which wins where several hold on a line."""
    return tuple(rule for name in FILES for rule in _read(name))


def preset_rows() -> tuple[Rule, ...]:
    """The seven rows of the `Advanced` policy."""
    return tuple(_read(PRESETS))


def violations_in(rules: Sequence[Rule]) -> Iterator[Violation]:
    """What is wrong with a list of rules; each is judged against those before it."""
    for number, rule in enumerate(rules):
        if any(rule.id == other.id for other in rules[:number]):
            yield Violation(f"/{number}/id", "duplicate", f"there is another rule {rule.id}")
        yield from violations_of(rule, rules[:number], (number,))


def _read(name: str) -> Iterator[Rule]:
    document: Any = yaml.load(files(__package__).joinpath(name).read_bytes(), Loader=yaml.CSafeLoader)
    for number, row in enumerate(document):
        try:
            yield must_parse(Rule, row)
        except InvalidInputError as error:
            raise InvalidInputError(error.violations, f"{name}, rule {number + 1}: {error}") from error
