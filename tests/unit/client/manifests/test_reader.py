from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmaster.errors import InputError
from trainmaster.manifests.reader import Manifest, read, read_file
from trainmaster.manifests.source import MAX_SOURCE_BYTES, ManifestError, decoded
from trainmaster.manifests.writer import yaml_text


def manifests(text: str | bytes) -> tuple[Manifest, ...]:
    content = text.encode() if isinstance(text, str) else text
    return read(decoded("job.yaml", content), Path())


def document(text: str) -> dict[str, Any]:
    (manifest,) = manifests(text)
    return manifest.document


def faults(text: str | bytes) -> list[tuple[int, int, str]]:
    with pytest.raises(ManifestError) as caught:
        manifests(text)
    return [(fault.span.line, fault.span.column, fault.message) for fault in caught.value.faults]


def one_fault(text: str | bytes) -> tuple[int, int, str]:
    (fault,) = faults(text)
    return fault


class TestDocuments:
    def test_on_under_retry_stays_a_text_key(self) -> None:
        assert document("retry:\n  on:\n    hang: true\n") == {"retry": {"on": {"hang": True}}}

    def test_several_documents_keep_their_order_and_empty_ones_are_skipped(self) -> None:
        found = manifests("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n...\n")
        assert [manifest.document for manifest in found] == [{"a": 1}, {"b": 2}]

    def test_lines_count_over_the_whole_file(self) -> None:
        second = manifests("a: 1\n---\nb:\n  c: 2\n")[1]
        assert (second.place("/b/c").value.line, second.place("/b/c").value.column) == (4, 6)

    def test_anchors_and_aliases_work(self) -> None:
        assert document("a: &x {k: [1]}\nb: *x\n") == {"a": {"k": [1]}, "b": {"k": [1]}}

    def test_aliased_values_are_copies(self) -> None:
        found = document("a: &x [1]\nb: *x\n")
        assert found["a"] is not found["b"]

    def test_an_anchor_ends_with_its_document(self) -> None:
        assert one_fault("a: &x 1\n---\nb: *x\n") == (3, 4, "*x refers to no anchor &x before it")

    def test_quoted_and_block_scalars_are_text(self) -> None:
        assert document("a: '1'\nb: \"true\"\nc: |\n  012\nd: >-\n  x\n  y\n") == {
            "a": "1",
            "b": "true",
            "c": "012\n",
            "d": "x y",
        }

    def test_the_tag_str_makes_a_value_text(self) -> None:
        assert document("a: !!str 12\nb: ! 13\n") == {"a": "12", "b": "13"}

    def test_a_byte_order_mark_is_no_part_of_the_text(self) -> None:
        (manifest,) = manifests(b"\xef\xbb\xbfname: x\n")
        assert manifest.document == {"name": "x"}

    def test_names_in_any_script_are_read(self) -> None:
        assert document("name: 训练任务-@#+[]") == {"name": "训练任务-@#+[]"}

    def test_json_is_read_with_its_way_of_escaping_characters(self) -> None:
        value = {"name": "emoji-🚂 训练", "path": "a/b", "quotes": '"\\\n\t', "none": None, "list": [1, 2.5, True]}
        assert document(json.dumps(value)) == value
        assert document(json.dumps(value, ensure_ascii=False, indent=2)) == value

    def test_a_file_without_documents_is_an_error(self) -> None:
        with pytest.raises(InputError, match="holds no document"):
            manifests("# only a comment\n")


class TestFaults:
    @pytest.mark.parametrize(
        ("text", "line", "column", "words"),
        [
            ("a:\n\tb: 1\n", 2, 1, "a tab cannot stand here"),
            ("command: echo hi: there\n", 1, 17, "quotes"),
            ("a: 'x\n", 2, 1, "quoted scalar that begins in line 1"),
            ("a: [1\nb: 3\n", 2, 2, "flow sequence that begins in line 1"),
            ("a: @x\n", 1, 4, "in quotes"),
            ("a: `x`\n", 1, 4, "in quotes"),
            ("a:\n  - b: 1\n   c: 2\n", 3, 4, "indented unlike"),
            ("a: *x\n", 1, 4, "no anchor"),
            ("a: &x [*x]\n", 1, 8, "no anchor"),
            ("a: !!python/object:os.system x\n", 1, 4, "!!python/object:os.system is not accepted"),
            ("a: !mine {}\n", 1, 4, "!mine is not accepted"),
            ("a: !!set {}\n", 1, 4, "!!set is not accepted"),
            ("%YAML 3.0\n---\na: 1\n", 1, 1, "version"),
            ("- a\n", 1, 1, "must be a mapping"),
            ("just text\n", 1, 1, "must be a mapping"),
            ('a: "\\ud800"\n', 1, 4, "surrogate"),
            ("n: .nan\n", 1, 4, "no number that JSON has"),
            ("n: 99999999999999999999\n", 1, 4, "2^53-1"),
            ("1: x\n", 1, 1, 'in quotes: "1"'),
            ("true: x\n", 1, 1, 'in quotes: "true"'),
            ("~: x\n", 1, 1, 'in quotes: "~"'),
            ("[a]: x\n", 1, 1, "a key must be text, not a list"),
            ("? {a: b}\n: x\n", 1, 3, "a key must be text, not a list"),
            ("a: &x {k: 1}\nb:\n  <<: *x\n", 3, 3, "merge keys"),
        ],
    )
    def test_each_is_named_with_its_place(self, text: str, line: int, column: int, words: str) -> None:
        found_line, found_column, message = one_fault(text)
        assert (found_line, found_column) == (line, column)
        assert words in message

    def test_a_repeated_key_names_the_line_of_the_first(self) -> None:
        assert one_fault("a: 1\nb: 2\na: 3\n") == (3, 1, "key 'a' stands here twice; the first is in line 1")

    def test_all_faults_of_all_documents_come_at_once(self) -> None:
        found = faults("a: 1\na: 2\n1: x\n---\nn: .inf\n---\n- x\n")
        assert [line for line, _, _ in found] == [2, 3, 5, 7]

    def test_an_escape_beyond_the_last_character_is_a_fault_and_not_a_crash(self) -> None:
        assert "no character" in one_fault('a: "\\U00110000"\n')[2]


class TestBytes:
    def test_bytes_that_are_no_utf_8_are_named_with_their_place(self) -> None:
        assert one_fault("a: 1\nb: 中".encode() + b"\xff\n") == (2, 5, "byte 0xff is not UTF-8; save the file as UTF-8")

    def test_utf_16_is_refused(self) -> None:
        assert "not UTF-8" in one_fault("a: 1\n".encode("utf-16"))[2]

    @pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x0b", "\x7f", "\ufffe"])
    def test_control_characters_are_named_with_their_place(self, character: str) -> None:
        line, column, message = one_fault(f"a: 1\nb: x{character}\n")
        assert (line, column) == (2, 5)
        assert f"U+{ord(character):04X}" in message

    def test_a_file_beyond_the_limit_is_refused_before_it_is_parsed(self) -> None:
        assert "at most 2 MiB" in one_fault(b"a: " + b"x" * MAX_SOURCE_BYTES)[2]


class TestBombs:
    def test_nesting_is_limited(self) -> None:
        assert "nested deeper than 64 levels" in one_fault("[" * 100_000)[2]
        assert "nested deeper than 64 levels" in one_fault("a: " + "{b: " * 100)[2]

    def test_aliases_that_multiply_are_limited(self) -> None:
        bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
        )
        assert "once its aliases are expanded" in one_fault(bomb)[2]

    def test_aliases_of_long_texts_are_limited(self) -> None:
        bomb = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 1000)}]\n"
        assert "once its aliases are expanded" in one_fault(bomb)[2]

    def test_aliases_that_nest_are_limited(self) -> None:
        bomb = f"a0: &a0 {'[' * 60}{']' * 60}\n" + "".join(
            f"a{i}: &a{i} {'[' * 60}*a{i - 1}{']' * 60}\n" for i in range(1, 30)
        )
        assert "nested deeper than 64 levels" in one_fault(bomb)[2]

    def test_a_long_key_over_many_values_is_limited(self) -> None:
        bomb = f"? {'k' * 100_000}\n: [{', '.join(['a'] * 10_000)}]\n"
        assert "characters once its aliases are expanded" in one_fault(bomb)[2]


class TestPlaces:
    TEXT = "kind: TrainingJob\nspec:\n  roles:\n    - name: worker\n      replicas: two\n    - {name: b}\n"

    def test_a_scalar_stands_where_it_begins_and_ends(self) -> None:
        span = manifests(self.TEXT)[0].place("/spec/roles/0/replicas").value
        assert (span.line, span.column, span.end_column) == (5, 17, 20)

    def test_a_key_has_a_place_of_its_own(self) -> None:
        key = manifests(self.TEXT)[0].place("/spec/roles/0/replicas").key
        assert key is not None
        assert (key.line, key.column, key.end_column) == (5, 7, 15)

    def test_what_is_not_there_stands_where_its_nearest_parent_does(self) -> None:
        manifest = manifests(self.TEXT)[0]
        assert manifest.place("/spec/roles/1/command/0") == manifest.place("/spec/roles/1")
        assert manifest.place("/metadata/name") == manifest.place("")

    def test_pointers_escape_slashes_and_tildes(self) -> None:
        manifest = manifests("inline: {a/b~c.py: x}\n")[0]
        assert manifest.place("/inline/a~1b~0c.py").value.column == 20

    def test_values_behind_an_alias_stand_at_its_anchor(self) -> None:
        manifest = manifests("a: &x {k: 1}\nb: *x\n")[0]
        assert manifest.place("/b/k").value.line == 1


class TestFiles:
    def test_relative_paths_start_from_the_folder_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs" / "a.yaml"
        path.parent.mkdir()
        path.write_text("a: 1\n")
        (manifest,) = read_file(str(path), io.BytesIO())
        assert manifest.base == path.parent

    def test_a_dash_is_standard_input(self) -> None:
        (manifest,) = read_file("-", io.BytesIO(b"a: 1\n"))
        assert (manifest.document, manifest.source.name, manifest.base) == ({"a": 1}, "<stdin>", Path())

    def test_endless_input_is_read_up_to_the_limit_only(self) -> None:
        class Endless(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                assert size is not None
                assert 0 < size <= MAX_SOURCE_BYTES + 1
                return b"x" * size

        with pytest.raises(ManifestError, match="at most 2 MiB"):
            read_file("-", Endless())

    @pytest.mark.parametrize("name", ["absent.yaml", "."])
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InputError, match="cannot be read"):
            read_file(str(tmp_path / name), io.BytesIO())


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=20)
    | st.sampled_from(["on", "012", "1e5", "1:30", "<<", "*x", "- a", "a: b", "# c", "null", "a\nb\n", " a\n", "0x1"]),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), JSON_VALUES, max_size=4))
def test_what_is_written_as_yaml_is_read_back_unchanged(value: dict[str, Any]) -> None:
    (manifest,) = manifests(yaml_text(value))
    assert manifest.document == value


@given(st.dictionaries(st.text(min_size=1, max_size=8), JSON_VALUES, max_size=4))
def test_json_means_in_yaml_what_it_means_in_json(value: dict[str, Any]) -> None:
    (manifest,) = manifests(json.dumps(value))
    assert manifest.document == value


@given(st.binary(max_size=200))
def test_any_bytes_are_documents_or_a_clear_error(content: bytes) -> None:
    with contextlib.suppress(ManifestError, InputError):
        manifests(content)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@`?, \n\t\\01.~", max_size=60))
def test_any_text_made_of_yaml_signs_is_documents_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(ManifestError, InputError):
        json.dumps([manifest.document for manifest in manifests(text)], allow_nan=False)
