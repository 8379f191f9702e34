from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fake_platform import Answer, FakePlatform, of_events, of_json, problem
from tests.support.job_documents import JOB_ID, event_document, job_document
from trainmaster.client import Client
from trainmaster.documents import LogSource
from trainmaster.errors import ConflictError, InputError, NotFoundError, PackingError, UnexpectedAnswerError
from trainmaster.sse import Interruption, Patience

DIGEST = "sha256:" + "1" * 64
POOL = {"apiVersion": "trainmaster/v1", "kind": "Pool", "metadata": {"name": "团队 a"}, "spec": {}}
JOB = {"apiVersion": "trainmaster/v1", "kind": "TrainingJob", "metadata": {"name": "mnist"}, "spec": {"roles": []}}
WORKER = LogSource(1, "worker", 0, 9, ended=True)


@pytest.fixture
def client(platform: FakePlatform) -> Iterator[Client]:
    with Client(platform.url, "token-1", patience=Patience(pause=lambda _: None)) as made:
        yield made


def test_login_gives_the_token_and_who_it_is_for(client: Client, platform: FakePlatform) -> None:
    platform.on("POST", "/v1/auth/login", of_json({"token": "t", "expiresAt": "2026-01-02T00:00:00Z"}))
    login = client.login("ada", "pässword")
    assert (login.url, login.username, login.token) == (platform.url, "ada", "t")
    assert platform.requests[0].json == {"username": "ada", "password": "pässword"}


def test_a_login_without_a_token_is_no_login(client: Client, platform: FakePlatform) -> None:
    platform.on("POST", "/v1/auth/login", of_json({}))
    with pytest.raises(UnexpectedAnswerError, match="sent no token"):
        client.login("ada", "x")


class TestApply:
    def test_a_job_is_submitted_under_a_key_that_makes_repeats_harmless(
        self, client: Client, platform: FakePlatform
    ) -> None:
        platform.on("POST", "/v1/jobs", problem(503, "unavailable", "not now"), of_json(job_document("Queued"), 201))
        applied = client.apply(JOB)
        assert (applied.kind, applied.id, applied.created) == ("job", JOB_ID, True)
        first, second = platform.requests
        assert first.json == second.json == JOB
        assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"] != ""

    def test_another_submission_has_another_key(self, client: Client, platform: FakePlatform) -> None:
        platform.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
        client.apply(JOB)
        client.apply(JOB)
        first, second = platform.requests
        assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]

    def test_everything_else_is_put_under_its_name(self, client: Client, platform: FakePlatform) -> None:
        path = "/v1/pools/%E5%9B%A2%E9%98%9F%20a"
        platform.on("PUT", path, of_json(POOL, 201), of_json(POOL, 200))
        assert client.apply(POOL).created
        assert not client.apply(POOL).created
        assert platform.requests[0].json == POOL

    @pytest.mark.parametrize("metadata", [None, {}, {"name": ""}, "x", {"name": None}])
    def test_a_document_without_a_name_is_not_sent(
        self, client: Client, platform: FakePlatform, metadata: object
    ) -> None:
        with pytest.raises(InputError, match=r"metadata\.name is missing"):
            client.apply({**POOL, "metadata": metadata})
        assert platform.requests == []

    def test_a_name_that_yaml_takes_for_a_number_is_not_called_missing(self, client: Client) -> None:
        with pytest.raises(InputError, match="no text; put it in quotes"):
            client.apply({**POOL, "metadata": {"name": 12}})

    def test_a_folder_is_uploaded_and_its_digest_sent(
        self, client: Client, platform: FakePlatform, tmp_path: Path, write: Callable[[str, str], Path]
    ) -> None:
        write("src/train.py", "print(1)\n" * 100_000)
        platform.on("POST", "/v1/assets/uploads", of_json({"digest": DIGEST, "size": 5}, 201))
        platform.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
        progress: list[tuple[int, int]] = []
        document = {**JOB, "spec": {"code": {"upload": "./src"}}}
        client.apply(document, base=tmp_path, progress=lambda sent, total: progress.append((sent, total)))
        upload, submission = platform.requests
        assert upload.headers["Content-Type"] == "application/gzip"
        assert int(upload.headers["Content-Length"]) == len(upload.body) == progress[-1][0] == progress[-1][1]
        assert submission.json["spec"]["code"]["upload"] == DIGEST

    def test_an_unchanged_folder_uploads_the_same_bytes(
        self, client: Client, platform: FakePlatform, tmp_path: Path, write: Callable[[str, str], Path]
    ) -> None:
        write("train.py", "print(1)")
        platform.on("POST", "/v1/assets/uploads", of_json({"digest": DIGEST, "size": 5}, 201))
        client.upload(tmp_path)
        client.upload(tmp_path)
        first, second = (hashlib.sha256(seen.body).digest() for seen in platform.requests)
        assert first == second

    def test_an_archive_that_the_platform_refuses_is_named_by_its_folder(
        self, client: Client, platform: FakePlatform, tmp_path: Path, write: Callable[[str, str], Path]
    ) -> None:
        write("train.py", "print(1)")
        refusal = problem(422, "invalid-input", "/: too many", ("", "archive-too-large", "it has too many files"))
        platform.on("POST", "/v1/assets/uploads", refusal)
        with pytest.raises(PackingError, match=f"does not take {tmp_path}: it has too many files"):
            client.upload(tmp_path)


class TestNames:
    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("a+b@c#d[1]", "/v1/jobs/a%2Bb%40c%23d%5B1%5D"),
            ("训练", "/v1/jobs/%E8%AE%AD%E7%BB%83"),
            ("50%", "/v1/jobs/50%25"),
            ("..", "/v1/jobs/%2E%2E"),
            ("a&b=c;d", "/v1/jobs/a%26b%3Dc%3Bd"),
        ],
    )
    def test_any_legal_name_is_one_segment_of_the_path(
        self, client: Client, platform: FakePlatform, name: str, path: str
    ) -> None:
        platform.on("GET", path, of_json(job_document()))
        assert client.job(name).id == JOB_ID


class TestLists:
    def test_pages_follow_one_another(self, client: Client, platform: FakePlatform) -> None:
        pages = [{"items": [job_document()], "next": "c1"}, {"items": [job_document()], "next": None}]
        platform.on("GET", "/v1/jobs", *map(of_json, pages))
        assert len(list(client.jobs(state="Running"))) == 2
        first, second = platform.requests
        assert first.query == {"state": ["Running"]}
        assert second.query == {"state": ["Running"], "cursor": ["c1"]}

    def test_one_page_can_be_asked_for(self, client: Client, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/pools", of_json({"items": [POOL], "next": "c"}))
        page = client.page("pools", limit=1)
        assert (page.items, page.cursor) == ((POOL,), "c")


class TestJobs:
    def test_stop_gives_the_job_as_it_is_then(self, client: Client, platform: FakePlatform) -> None:
        platform.on("POST", "/v1/jobs/mnist/stop", of_json(job_document("Stopping")))
        assert client.stop("mnist").state == "Stopping"

    def test_delete_goes_to_the_collection_of_the_kind(self, client: Client, platform: FakePlatform) -> None:
        platform.on("DELETE", "/v1/assets/code-sets/x", Answer(204))
        client.delete("CodeSet", "x")
        assert platform.requests[0].method == "DELETE"

    def test_refusals_reach_the_caller(self, client: Client, platform: FakePlatform) -> None:
        platform.on("DELETE", "/v1/jobs/mnist", problem(409, "conflict", "the job is Running"))
        with pytest.raises(ConflictError, match="the job is Running"):
            client.delete("jobs", "mnist")


def event(name: str, sequence: int) -> tuple[str, None, dict[str, object]]:
    return str(sequence), None, event_document(name)


class TestEvents:
    def test_a_history_is_read_at_once(self, client: Client, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/jobs/mnist/events", of_json({"items": [event_document("job.submitted")]}))
        assert [found.name for found in client.events("mnist")] == ["submitted"]

    def test_following_ends_with_the_job(self, client: Client, platform: FakePlatform) -> None:
        stream = of_events(event("job.submitted", 3), event("job.succeeded", 9), event("job.deleted", 10))
        platform.on("GET", "/v1/jobs/mnist/events", stream)
        found = list(client.follow_events("mnist"))
        assert [(one.name, one.sequence) for one in found] == [("submitted", 3), ("succeeded", 9)]
        assert platform.requests[0].headers["Accept"] == "text/event-stream"
        assert platform.requests[0].query == {"follow": ["true"]}

    def test_a_broken_stream_resumes_after_the_last_event(self, client: Client, platform: FakePlatform) -> None:
        platform.on(
            "GET",
            "/v1/jobs/mnist/events",
            of_events(event("job.submitted", 3), breaks=True),
            problem(503, "unavailable", "starting"),
            of_events(event("job.failed", 9)),
        )
        notices: list[Interruption] = []
        assert [found.name for found in client.follow_events("mnist", notice=notices.append)] == ["submitted", "failed"]
        assert [seen.headers.get("Last-Event-ID") for seen in platform.requests] == [None, "3", "3"]
        assert [notice.error is None for notice in notices] == [False, True]

    def test_a_platform_that_goes_away_and_comes_back_is_waited_for(self, platform: FakePlatform) -> None:
        def restart(_pause_s: float) -> None:
            platform.start()

        platform.on("GET", "/v1/jobs/mnist/events", of_events(event("job.succeeded", 9)))
        platform.stop()
        with Client(platform.url, "t", patience=Patience(pause=restart)) as client:
            assert [found.name for found in client.follow_events("mnist")] == ["succeeded"]

    def test_a_job_that_does_not_exist_is_not_waited_for(self, client: Client) -> None:
        with pytest.raises(NotFoundError):
            list(client.follow_events("absent"))

    def test_waiting_gives_the_job_as_it_ended(self, client: Client, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/jobs/mnist/events", of_events(event("job.stopped", 9)))
        platform.on("GET", "/v1/jobs/mnist", of_json(job_document("Stopped")))
        assert client.wait("mnist").state == "Stopped"


def page(content: bytes, offset: int, size: int, *, ended: bool = False) -> Answer:
    headers = {
        "Content-Type": "text/plain",
        "Tm-Offset": str(offset),
        "Tm-Next-Offset": str(offset + len(content)),
        "Tm-Size": str(size),
        "Tm-Ended": str(ended).lower(),
    }
    return Answer(200, content, headers)


class TestLogs:
    def test_a_log_is_read_page_by_page(self, client: Client, platform: FakePlatform) -> None:
        path = "/v1/logs/mnist/1/worker/0"
        platform.on("GET", path, page(b"one\ntw", 0, 9), page(b"o\n\xff", 6, 9, ended=True))
        assert b"".join(found.content for found in client.logs("mnist", WORKER, raw=True)) == b"one\ntwo\n\xff"
        assert [seen.query.get("offset") for seen in platform.requests] == [None, ["6"]]
        assert platform.requests[0].query["raw"] == ["true"]

    def test_an_empty_log_is_no_page(self, client: Client, platform: FakePlatform) -> None:
        platform.on("GET", "/v1/logs/mnist/1/worker/0", page(b"", 0, 0))
        assert list(client.logs("mnist", WORKER)) == []

    def test_which_logs_there_are(self, client: Client, platform: FakePlatform) -> None:
        replica = {"attempt": 1, "role": "worker", "index": 0, "size": 9, "ended": True}
        platform.on("GET", "/v1/logs/mnist", of_json({"replicas": [replica]}))
        assert client.log_sources("mnist") == (WORKER,)

    def test_following_ends_with_the_end_mark_and_resumes_before_it(
        self, client: Client, platform: FakePlatform
    ) -> None:
        def chunk(cursor: str, text: str) -> tuple[str, str, dict[str, object]]:
            return cursor, "chunk", {"attempt": 1, "role": "worker", "index": 0, "offset": 0, "text": text}

        platform.on(
            "GET",
            "/v1/logs/mnist/follow",
            of_events(chunk("c1", "a"), breaks=True),
            of_events(chunk("c2", "b"), ("c3", "end", {})),
        )
        assert [found.text for found in client.follow_logs("mnist", role="worker", tail=5)] == ["a", "b"]
        first, second = platform.requests
        assert first.query == second.query == {"role": ["worker"], "tail": ["5"]}
        assert second.headers["Last-Event-ID"] == "c1"


def test_scalars_become_curves(client: Client, platform: FakePlatform) -> None:
    tag = {"attempt": 1, "run": "", "tag": "loss", "steps": [0, 1], "values": [0.5, None]}
    platform.on("GET", "/v1/scalars/mnist", of_json({"tags": [tag]}))
    (curve,) = client.scalars("mnist", attempt=1)
    assert (curve.tag, curve.points[0].value, curve.points[1].step) == ("loss", 0.5, 1)
    assert platform.requests[0].query == {"attempt": ["1"]}


def test_explain_asks_the_queue(client: Client, platform: FakePlatform) -> None:
    platform.on("GET", "/v1/queue/mnist", of_json({"job": JOB_ID, "state": "Queued", "summary": "waits"}))
    assert client.explain("mnist").summary == "waits"
