from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainmaster.errors import Violation
from trainmaster.manifests.reader import read
from trainmaster.manifests.source import ManifestError, Source
from trainmaster.rendering.faults import EXCERPT_CELLS, manifest_error, violations

Shown = Callable[..., list[str]]


def at(shown: Shown, text: str, pointer: str, code: str = "wrong-type") -> list[str]:
    (manifest,) = read(Source("f.yaml", text), Path())
    return shown(violations([Violation(pointer, code, "wrong")], manifest))


def caret(line: str) -> tuple[int, int]:
    """Cells before the caret and under it."""
    _, _, marks = line.partition(" | ")
    return len(marks) - len(marks.lstrip()), marks.count("^")


@pytest.mark.parametrize(
    ("pointer", "code", "place", "marks"),
    [
        ("/a/b", "wrong-type", "f.yaml:2:6", (5, 3)),
        ("/a/b", "unknown-key", "f.yaml:2:3", (2, 1)),
        ("/a", "wrong-type", "f.yaml:1:1", (0, 1)),
        ("/a/c/0", "wrong-type", "f.yaml:4:7", (6, 5)),
        ("/a/missing", "required", "f.yaml:1:1", (0, 1)),
        ("/nowhere/at/all", "required", "f.yaml:1:1", (0, 1)),
        ("", "too-large", "f.yaml:1:1", (0, 1)),
    ],
)
def test_the_caret_stands_under_the_culprit(
    shown: Shown, pointer: str, code: str, place: str, marks: tuple[int, int]
) -> None:
    lines = at(shown, "a:\n  b: two\n  c:\n    - 'xyz'\n", pointer, code)
    assert lines[0] == f"{place}: error: wrong  [{', '.join(filter(None, (pointer, code)))}]"
    assert caret(lines[2]) == marks


def test_wide_characters_are_counted_in_cells(shown: Shown) -> None:
    lines = at(shown, "env: {名字: 训练, b: 中}\n", "/env/b")
    assert lines[0].startswith("f.yaml:1:18: ")
    assert caret(lines[2]) == (len("env: {名字: 训练, b: ") + 4, 2)


def test_a_long_line_is_cut_around_the_culprit(shown: Shown) -> None:
    lines = at(shown, f"env: {{A: {'x' * 300}, B: 7, C: {'y' * 300}}}\n", "/env/B")
    assert len(lines[1]) < EXCERPT_CELLS + 20
    start, length = caret(lines[2])
    shown_part = lines[1].partition(" | ")[2][start : start + length]
    assert shown_part == "7"


def test_tabs_do_not_move_the_caret(shown: Shown) -> None:
    lines = at(shown, "e: {a: 'x\ty', b: 2}\n", "/e/b")
    assert lines[1].endswith("e: {a: 'x y', b: 2}")
    assert caret(lines[2]) == (len("e: {a: 'x y', b: "), 1)


def test_faults_of_the_file_look_the_same(shown: Shown) -> None:
    with pytest.raises(ManifestError) as caught:
        read(Source("f.yaml", "a: 1\na: 2\n"), Path())
    assert shown(manifest_error(caught.value)) == [
        "f.yaml:2:1: error: key 'a' stands here twice; the first is in line 1",
        "    2 | a: 2",
        "      | ^",
    ]


def test_a_fault_after_the_last_line_has_no_excerpt(shown: Shown) -> None:
    with pytest.raises(ManifestError) as caught:
        read(Source("f.yaml", "a: 'x\n"), Path())
    assert len(shown(manifest_error(caught.value))) == 1


def test_violations_come_in_the_order_of_the_file(shown: Shown) -> None:
    (manifest,) = read(Source("f.yaml", "a: 1\nb: 2\nc: {d: 3, e: 4}\n"), Path())
    found = [Violation(pointer, "wrong-type", f"wrong {pointer}") for pointer in ("/c/e", "/b", "/c/d", "/a")]
    lines = [line for line in shown(violations(found, manifest)) if "error:" in line]
    assert [line.split("wrong ")[1].split()[0] for line in lines] == ["/a", "/b", "/c/d", "/c/e"]
