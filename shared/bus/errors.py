"""What can go wrong on the bus, as errors that carry the subject and the sequences."""

from __future__ import annotations

from shared.errors import TrainmasterError


class BusError(TrainmasterError):
    """The bus refused something that should not be refused: a programming or set-up error."""

    code = "internal"


class ProvisionError(BusError):
    """A stream, consumer or bucket exists with other settings than this version needs."""

    def __init__(self, what: str, setting: str, found: object, wanted: object) -> None:
        super().__init__(
            f"{what} exists with {setting} = {found!r}, this version needs {wanted!r}; "
            f"it is not changed silently: set it right, or go back to the version or the values that made it",
        )
        self.what = what
        self.setting = setting


class BusUnavailableError(TrainmasterError):
    """NATS is away, or JetStream does not answer; nothing is known about the last write."""

    code = "unavailable"


class ConcurrentWriteError(TrainmasterError):
    """Somebody else wrote to the job first: read it again and decide anew."""

    code = "conflict"

    def __init__(self, subject: str, expected: int) -> None:
        super().__init__(f"{subject} has moved on from sequence {expected}")
        self.subject = subject
        self.expected = expected


class FencedError(TrainmasterError):
    """Another scheduler has taken over; this one must not write any more."""

    code = "conflict"

    def __init__(self, epoch: int) -> None:
        super().__init__(f"leadership has moved on from epoch {epoch}")
        self.epoch = epoch
