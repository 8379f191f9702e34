"""Times, amounts, styles and the tables of `get`."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from trainmaster.decoding import Fields
from trainmaster.documents import ReplicaExit
from trainmaster.kinds import KINDS, kind_of_argument
from trainmaster.rendering.amounts import exit_text, resource_amount, size
from trainmaster.rendering.lists import listing
from trainmaster.rendering.moments import clock_time, duration, took
from trainmaster.rendering.style import colours_on, printable

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"),
        (0.04, "0.0s"),
        (59.94, "59.9s"),
        (60, "1m00s"),
        (3599, "59m59s"),
        (7500, "2h05m"),
        (273_600, "3d04h"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_times_are_in_utc_and_unknown_ones_a_dash() -> None:
    tokyo = datetime.fromisoformat("2026-01-02T09:00:00.250+09:00")
    assert clock_time(tokyo) == "00:00:00.250"
    assert took(None, NOW) == took(NOW, None) == clock_time(None) == "-"
    assert took(NOW, NOW + timedelta(seconds=5)) == "5.0s"


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (1024**2, "1 MiB"), (3 * 1024**4, "3072 GiB")]
)
def test_sizes_have_the_largest_unit(amount: int, text: str) -> None:
    assert size(amount) == text


def test_resources_have_their_units() -> None:
    assert [resource_amount(*each) for each in (("cpu", 500), ("cpu", 1000), ("memory", 1024**3), ("nodes", 3))] == [
        "0.5 cores",
        "1 core",
        "1 GiB",
        "3",
    ]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"code": 0, "signal": None}, "0"),
        ({"code": None, "signal": 9}, "SIGKILL"),
        ({"signal": 99}, "signal 99"),
        ({"code": 1, "outOfMemory": "suspected"}, "1 (out of memory: suspected)"),
        ({"cause": "lost", "message": "the node is gone"}, "lost: the node is gone"),
        ({"cause": "never-started"}, "never-started"),
    ],
)
def test_exits_are_told_by_code_or_signal(document: dict[str, object], text: str) -> None:
    assert exit_text(ReplicaExit.of(Fields(document))) == text


def test_colours_are_for_terminals_that_want_them() -> None:
    assert colours_on(Terminal(), {"TERM": "xterm"})
    assert not colours_on(Terminal(), {"NO_COLOR": "1"})
    assert not colours_on(Terminal(), {"TERM": "dumb"})
    assert not colours_on(io.StringIO(), {"TERM": "xterm"})


def test_what_steers_a_terminal_is_shown_as_an_escape() -> None:
    assert printable("a\x1b[31m\n\u202eb训") == r"a\x1b[31m\n\u202eb训"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.is_job], ids=lambda kind: kind.plural)
def test_every_kind_has_a_table_that_takes_documents_with_and_without_values(
    shown: Callable[..., list[str]], kind: object
) -> None:
    documents = [{"metadata": {"name": "[red]x"}, "spec": {}, "status": {}}, {"metadata": {"name": "b"}}, {}]
    lines = shown(listing(kind, documents, NOW))  # type: ignore[arg-type]
    assert len(lines) == 4
    nameless = map(kind_of_argument, ("queue", "incidents", "platform-incidents"))
    assert "[red]x" in lines[1] or kind in nameless


def test_lists_and_flags_are_written_for_people(shown: Callable[..., list[str]]) -> None:
    group = {"metadata": {"name": "g"}, "spec": {"members": ["ada", "eve"]}}
    user = {"metadata": {"name": "u"}, "spec": {"admin": True, "disabled": False}}
    assert shown(listing(kind_of_argument("group"), [group], NOW))[1].split() == ["g", "ada,", "eve"]
    assert shown(listing(kind_of_argument("user"), [user], NOW))[1].split() == ["u", "yes", "no", "-"]
