"""A file on its way through everything that can go wrong between the disk and the store of `logs`.

The state machine has a file that grows, is truncated and rewritten, an agent that crashes with old memories, a transit
that loses, repeats and reorders chunks and announcements, and the rule by which `logs` takes chunks. Whatever happened,
once things go well the store has exactly the bytes of the file, and its present generation is the file's content.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from services.agent.domain.tail import NOTICE, Look, SavedTail, Tail
from services.logs.domain.positions import Position, admit, announcement
from shared.logs_wire import CHUNK_MAX_BYTES, Chunk, FileRef, Kept, ReplicaRef

LOG = FileRef(ReplicaRef("tj-a", 1, "worker", 0))
MANY = 3


@dataclass
class Disk:
    """The file, and the agent's memory beside it."""

    content: bytes = b""
    saved: SavedTail | None = None


@dataclass
class Store:
    """What `logs` has: the real rule, without a disk."""

    position: Position = field(default_factory=Position)
    content: bytes = b""
    generations: dict[int, int] = field(default_factory=lambda: {1: 0})

    def take(self, chunk: Chunk) -> Kept:
        admission = admit(self.position, chunk)
        self.content += admission.data
        self.position = admission.position
        self.generations.setdefault(self.position.generation, self.position.base)
        assert self.position.size == len(self.content)
        return announcement(self.position, chunk, gap=admission.effect == "gap")


class Shipping(RuleBasedStateMachine):
    """One log between the disk and the store."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.store = Store()
        self.now = 0.0
        self.letters = 0
        self.forgotten = 0
        self.chunks: list[Chunk] = []
        self.answers: list[Kept] = []
        self.tail = Tail(LOG, "n-1")
        self.look()

    # --- the user's program

    @rule(count=st.integers(1, 200))
    def write(self, count: int) -> None:
        self.letters += 1
        self.disk.content += bytes([self.letters % 256]) * count

    @rule()
    def write_much(self) -> None:
        self.write(2 * CHUNK_MAX_BYTES + 7)

    @precondition(lambda self: self.disk.content and self.tail.saved().published >= self.forgotten)
    @rule(keep=st.integers(0, 10))
    def truncate(self, keep: int) -> None:
        """Shorter; the agent looks before something else is written."""
        self.disk.content = self.disk.content[: min(keep, len(self.disk.content) - 1)]
        self.look()

    # --- the agent

    @rule(pieces=st.integers(1, 6))
    def publish(self, pieces: int) -> None:
        self.look()
        for _ in range(pieces):
            chunk = self.next_chunk()
            if chunk is not None:
                self.chunks.append(chunk)

    @rule()
    def remember(self) -> None:
        self.disk.saved = self.tail.saved()
        self.tail.unsaved = self.tail.dirty = False

    @rule()
    def crash(self) -> None:
        """The agent is started again with what it remembered last; a new generation was remembered at once."""
        self.forgotten = max(self.forgotten, self.tail.saved().published)
        self.tail = Tail(LOG, "n-1", self.disk.saved)
        self.look()

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    # --- the transit

    @precondition(lambda self: self.chunks)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Any chunk next, which may stay and be delivered again."""
        at = data.draw(st.integers(0, min(MANY, len(self.chunks) - 1)))
        self.answers.append(self.store.take(self.chunks[at]))
        if data.draw(st.booleans()):
            del self.chunks[at]

    @precondition(lambda self: self.chunks)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        del self.chunks[data.draw(st.integers(0, len(self.chunks) - 1))]

    @precondition(lambda self: self.chunks)
    @rule()
    def refuse(self) -> None:
        refused = self.chunks.pop()
        if refused.generation == self.tail.generation:
            self.tail.offsets.refused(refused.offset, self.now)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def announce(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, min(MANY, len(self.answers) - 1)))
        self.tail.announced(self.answers.pop(at), self.now)

    @precondition(lambda self: self.answers)
    @rule()
    def lose_announcements(self) -> None:
        self.answers.clear()

    @rule()
    def lose_connection(self) -> None:
        self.chunks.clear()
        self.tail.offsets.disconnected()

    # --- how the lanes use a tail

    def look(self) -> None:
        while self.tail.looked(Look(len(self.disk.content), 0), 0):
            self.forgotten = 0
        if self.tail.unsaved:
            self.remember()

    def next_chunk(self) -> Chunk | None:
        read = self.tail.plan(self.now)
        if read is None:
            return None
        data = self.disk.content[read.offset : read.offset + read.length]
        check = self.disk.content[read.check_offset : read.check_offset + len(read.check)]
        chunk = self.tail.pack(read, data, check, self.now)
        if self.tail.unsaved:
            self.look()
        return chunk

    def notice(self) -> bytes:
        return NOTICE if self.tail.generation > 1 else b""

    # --- what must hold

    @invariant()
    def every_generation_in_the_store_is_a_beginning_of_what_the_file_had(self) -> None:
        starts = [*self.store.generations.values(), len(self.store.content)]
        for generation, start, stop in zip(self.store.generations, starts, starts[1:], strict=False):
            stored = self.store.content[start:stop]
            if generation == self.tail.generation:
                assert (self.notice() + self.disk.content).startswith(stored)

    def teardown(self) -> None:
        """Things go well: soon all is kept, with its end."""
        self.tail.complete = True
        for _ in range(400):
            self.now += 1.0
            self.look()
            while (chunk := self.next_chunk()) is not None:
                self.chunks.append(chunk)
            for chunk in self.chunks:
                self.tail.announced(self.store.take(chunk), self.now)
            self.chunks.clear()
            if self.tail.done:
                break
        assert self.tail.done
        assert self.store.position.ended
        assert self.store.position.generation == self.tail.generation
        assert self.store.content[self.store.position.base :] == self.notice() + self.disk.content


TestShipping = Shipping.TestCase
TestShipping.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_a_log_that_was_truncated_begins_anew_behind_a_notice():
    tail = Tail(LOG, "n-1")
    tail.looked(Look(10, 5), 5)
    read = tail.plan(0)
    assert read is not None
    assert tail.pack(read, b"0123456789", b"", 0) is not None
    assert tail.looked(Look(3, 6), 6)
    assert tail.unsaved
    assert tail.plan(0) is None, "the generation must be remembered first"
    tail.unsaved = False
    tail.looked(Look(3, 6), 6)
    read = tail.plan(0)
    assert read is not None
    chunk = tail.pack(read, b"abc", b"", 0)
    assert chunk is not None
    assert (chunk.generation, chunk.offset, chunk.data) == (2, 0, NOTICE + b"abc")


def test_a_file_written_anew_with_more_bytes_than_before_is_noticed():
    tail = Tail(LOG, "n-1")
    tail.looked(Look(4, 5), 5)
    first = tail.plan(0)
    assert first is not None
    tail.pack(first, b"aaaa", b"", 0)
    tail.looked(Look(8, 6), 6)
    second = tail.plan(0)
    assert second is not None
    assert (second.check_offset, second.check) == (0, b"aaaa")
    assert tail.pack(second, b"bbbb", b"bbbb", 0) is None
    assert tail.generation == 2


def test_a_replaced_file_is_left_only_when_all_of_it_is_kept():
    tail = Tail(LOG, "n-1")
    tail.complete = True
    tail.looked(Look(4, 5, replaced=True), 5)
    read = tail.plan(0)
    assert read is not None
    tail.pack(read, b"aaaa", b"", 0)
    assert tail.plan(0) is None, "no end mark: another file follows"
    assert not tail.looked(Look(4, 5, replaced=True), 5)
    tail.announced(Kept(LOG, 4), 0)
    assert tail.looked(Look(4, 5, replaced=True), 5)


def test_event_files_have_no_notice():
    tail = Tail(FileRef(LOG.replica, "tb", "tfevents"), "n-1")
    tail.looked(Look(10, 5), 5)
    read = tail.plan(0)
    assert read is not None
    tail.pack(read, b"0123456789", b"", 0)
    assert tail.looked(Look(3, 6), 6)
    tail.unsaved = False
    tail.looked(Look(3, 6), 6)
    read = tail.plan(0)
    assert read is not None
    chunk = tail.pack(read, b"abc", b"", 0)
    assert chunk is not None
    assert (chunk.generation, chunk.data) == (2, b"abc")


def test_an_agent_that_forgot_everything_learns_the_generation():
    tail = Tail(LOG, "n-1")
    tail.looked(Look(10, 5), 5)
    tail.announced(Kept(LOG, len(NOTICE) + 4, generation=3), 0)
    assert tail.generation == 3
    tail.looked(Look(10, 5), 5)
    read = tail.plan(0)
    assert read is not None
    assert (read.offset, read.length) == (4, 6)


def test_a_plan_that_was_overtaken_by_an_announcement_is_dropped():
    tail = Tail(LOG, "n-1")
    tail.looked(Look(10, 5), 5)
    read = tail.plan(0)
    assert read is not None
    tail.announced(Kept(LOG, 10), 0)
    assert tail.pack(read, b"0123456789", b"", 0) is None
