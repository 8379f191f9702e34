"""The command as a process: what it loads, how it meets pipes, signals and terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fake_platform import Answer, FakePlatform, fake_platform, of_events, of_json
from tests.support.job_documents import JOB_ID, event_document, job_document

ROOT = Path(__file__).parents[3]
JOB = "apiVersion: trainmaster/v1\nkind: TrainingJob\nmetadata: {name: mnist-ddp}\nspec: {}\n"


@pytest.fixture
def platform() -> Iterator[FakePlatform]:
    with fake_platform() as running:
        yield running


@pytest.fixture
def environ(platform: FakePlatform, tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "TERM": "xterm",
        "PYTHONPATH": str(ROOT / "client"),
        "TRAINMASTER_CONFIG": str(tmp_path / "credentials.json"),
        "TRAINMASTER_URL": platform.url,
        "TRAINMASTER_TOKEN": "token-1",
    }


def trainmaster(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trainmaster", *arguments]


Watched = Callable[[str], None]


def log_chunk(text: str, index: int = 0) -> tuple[str, str, dict[str, object]]:
    return "c", "chunk", {"attempt": 1, "role": "worker", "index": index, "offset": 0, "text": text}


def test_help_loads_no_library_that_takes_long(environ: dict[str, str]) -> None:
    slow = {"httpx", "rich", "yaml", "plotext", "pathspec", "importlib.metadata"}
    program = (
        "import sys; from trainmaster.cli.main import run; before = set(sys.modules); run(['--help']);"
        f"print(sorted({slow!r} & (set(sys.modules) - before)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: trainmaster")
    assert done.stderr == "[]\n"


def test_shells_can_ask_for_completions(environ: dict[str, str]) -> None:
    asked = {"_TRAINMASTER_COMPLETE": "bash_complete", "COMP_WORDS": "trainmaster des", "COMP_CWORD": "1"}
    done = subprocess.run(trainmaster(), env=environ | asked, capture_output=True, text=True, check=False)
    assert done.stdout == "plain,describe\n"


def test_a_reader_that_leaves_early_is_no_error_message(environ: dict[str, str], platform: FakePlatform) -> None:
    jobs = [job_document() for _ in range(2000)]
    platform.on("GET", "/v1/jobs", of_json({"items": jobs, "next": None}))
    command = " ".join(trainmaster("get", "jobs", "-o", "json")) + " | head -1; echo ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", command], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "{\n141\n"
    assert done.stderr == ""


def test_control_c_while_following_leaves_the_job_and_says_so(
    environ: dict[str, str], platform: FakePlatform, tmp_path: Path
) -> None:
    gate = threading.Event()
    platform.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
    platform.on("GET", f"/v1/logs/{JOB_ID}/follow", of_events(log_chunk("epoch 1\n"), gate=gate))
    platform.on("GET", f"/v1/jobs/{JOB_ID}/events", of_events(("1", None, event_document("job.started")), gate=gate))
    (tmp_path / "job.yaml").write_text(JOB)
    process = subprocess.Popen(
        trainmaster("apply", "-f", str(tmp_path / "job.yaml"), "--follow"),
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "epoch 1" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    gate.set()
    assert process.returncode == 130
    assert f"{JOB_ID} goes on without you" in err
    assert "Traceback" not in err
    assert platform.asked("POST", f"/v1/jobs/{JOB_ID}/stop") == []


def test_following_survives_a_platform_that_goes_away_and_comes_back(
    environ: dict[str, str], platform: FakePlatform
) -> None:
    def gone() -> Answer:
        return of_events(log_chunk("before\n"), breaks=True)

    placed, succeeded = event_document("job.placed"), event_document("job.succeeded")
    platform.on("GET", "/v1/jobs/mnist", of_json(job_document("Running")))
    platform.on("GET", f"/v1/logs/{JOB_ID}/follow", gone(), of_events(log_chunk("after\n"), ("e", "end", {})))
    platform.on("GET", f"/v1/jobs/{JOB_ID}/events", of_events(("8", None, placed), ("9", None, succeeded)))
    process = subprocess.Popen(
        trainmaster("logs", "mnist", "-f"), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "[worker-0] before\n"
    platform.stop()
    platform.start()
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, "[worker-0] after\n")


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, arguments: list[str], environ: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            arguments, env=environ, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def read_until(self, words: str) -> str:
        text = ""
        while words not in text:
            text += os.read(self._master, 65536).decode()
        return text

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def read_to_the_end(self) -> str:
        text = ""
        try:
            while piece := os.read(self._master, 65536):
                text += piece.decode()
        except OSError:  # what Linux says at the end of a terminal
            pass
        os.close(self._master)
        assert self._process.wait() == 0
        return text


@pytest.mark.parametrize(("extra", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals_that_want_them(
    environ: dict[str, str], platform: FakePlatform, extra: dict[str, str], *, coloured: bool
) -> None:
    platform.on("GET", "/v1/jobs/mnist", of_json(job_document()))
    text = Terminal(trainmaster("describe", "mnist"), environ | extra).read_to_the_end()
    assert "mnist-ddp" in text
    assert ("\x1b[" in text) == coloured


def test_a_password_is_asked_for_and_not_shown(environ: dict[str, str], platform: FakePlatform) -> None:
    platform.on("POST", "/v1/auth/login", of_json({"token": "t"}))
    terminal = Terminal(trainmaster("login", "-u", "ada", "-e", platform.url), environ)
    terminal.read_until("Password: ")
    terminal.type("correct horse")
    assert "correct horse" not in terminal.read_to_the_end()
    assert platform.requests[0].json == {"username": "ada", "password": "correct horse"}
