"""A machine without bubblewrap: what is then refused, what has real paths, and what still holds."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.scheduler.engines.local.engine import LocalEngine, LocalSettings
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeInline, GangMount
from tests.support.local_engine import Bench, bench, gang_of, log_of, replica_dir


@pytest.fixture
async def desk(settings: LocalSettings) -> AsyncIterator[Bench]:
    async with bench(replace(settings, sandboxed=False)) as made:
        yield made


async def test_without_bubblewrap_the_reason_says_how_to_install_it(
    settings: LocalSettings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    engine = await LocalEngine.open(settings)

    assert "apt-get install bubblewrap" in (await engine.inventory()).no_mounts_because
    engine.close()


async def test_a_bubblewrap_that_does_not_work_is_found_out(
    settings: LocalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no namespaces for you >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    engine = await LocalEngine.open(settings)

    assert engine.no_sandbox_because == "bubblewrap does not work here: no namespaces for you"
    engine.close()


async def test_mounts_are_refused(desk: Bench, tmp_path: Path):
    gang = gang_of("true", mounts=(GangMount(tmp_path, "/mnt/data"),))

    with pytest.raises(StartRefusedError, match="mounts need a sandbox: it is switched off"):
        await desk.engine.start(gang)
    await desk.engine.stop(gang.id, 0)

    assert (await desk.exits(gang))[0].cause == "never-started"


async def test_paths_are_real_and_the_master_is_this_machine(desk: Bench, home: Path):
    gang = gang_of(
        "pwd; cat train.py; echo $MASTER_ADDR $PET_MASTER_ADDR; cat $VC_WORKER_HOSTS_FILE; echo $HOME $TMPDIR",
        env={"MASTER_ADDR": "a-host", "VC_WORKER_HOSTS_FILE": "/etc/trainmaster/hosts/worker"},
        code=CodeInline({"train.py": "print()\n"}),
        files={"hosts/worker": "a\n"},
    )

    await desk.run(gang)

    tmp = replica_dir(home, gang) / "tmp"
    assert log_of(home, gang).splitlines() == [
        str(home / "gangs" / gang.id / "code"),
        "print()",
        "127.0.0.1 127.0.0.1",
        "a",
        f"{tmp} {tmp}",
    ]
