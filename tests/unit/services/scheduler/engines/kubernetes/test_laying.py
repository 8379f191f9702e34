"""The program that fills a pod's folder."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes import laying
from services.scheduler.engines.kubernetes.laying import TICKET_HEADER, TICKET_VARIABLE, fetch, main
from services.scheduler.ports.engine import StartRefusedError
from shared.admission.packing import compressed

ARCHIVE = compressed({"train.py": "print(1)", "a/b.py": "2"})
DIGEST = f"sha256:{hashlib.sha256(ARCHIVE).hexdigest()}"


class Scheduler(BaseHTTPRequestHandler):
    """Gives the archive to whoever shows the ticket, once it has been away for as often as it is told."""

    away = 0

    def do_GET(self) -> None:
        cls = type(self)
        if cls.away > 0:
            cls.away -= 1
            self.send_error(503)
        elif self.headers[TICKET_HEADER] != "billet":
            self.send_error(403)
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ARCHIVE)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def scheduler() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Scheduler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code"
    made.mkdir()
    return made


@pytest.fixture
def message(tmp_path: Path) -> Path:
    return tmp_path / "termination-log"


def url_of(server: HTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1/gang-code/x"


def test_an_archive_is_unpacked(folder, message, tmp_path):
    archive = tmp_path / "archive"
    archive.write_bytes(ARCHIVE)
    assert main(["archive", str(archive), str(folder)], message) == 0
    assert (folder / "a/b.py").read_text() == "2"
    assert not message.exists()


def test_what_an_interrupted_run_left_is_removed_first(folder, message, tmp_path):
    (folder / "train.py").mkdir()
    (folder / "old").symlink_to("/etc")
    archive = tmp_path / "archive"
    archive.write_bytes(ARCHIVE)
    assert main(["archive", str(archive), str(folder)], message) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["a", "train.py"]


def test_a_directory_is_copied(folder, message, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "x.py").write_text("3")
    assert main(["directory", str(source), str(folder)], message) == 0
    assert (folder / "x.py").read_text() == "3"


def test_code_is_fetched_with_the_ticket_of_the_environment(scheduler, folder, message, monkeypatch):
    monkeypatch.setenv(TICKET_VARIABLE, "billet")
    assert main(["url", url_of(scheduler), DIGEST, str(folder)], message) == 0
    assert (folder / "train.py").read_text() == "print(1)"


def test_other_code_than_the_gang_was_started_with_is_refused(scheduler, folder, message, monkeypatch):
    monkeypatch.setenv(TICKET_VARIABLE, "billet")
    assert main(["url", url_of(scheduler), "sha256:0", str(folder)], message) == 1
    assert "not the code that this gang was started with" in message.read_text()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [["archive", "/missing", "{folder}"], ["directory", "/missing", "{folder}"], []])
def test_a_failure_is_told_in_one_sentence(arguments, folder, message, capsys):
    assert main([each.format(folder=folder) for each in arguments], message) == 1
    assert message.read_text().strip()
    assert "Traceback" not in message.read_text() + capsys.readouterr().err


def test_a_scheduler_that_is_away_is_asked_again(scheduler, tmp_path, monkeypatch):
    monkeypatch.setattr(Scheduler, "away", 3)
    pauses: list[float] = []
    with (tmp_path / "got").open("w+b") as file:
        fetch(url_of(scheduler), "billet", file, sleep=pauses.append)
        file.seek(0)
        assert file.read() == ARCHIVE
    assert pauses == [laying.PAUSE_S] * 3


def test_one_that_stays_away_is_given_up(tmp_path):
    pauses: list[float] = []
    with (tmp_path / "got").open("w+b") as file, pytest.raises(StartRefusedError, match="cannot be fetched"):
        fetch("http://127.0.0.1:9/", "billet", file, sleep=pauses.append)
    assert sum(pauses) == pytest.approx(laying.PATIENCE_S, abs=2 * laying.PAUSE_S)


def test_a_ticket_that_is_refused_is_not_shown_again(scheduler, tmp_path):
    pauses: list[float] = []
    with (tmp_path / "got").open("w+b") as file, pytest.raises(StartRefusedError, match="403"):
        fetch(url_of(scheduler), "wrong", file, sleep=pauses.append)
    assert pauses == []
