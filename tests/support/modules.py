"""Modules that a test runs as processes of their own, whose output is in files, and the environment of a scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.scheduling import Rig
from tests.support.services import eventually


@dataclass
class Modules:
    """Processes with names; what each says is in the file of its name."""

    directory: Path
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, module: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with self.output(name).open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
                stdout=output,
                stderr=output,
            )
        self._started.append(process)
        return process

    def output(self, name: str) -> Path:
        return self.directory / name

    async def said(self, name: str, words: str, limit_s: float = 20) -> str:
        """What the process has said, as soon as these words are in it."""

        async def look() -> str | None:
            text = self.output(name).read_text()
            return text if words in text else None

        return await eventually(look, limit_s)

    def kill_all(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@contextmanager
def modules_in(directory: Path) -> Iterator[Modules]:
    """None of them outlives the block."""
    modules = Modules(directory)
    try:
        yield modules
    finally:
        modules.kill_all()


def scheduler_environment(rig: Rig, directory: Path, name: str) -> dict[str, str]:
    """Of one of several schedulers, with a home of its own."""
    rig.settings()  # makes the files that the settings name
    (directory / f"{name}-home").mkdir()
    return {
        "TRAINMASTER_NATS_URL": rig.nats.url,
        "TRAINMASTER_HOME": str(directory / f"{name}-home"),
        "TRAINMASTER_INSTANCE": name,
        "TRAINMASTER_JWKS_FILE": str(rig.home / "jwks.json"),
        "TRAINMASTER_SECRET_KEYS_FILE": str(rig.home / "secret-keys.json"),
    }
