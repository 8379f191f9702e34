from __future__ import annotations

import pytest

from services.diagnoser.handlers import on_diagnosis_requested
from shared import events as ev
from shared.bus.deadletters import UnhandleableError
from shared.jobs import Recorded
from tests.support.jobs import event


async def test_a_request_is_refused_with_a_reason_that_names_the_job() -> None:
    request = event(ev.DiagnosisRequested(nodes=("n-1",)), "tj-aaaaaaaaaaaa")
    with pytest.raises(UnhandleableError, match="tj-aaaaaaaaaaaa") as raised:
        await on_diagnosis_requested(Recorded(1, ev.subject_of(request), request))
    assert raised.value.reason == "diagnosis-not-available"
