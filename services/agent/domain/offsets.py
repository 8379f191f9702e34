"""How far one file is published and how far it is kept: the sliding window of the agent, as a pure state machine.

`kept` is what `logs` announced as durable, `sent` is the next byte to publish. Between them lie at most `window_bytes`
that wait for an announcement. Publishing is optimistic; whatever goes wrong on the way ends in going back to `kept`:

- the connection was lost: everything that was not kept is sent again;
- JetStream refused a chunk (the stream is full): back to that chunk, with a smaller window, after a pause that grows
  while it is refused and ends as soon as something was kept;
- `logs` announced a gap: back to the announced offset, once a second at most, because every chunk that was on its way
  behind the gap makes an announcement of its own;
- no announcement came for some time: back to `kept`, but only one chunk is sent then, as a question; the pause doubles
  with every question that is not answered, so that an absent `logs` does not fill the stream with repeats.

An announcement above `sent` moves `sent` forward: the agent was restarted and did not know how far it had been.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.logs_wire import CHUNK_MAX_BYTES

WINDOW_BYTES: Final = 64 * CHUNK_MAX_BYTES
SILENCE_S: Final = 5.0
SILENCE_MAX_S: Final = 60.0
REFUSED_PAUSE_S: Final = 0.25
REFUSED_PAUSE_MAX_S: Final = 5.0
GAP_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes to publish next; without a length it is the end mark of the file."""

    offset: int
    length: int

    @property
    def is_end(self) -> bool:
        """Whether this is the end mark."""
        return self.length == 0


class Offsets:
    """Positions of one generation of one file; times are seconds of any monotonic clock."""

    __slots__ = (
        "_end_sent",
        "_gap_at",
        "_gap_time",
        "_hold_until",
        "_progress_at",
        "_refused_pause_s",
        "_room_bytes",
        "_silence_s",
        "_window_bytes",
        "ended",
        "kept",
        "questioning",
        "sent",
    )

    def __init__(self, kept: int = 0, *, window_bytes: int = WINDOW_BYTES) -> None:
        self.kept = kept
        self.sent = kept
        self.ended = False
        self.questioning = False
        self._end_sent = False
        self._window_bytes = window_bytes
        self._room_bytes = window_bytes
        self._progress_at = 0.0
        self._silence_s = SILENCE_S
        self._hold_until = 0.0
        self._refused_pause_s = REFUSED_PAUSE_S
        self._gap_at = -1
        self._gap_time = 0.0

    @property
    def waiting(self) -> bool:
        """Whether something was published that no announcement has confirmed."""
        return not self.ended and (self.sent > self.kept or self._end_sent)

    @property
    def outstanding_bytes(self) -> int:
        """Bytes published and not confirmed."""
        return self.sent - self.kept

    def next_piece(self, size: int, *, complete: bool, now: float) -> Piece | None:
        """What to publish next of a file that has `size` bytes, and is `complete` when it will not grow any more."""
        if self.ended or now < self._hold_until:
            return None
        room = min(self.kept + self._window(), size) - self.sent
        if room > 0:
            return Piece(self.sent, min(room, CHUNK_MAX_BYTES))
        if complete and self.sent >= size and not self._end_sent:
            return Piece(self.sent, 0)
        return None

    def published(self, piece: Piece, now: float) -> None:
        """A piece went out."""
        if not self.waiting:
            self._progress_at = now
        self._end_sent = self._end_sent or piece.is_end
        self.sent = max(self.sent, piece.offset + piece.length)

    def announced(self, kept: int, *, ended: bool, gap: bool, now: float) -> None:
        """`logs` said how far it is."""
        if ended and kept >= self.sent:
            self.ended = True
        if gap:
            self._go_back_to_gap(kept, now)
        if kept > self.kept or ended:
            self._silence_s = SILENCE_S
            self._refused_pause_s = REFUSED_PAUSE_S
            self._hold_until = 0.0
            self._room_bytes = min(2 * self._room_bytes, self._window_bytes)
        if kept >= self.kept:
            self.questioning = False
            self._progress_at = now
        self.kept = max(self.kept, kept)
        self.sent = max(self.sent, self.kept)

    def refused(self, offset: int, now: float) -> None:
        """JetStream did not take the piece at this offset."""
        if now >= self._hold_until:  # the chunks behind the first that was refused are refused, too
            self._hold_until = now + self._refused_pause_s
            self._refused_pause_s = min(2 * self._refused_pause_s, REFUSED_PAUSE_MAX_S)
            self._room_bytes = max(CHUNK_MAX_BYTES, self._room_bytes // 2)
        self._go_back(max(self.kept, min(offset, self.sent)))

    def disconnected(self) -> None:
        """Whatever is not kept may be lost."""
        self._go_back(self.kept)

    def check_silence(self, now: float) -> None:
        """Ask again where nothing was announced for too long."""
        if self.waiting and now - self._progress_at >= self._silence_s:
            self._silence_s = min(2 * self._silence_s, SILENCE_MAX_S)
            self._progress_at = now
            self._go_back(self.kept)
            self.questioning = True

    def _window(self) -> int:
        return CHUNK_MAX_BYTES if self.questioning else self._room_bytes

    def _go_back_to_gap(self, kept: int, now: float) -> None:
        if kept == self._gap_at and now - self._gap_time < GAP_PAUSE_S:
            return
        self._gap_at, self._gap_time = kept, now
        self.kept = min(self.kept, kept)
        self._go_back(max(self.kept, kept))

    def _go_back(self, offset: int) -> None:
        self.sent = min(self.sent, offset)
        self._end_sent = False
