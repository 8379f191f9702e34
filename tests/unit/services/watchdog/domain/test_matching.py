"""The same lines are found wherever a log is cut into chunks, and whatever comes twice."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watchdog.catalogue import preset_rows
from services.watchdog.domain import torchrun
from services.watchdog.domain.matching import GIVEN_UP, Hit, Scan, last_lines, take
from services.watchdog.domain.progress import Progress
from services.watchdog.domain.rulebook import LOOKS_MAX, Rulebook
from services.watchdog.domain.rules import LineRule
from services.watchdog.domain.text import CONTEXT_LINES, LINE_MAX_BYTES, TAIL_BYTES
from shared.logs_wire import Chunk, FileRef, ReplicaRef

FILE = FileRef(ReplicaRef("tj-a", 1, "worker", 0))
RULES = Rulebook(
    [
        LineRule.of_texts("one", "boom"),
        LineRule.of_texts("two", "left", "right one"),
        LineRule.of_texts("end", "xyz"),
        LineRule.of_texts("cause", "Last error:", "reason"),
        torchrun.HEADER,
    ]
)
PRESETS = [rule.line_rule for rule in preset_rows()]


def chunks_of(text: bytes, cuts: list[int]) -> list[Chunk]:
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [Chunk(FILE, start, text[start:stop]) for start, stop in pairwise(borders)]


def read(chunks: list[Chunk], rules: Rulebook = RULES, *, end: bool = True) -> tuple[Scan, list[Hit]]:
    scan, hits = Scan(), []
    for chunk in chunks:
        taken = take(scan, chunk, rules)
        scan, hits = taken.scan, [*hits, *taken.hits]
    if end:
        taken = take(scan, Chunk(FILE, scan.position, end=scan.position), rules)
        scan, hits = taken.scan, [*hits, *taken.hits]
    return scan, hits


def told(hits: list[Hit]) -> tuple[list[Hit], dict[str, Hit]]:
    """The hits, and of lines that came again the last of each rule: those in between depend on the chunks."""
    return [hit for hit in hits if not hit.again], {hit.rule: hit for hit in hits if hit.again}


def whole(text: bytes, rules: Rulebook = RULES) -> list[Hit]:
    return read([Chunk(FILE, 0, text)], rules)[1]


def lines_of(text: bytes, rules: Rulebook = RULES) -> dict[str, str]:
    return {hit.rule: hit.line for hit in whole(text, rules) if not hit.again}


def test_a_line_is_told_with_up_to_ten_lines_before_it() -> None:
    text = b"".join(b"line %d\n" % number for number in range(20)) + b"it went boom here\nafter\n"
    (hit,) = whole(text)
    assert (hit.rule, hit.line) == ("one", "it went boom here")
    assert hit.before == tuple(f"line {number}" for number in range(10, 20))
    assert text[hit.offset :].startswith(b"it went")


@pytest.mark.parametrize("cut", [b"\n", b"\r", b"\r\n"])
def test_lines_are_cut_at_line_feeds_and_at_carriage_returns(cut: bytes) -> None:
    assert lines_of(b"left" + cut + b"right one" + cut) == {}
    assert lines_of(b"a" + cut + b"right one, left" + cut + b"b") == {"two": "right one, left"}


def test_a_line_without_an_end_is_found_when_the_log_is_complete() -> None:
    scan, hits = read([Chunk(FILE, 0, b"boom")], end=False)
    assert hits == []
    (hit,) = take(scan, Chunk(FILE, 4, end=4), RULES).hits
    assert hit.line == "boom"


def test_colours_are_not_in_the_way() -> None:
    assert lines_of(b"\x1b[1;31mbo\x1b[0mom\x1b]0;title\x07\n") == {"one": "boom"}


def test_upper_and_lower_case_differ() -> None:
    assert lines_of(b"BOOM\n") == {}


def test_of_each_rule_the_first_line_is_a_hit_and_the_last_is_told_again() -> None:
    first, last = whole(b"first boom\nsecond boom\nthird boom\n")
    assert (first.line, first.again) == ("first boom", False)
    assert (last.line, last.again) == ("third boom", True)


def test_text_after_a_progress_bar_shares_its_line() -> None:
    assert lines_of(b"10%\r20%boom\n") == {"one": "20%boom"}


def test_bytes_that_are_no_text_are_no_trouble() -> None:
    assert lines_of(b"\xff\xfe\x00boom\xff\n") == {"one": "\ufffd\ufffd\x00boom\ufffd"}


def test_a_line_of_megabytes_costs_no_memory_and_hides_nothing_behind_it() -> None:
    chunks = chunks_of(b"x" * 1_000_000 + b"\nboom\n", list(range(0, 1_000_000, 65536)))
    scan = Scan()
    for chunk in chunks:
        scan = take(scan, chunk, RULES).scan
        assert len(scan.line) <= LINE_MAX_BYTES
    assert scan.found == {"one"}


def test_a_repeat_changes_nothing() -> None:
    chunks = chunks_of(b"a\nboom\nb\n", [2, 5])
    assert told(read([*chunks, *chunks, chunks[1]])[1]) == told(read(chunks)[1])


def test_a_chunk_behind_a_gap_waits_for_what_is_missing() -> None:
    first, second, third = chunks_of(b"bo" + b"om" + b"!\n", [2, 4])
    scan = take(Scan(), first, RULES).scan
    assert take(scan, third, RULES).gap
    assert take(scan, third, RULES).scan == scan
    scan = take(scan, second, RULES).scan
    assert take(scan, third, RULES).hits[0].line == "boom!"


def test_over_a_gap_that_stays_reading_goes_on_with_another_line() -> None:
    taken = take(take(Scan(), Chunk(FILE, 0, b"bo"), RULES).scan, Chunk(FILE, 9, b"om\nboom\n"), RULES, over_gap=True)
    assert [hit.line for hit in taken.hits] == ["boom"]
    assert taken.scan.position == 17


def test_a_log_that_began_anew_is_read_from_its_start() -> None:
    scan, _ = read([Chunk(FILE, 0, b"old\nlef")], end=False)
    taken = take(scan, Chunk(FILE, 0, b"right one\nboom\n", generation=2), RULES)
    assert [hit.line for hit in taken.hits] == ["boom"]
    assert take(taken.scan, Chunk(FILE, 7, b"boom left right one\n"), RULES).hits == ()


def test_the_end_mark_counts_only_where_everything_before_it_was_read() -> None:
    assert not take(Scan(position=3), Chunk(FILE, 5, end=5), RULES).scan.ended
    assert take(Scan(position=5), Chunk(FILE, 5, end=5), RULES).scan.ended


@pytest.mark.parametrize("rule", PRESETS, ids=lambda rule: rule.id)
def test_each_preset_row_is_found_as_written_on_one_line_and_not_on_two(rule: LineRule) -> None:
    presets = Rulebook(PRESETS)
    fragments = [fragment.text for fragment in rule.any_of[0]]
    line = "[rank3]: " + " 10.0.0.1<5> ".join(fragments) + " (tail)"
    assert lines_of(f"ok\n{line}\n".encode(), presets) == {rule.id: line}
    assert lines_of("\n".join(fragments[:1]).lower().encode(), presets) == {}
    if len(fragments) > 1:
        assert lines_of("\n".join(fragments).encode(), presets) == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"Last error:\nthe reason\n", "Last error: the reason"),
        (b"NCCL, Last error: \r\nthe reason\r\n", "NCCL, Last error:   the reason"),
        (b"Last error:\n\n\nthe reason\n", None),
        (b"Last error:\nanother line\nthe reason\n", None),
        (b"Last error:\nLast error:\nthe reason\n", None),
        (b"Last error:\n" + b"x" * LINE_MAX_BYTES + b"the reason\n", None),
    ],
)
def test_the_line_after_last_error_is_part_of_it(text: bytes, line: str | None) -> None:
    found = lines_of(text).get("cause")
    assert found == line


def test_the_block_of_torchrun_is_read() -> None:
    block = (
        b"Root Cause (first observed failure):\n[0]:\n  time      : 2024-03-01_12:00:00\n"
        b"  host      : tj-a-1-worker-3\n"
        b"  rank      : 3 (local_rank: 1)\n  exitcode  : -9 (pid: 77)\n  error_file: <N/A>\n"
        b"  traceback : Signal 9 (SIGKILL) received by PID 77\n====\n"
    )
    (hit,) = whole(block)
    assert hit.rule == torchrun.ROOT_CAUSE
    assert hit.line == "rank 3 (local_rank: 1), exitcode -9 (pid: 77), host tj-a-1-worker-3"
    assert torchrun.host_in(hit.line) == "tj-a-1-worker-3"


def test_a_block_that_is_cut_off_or_forged_is_told_as_far_as_it_goes() -> None:
    (hit,) = whole(b"Root Cause (first observed failure):\n  rank : of cheese\n")
    assert torchrun.host_in(hit.line) == ""


def test_a_line_has_the_time_of_the_wake_up_that_saw_its_end() -> None:
    times = ((0, 1000), (10, 2000), (30, 3000))
    text = b"\x1b[31mxx\x1b[0m boom\nyy\n"
    (hit,) = take(Scan(), Chunk(FILE, 0, text, times=times), RULES).hits
    assert hit.at_ms == 2000
    first, second = take(Scan(), Chunk(FILE, 0, b"boom\n" + b"z" * 30 + b"xyz\n", times=times), RULES).hits
    assert (first.at_ms, second.at_ms) == (1000, 3000)


def test_how_far_training_came_is_seen_at_the_end_of_each_chunk() -> None:
    scan, _ = read([Chunk(FILE, 0, b"step 1\nstep 7\nloss", times=((0, 5),))], end=False)
    assert (scan.progress, scan.progress_at_ms) == (Progress(0, 7), 5)
    assert last_lines(scan) == ("step 1", "step 7", "loss")


def test_a_rule_whose_fragments_are_everywhere_but_never_together_is_given_up() -> None:
    text = b"left here\nright one here\n" * (LOOKS_MAX + 10) + b"left right one\n"
    (hit,) = whole(text)
    assert hit.rule == f"{GIVEN_UP}two"
    assert lines_of(b"boom\n" + text)["one"] == "boom"


pieces = st.sampled_from(
    [
        *(b"boom", b"left", b"right one", b" ", b"x", b"\n", b"\r", b"\r\n", b"bo", b"om", b"\xc3\xa4", b"\xff"),
        *(b"\x1b[31m", b"\x1b]0;t\x07", b"\x1b", b"\x1b[", b"\x1b(B", b"3", b"m", b"]", b"\x07"),
        *(b"xyz", b"y" * (LINE_MAX_BYTES - 3), b"z" * (TAIL_BYTES - 5)),
        *(b"Last error:", b"reason", b"TM_PHASE=", b"Root Cause (first observed failure):", b"  host      : w-1"),
    ]
)
texts = st.lists(pieces, max_size=60).map(b"".join)


def test_rules_are_told_in_the_order_of_their_lines() -> None:
    assert [hit.rule for hit in whole(b"left right one\nboom\n")] == ["two", "one"]


@given(texts, st.lists(st.integers(0, 2000), max_size=30), st.lists(st.integers(0, 80_000), max_size=10))
def test_chunking_at_any_borders_gives_the_same_matches(text: bytes, near: list[int], far: list[int]) -> None:
    assert told(read(chunks_of(text, near + far))[1]) == told(whole(text))


@given(texts.filter(bool), st.lists(st.integers(0, 2000), max_size=10), st.data())
def test_chunks_that_come_late_or_twice_change_nothing(text: bytes, cuts: list[int], data: st.DataObject) -> None:
    chunks = chunks_of(text, cuts)
    noisy = data.draw(st.lists(st.sampled_from(chunks), max_size=20))
    scan, hits = Scan(), []
    for chunk in [*noisy, *chunks]:
        taken = take(scan, chunk, RULES)
        scan, hits = taken.scan, [*hits, *taken.hits]
    hits += take(scan, Chunk(FILE, scan.position, end=scan.position), RULES).hits
    assert told(hits) == told(whole(text))


@given(texts, st.lists(st.integers(0, 2000), max_size=30))
def test_what_is_kept_between_chunks_is_bounded(text: bytes, cuts: list[int]) -> None:
    scan, _ = read(chunks_of(text, cuts), end=False)
    assert len(scan.line) <= LINE_MAX_BYTES
    assert len(scan.unfinished) <= 600
    assert len(scan.tail) <= TAIL_BYTES
    assert len(last_lines(scan)) <= CONTEXT_LINES


@given(cuts=st.lists(st.integers(0, 60), max_size=8).map(sorted))
def test_a_declared_phase_is_known_wherever_the_chunks_are_cut(cuts: list[int]) -> None:
    text = b"\x1b[1mstart\x1b[0m\r\nINFO TM_PHASE=checkpoint\nsaved\n"
    assert read(chunks_of(text, cuts), end=False)[0].phase == "checkpoint"
    assert read(chunks_of(text + b"TM_PHASE=training\n", cuts))[0].phase == "training"


def test_the_checkpoint_that_was_told_last_is_known_and_moves_nothing() -> None:
    scan = take(Scan(), Chunk(FILE, 0, b"one\n"), RULES).scan
    for told in ("step-1.pt", "step-2.pt", None):
        scan = take(scan, Chunk(FILE, 0, checkpoint=told), RULES).scan
    assert (scan.checkpoint, scan.position, scan.ended) == ("step-2.pt", 4, False)


def test_of_phase_file_and_lines_the_one_that_was_declared_last_counts() -> None:
    scan = Scan()
    for data, filed, phase in (
        (b"start\n", "checkpoint", "checkpoint"),
        (b"TM_PHASE=training\n", None, "training"),
        (b"", "checkpoint", "training"),
        (b"", "setup", "setup"),
        (b"", "", ""),
    ):
        scan = take(scan, Chunk(FILE, scan.position if data else 0, data, phase=filed), RULES).scan
        assert scan.phase == phase
    assert scan.position == len(b"start\nTM_PHASE=training\n")
