"""Code that pods fetch: whoever has the gang's ticket gets it, nobody else."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

import pytest

from services.scheduler.api.gang_code import gang_code_router
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodePacked, CodeUpload
from services.scheduler.sources import code as code_module
from services.scheduler.sources import gang_code as gang_code_module
from services.scheduler.sources.code import CodeSource
from services.scheduler.sources.gang_code import GangCode
from services.scheduler.sources.git_command import Git
from services.scheduler.sources.repositories import Repositories
from shared import events as ev
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.bus.streams import CODE_BUCKET, GANG_CODE_BUCKET
from shared.clock import SystemClock
from shared.errors import ForbiddenError, NotFoundError
from shared.events import decode
from shared.http.app import create_app
from shared.jobs import Job, fold_all
from shared.vault.keyring import Keyring
from tests.support.archives import archive
from tests.support.git import WorkTree
from tests.support.http import KnownTokens, calling
from tests.support.jobs import history, role, submitted

GANG, OTHER = "tj-abcdefghijkl-1", "tj-abcdefghijkl-2"


@pytest.fixture
def blobs(bus: Bus) -> Blobs:
    return Blobs(bus.js, GANG_CODE_BUCKET)


@pytest.fixture
def code(blobs: Blobs, tmp_path: Path) -> GangCode:
    return GangCode(blobs, Keyring.generate(), tmp_path / "gang-code")


def file_of(tmp_path: Path, content: bytes = b"archive") -> Path:
    made = tmp_path / "code.tar.gz"
    made.write_bytes(content)
    return made


async def test_the_ticket_of_a_gang_opens_its_code_and_no_others(code: GangCode, tmp_path: Path):
    kept = await code.keep(GANG, file_of(tmp_path))
    await code.keep(OTHER, file_of(tmp_path, b"another"))
    assert (await code.archive(GANG, kept.ticket)).read_bytes() == b"archive"
    with pytest.raises(ForbiddenError):
        await code.archive(OTHER, kept.ticket)


@pytest.mark.parametrize("ticket", ["", "x", "ä", base64.urlsafe_b64encode(b"{}").decode()])
async def test_what_is_no_ticket_opens_nothing(code: GangCode, tmp_path: Path, ticket: str):
    await code.keep(GANG, file_of(tmp_path))
    with pytest.raises(ForbiddenError):
        await code.archive(GANG, ticket)


async def test_a_ticket_of_another_platform_opens_nothing(code: GangCode, blobs: Blobs, tmp_path: Path):
    foreign = await GangCode(blobs, Keyring.generate(), tmp_path / "foreign").keep(GANG, file_of(tmp_path))
    with pytest.raises(ForbiddenError):
        await code.archive(GANG, foreign.ticket)


async def test_code_that_was_kept_anew_takes_the_place_of_what_was_there(code: GangCode, tmp_path: Path):
    before = await code.keep(GANG, file_of(tmp_path))
    await code.archive(GANG, before.ticket)
    after = await code.keep(GANG, file_of(tmp_path, b"anew"))
    assert (await code.archive(GANG, after.ticket)).read_bytes() == b"anew"


async def test_code_that_is_gone_is_told_so(code: GangCode, blobs: Blobs, tmp_path: Path):
    kept = await code.keep(GANG, file_of(tmp_path))
    await blobs.remove(GANG)
    with pytest.raises(NotFoundError):
        await code.archive(GANG, kept.ticket)


async def test_a_few_copies_stay_on_this_machine(code: GangCode, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(gang_code_module, "COPIES_MAX", 2)
    for attempt in range(1, 5):
        gang = f"tj-abcdefghijkl-{attempt}"
        await code.archive(gang, (await code.keep(gang, file_of(tmp_path))).ticket)
    assert len(list((tmp_path / "gang-code").iterdir())) == 2


async def test_without_keys_large_code_is_refused(blobs: Blobs, tmp_path: Path):
    with pytest.raises(StartRefusedError, match="no keys"):
        await GangCode(blobs, None, tmp_path / "gang-code").keep(GANG, file_of(tmp_path))


async def test_pods_get_it_by_http_without_an_account(code: GangCode, tmp_path: Path):
    kept = await code.keep(GANG, file_of(tmp_path))
    app = create_app(service="scheduler", title="t", routers=[gang_code_router(code)], auth=KnownTokens())
    async with calling(app, None) as client:
        answer = await client.get(f"/v1/gang-code/{GANG}", headers={"Tm-Code-Ticket": kept.ticket})
        assert (answer.status_code, answer.content) == (200, b"archive")
        assert (await client.get(f"/v1/gang-code/{GANG}")).status_code == 403


# --- code of jobs, for an engine that does not use this machine


def job(digest: str) -> Job:
    resolved = ev.Resolved(cluster="main", roles=(role(),), code=ev.ResolvedCode(kind="upload", digest=digest))
    return fold_all(history([(submitted(resolved=resolved), 1)]))


@pytest.fixture
def source(bus: Bus, code: GangCode, tmp_path: Path) -> CodeSource:
    blobs, own = Blobs(bus.js, CODE_BUCKET), tmp_path / "own"
    repositories = Repositories(own, Git(own))
    return CodeSource(bus, blobs, repositories, None, SystemClock(), tmp_path / "archives", code)


async def test_small_code_is_handed_on_whole(bus: Bus, source: CodeSource):
    digest = await Blobs(bus.js, CODE_BUCKET).put(archive({"a.py": "1"}))
    async with source.of(job(digest), laid=False) as found:
        assert isinstance(found, CodePacked)
        assert found.content.startswith(b"\x1f\x8b")


async def test_large_code_is_kept_for_the_gangs_pods(bus: Bus, source: CodeSource, code: GangCode, monkeypatch):
    monkeypatch.setattr(code_module, "PACKED_MAX_BYTES", 10)
    digest = await Blobs(bus.js, CODE_BUCKET).put(archive({"a.py": "1"}))
    attempt = job(digest)
    async with source.of(attempt, laid=False) as found:
        assert isinstance(found, CodeUpload)
    assert found.digest == digest
    assert (await code.archive(f"{attempt.id}-1", found.ticket)).exists()


async def test_git_is_read_by_the_scheduler_and_the_commit_is_on_record_before_pods_get_it(
    bus: Bus, source: CodeSource, tmp_path: Path
):
    tree = WorkTree.make(tmp_path / "code")
    commit = tree.commit(train="echo hello")
    code = ev.ResolvedCode(kind="git", uri=f"file://{tree.path}", revision="main")
    resolved = ev.Resolved(cluster="main", roles=(role(),), code=code)
    async with source.of(fold_all(history([(submitted(resolved=resolved), 1)])), laid=False) as found:
        assert isinstance(found, CodePacked)
        with tarfile.open(fileobj=io.BytesIO(found.content)) as archived:
            assert "train.sh" in archived.getnames()
    (recorded,) = await bus.history.messages("JOBS", "tm.job.*.obs.>", after=0)
    assert decode(recorded.data).data.revision == commit
