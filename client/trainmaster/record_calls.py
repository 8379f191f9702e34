"""What a job left and leaves behind beside its logs: scalars, what its replicas use, and TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trainmaster import sse
from trainmaster.decoding import Document, Fields
from trainmaster.documents import Curve
from trainmaster.documents.resources import ReplicaResources
from trainmaster.documents.scalars import grown
from trainmaster.documents.tensorboard import TensorBoard
from trainmaster.errors import UnexpectedAnswerError
from trainmaster.transport import Params, Transport, quoted

Notice = Callable[[sse.Interruption], None]


class RecordCalls:
    """The part of a `Client` that is about records of jobs; the client has the connection."""

    _transport: Transport

    def _follow(self, path: str, params: Params, notice: Notice | None, last_id: str = "") -> Iterator[sse.SseEvent]:
        raise NotImplementedError

    def scalars(
        self,
        job: str,
        *,
        tag: str | tuple[str, ...] | None = None,
        attempt: int | str | None = None,
        points: int | None = None,
    ) -> tuple[Curve, ...]:
        """The curves that the job wrote for TensorBoard; `attempt` is a number, several with commas, or `all`."""
        params: Params = {"tag": tag, "attempt": attempt, "points": points}
        answer = Fields.of(self._transport.document("GET", f"/v1/scalars/{quoted(job)}", params=params))
        return tuple(map(Curve.of, answer.each("tags")))

    def scalars_csv(
        self, job: str, *, tag: str | tuple[str, ...] | None = None, attempt: int | str | None = None
    ) -> Iterator[bytes]:
        """Every point as lines of CSV, in pieces."""
        params: Params = {"tag": tag, "attempt": attempt}
        headers = {"Accept": "text/csv"}
        with self._transport.stream(f"/v1/scalars/{quoted(job)}/csv", params=params, headers=headers) as response:
            yield from response.iter_bytes()

    def follow_scalars(
        self,
        job: str,
        *,
        tag: str | tuple[str, ...] | None = None,
        attempt: int | str | None = None,
        points: int | None = None,
        notice: Notice | None = None,
    ) -> Iterator[tuple[Curve, ...]]:
        """All curves, again and again as they grow, until the job has ended."""
        params: Params = {"tag": tag, "attempt": attempt, "points": points}
        curves: tuple[Curve, ...] = ()
        for event in self._follow(f"/v1/scalars/{quoted(job)}/follow", params, notice):
            if event.event == "end":
                return
            sent = tuple(map(Curve.of, Fields.of(event_json(event)).each("tags")))
            curves = sent if event.event == "curves" else grown(curves, sent)
            yield curves

    def resources(self, job: str, *, attempt: int | None = None) -> tuple[ReplicaResources, ...]:
        """What each replica uses and has used, from samples that are some seconds apart."""
        params: Params = {"attempt": attempt, "history": "true"}
        answer = Fields.of(self._transport.document("GET", f"/v1/resources/{quoted(job)}", params=params))
        return tuple(map(ReplicaResources.of, answer.each("replicas")))

    def open_tensorboard(
        self, jobs: Sequence[str], *, attempts: Sequence[int] = (), directory: str | None = None
    ) -> TensorBoard:
        """Start TensorBoard on jobs, or on a directory that is on a mount of one; it stops by itself."""
        body: Document = {"jobs": list(jobs), "attempts": list(attempts), "dir": directory}
        answer = self._transport.document("POST", "/v1/tensorboard", json=body)
        return TensorBoard.of(answer, self._transport.url)

    def stop_tensorboard(self, board: str) -> None:
        """Stop a TensorBoard by its id."""
        self._transport.request("DELETE", f"/v1/tensorboard/{quoted(board)}")


def event_json(event: sse.SseEvent) -> Any:
    """The JSON of an event; raises UnexpectedAnswerError."""
    try:
        return json.loads(event.data)
    except ValueError as error:
        raise UnexpectedAnswerError(f"the platform streamed {event.data!r:.60}, which is no JSON") from error
