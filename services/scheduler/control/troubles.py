"""What keeps a gang from being started or let go at this moment, in words for whoever asks where the job stands.

A call of the engine that failed for no reason of the job's own (a full disk, say) is made again and again, and the job
seems to stand still meanwhile. Its trouble is noted here, by gang, until a call succeeds; and beside it what the engine
says of replicas that do not run yet, such as an image that cannot be pulled. Paths inside of the home are
nobody's business, so that an error of the system is told without them, and an unexpected one stays in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from services.scheduler.domain.holdups import holdups_sentence
from shared.errors import TrainmasterError

Reasons = Callable[[], Mapping[str, str]]

UNEXPECTED: Final = "an unexpected error, which the scheduler's log describes"


class Troubles:
    """Troubles by gang; of one term and the next alike, since gangs outlive terms."""

    def __init__(self) -> None:
        self._sentences: dict[str, str] = {}
        self._holdups: dict[str, Reasons] = {}

    def note(self, gang: str, error: Exception) -> None:
        """A call about the gang failed, and is made again."""
        failed = f"the machine could not do what was asked of it for this job ({_reason(error)})"
        self._sentences[gang] = f"{failed}, and tries again every second"

    def unknown(self, gang: str, cluster: str) -> None:
        """What became of the gang cannot be told, as its cluster has not answered yet."""
        self._sentences[gang] = (
            f"cluster {cluster} does not answer, so that nothing is known of what runs there; it is left as it is"
        )

    def foreign(self, gang: str, cluster: str, clusters: Collection[str]) -> None:
        """The gang is in a cluster that the settings do not name any more."""
        self._sentences[gang] = (
            f"cluster {cluster} is not in the scheduler's settings any more, which name {', '.join(clusters)}; what "
            f"runs there is left as it is until an admin names {cluster} again"
        )

    def over(self, gang: str) -> None:
        """A call about the gang succeeded."""
        self._sentences.pop(gang, None)

    def waits(self, gang: str, reasons: Reasons | None) -> None:
        """This tells, whenever it is asked, which replicas of the gang do not run yet; None: nobody asks any more."""
        if reasons is not None:
            self._holdups[gang] = reasons
        else:
            self._holdups.pop(gang, None)

    def told(self, gang: str) -> str:
        """The sentence, or nothing where all is well."""
        reasons = self._holdups.get(gang)
        holdups = holdups_sentence(reasons()) if reasons is not None else ""
        return ", ".join(filter(None, (self._sentences.get(gang, ""), holdups)))


def _reason(error: Exception) -> str:
    match error:
        case TrainmasterError():
            return error.message
        case OSError(strerror=str(reason)):
            return reason
        case _:
            return UNEXPECTED
