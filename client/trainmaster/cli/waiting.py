"""Says why a job that is being followed does not run yet, so that nobody looks at a silent screen.

Once it has waited for a few seconds the platform is asked for its explanation, and again from time to time; the summary
is said when it is new. What the platform cannot answer now is left out: it is a remark, and the next one may come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trainmaster.documents import Explanation, JobEvent
from trainmaster.documents.jobs import ENDED_STATES
from trainmaster.errors import TrainmasterError

FIRST_AFTER_S: Final = 3.0
AGAIN_AFTER_S: Final = 5.0
_SILENT_STATES: Final = ENDED_STATES | {"Running"}


class WaitTeller:
    """Gives what to say about a job while it waits; call it often, and let it hear of every event."""

    def __init__(self, ask: Callable[[], Explanation], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._ask_at_s: float | None = clock() + FIRST_AFTER_S
        self._last_said = ""

    def hear(self, event: JobEvent) -> None:
        """Take note of what happened: there is nothing to explain from the start to the end of an attempt."""
        if event.name == "started" or event.final_state is not None:
            self._ask_at_s = None
        elif event.name == "attempt.ended":
            self._ask_at_s, self._last_said = self._clock() + FIRST_AFTER_S, ""

    def __call__(self) -> str | None:
        """What to say now, or None."""
        now_s = self._clock()
        if self._ask_at_s is None or now_s < self._ask_at_s:
            return None
        self._ask_at_s = now_s + AGAIN_AFTER_S
        try:
            return self._news(self._ask())
        except TrainmasterError:
            return None

    def _news(self, answer: Explanation) -> str | None:
        if answer.state in _SILENT_STATES or answer.summary == self._last_said:
            return None
        first, self._last_said = not self._last_said, answer.summary
        more = f" (`trainmaster explain {answer.job}` says more)" if first and answer.blockers else ""
        return f"{answer.state}: {answer.summary}{more}"
