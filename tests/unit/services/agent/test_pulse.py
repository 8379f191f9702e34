"""By what a kubelet sees that the agent can work."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.agent.pulse import beat


class SeenEnoughError(Exception):
    """The test has seen enough."""


async def test_the_file_is_renewed_while_the_agent_can_work_and_a_disk_that_fails_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("services.agent.lanes._FAILED_S", 0)
    file, answers = tmp_path / "place" / "ready", iter((True, False, True))
    seen: list[bool] = []

    async def sleep(_: float) -> None:
        seen.append(file.exists())
        file.unlink(missing_ok=True)
        file.parent.mkdir(exist_ok=True)
        if len(seen) == 3:
            raise SeenEnoughError

    with pytest.raises(SeenEnoughError):
        await beat(file, lambda: next(answers), sleep)
    assert seen == [False, False, True]
