"""Jobs whose code is a commit of a git repository: what runs is what is on record, however often it is started."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shared import events as ev
from shared.catalog import Secret
from shared.jobs import JobState
from shared.vault import Vault
from tests.integration.scheduler.test_secrets import keep
from tests.support.catalog import secret
from tests.support.git import WorkTree, git_server
from tests.support.holders import holders
from tests.support.scheduling import Rig
from tests.support.services import running

RUN = "sh /code/train.sh"


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    return WorkTree.make(tmp_path / "code")


def git_code(url: str, revision: str | None = None, **more) -> dict:
    resolved = ev.ResolvedCode(kind="git", uri=url, revision=revision, **more)
    return {"code": {"source": "mine"}, "resolved_code": resolved}


async def test_the_commit_of_a_branch_runs_and_is_on_record(rig: Rig, tree: WorkTree):
    commit = tree.commit(train="echo from git")
    async with running(await rig.scheduler()):
        job = await rig.submit(RUN, **git_code(f"file://{tree.path}", "main", root=f"file://{tree.path}"))
        done = await rig.until(job, JobState.SUCCEEDED)
    assert rig.log(job) == "from git\n"
    assert done.attempt.code.revision == commit


async def test_each_attempt_runs_what_the_branch_was_at_its_start(rig: Rig, tree: WorkTree):
    first = tree.commit(train="exit 3")
    async with running(await rig.scheduler()):
        job = await rig.submit(RUN, **git_code(f"file://{tree.path}"))
        await rig.until(job, JobState.DECIDING)
        second = tree.commit(train="exit 0")
        await rig.append(ev.RetryDecided(retry=True, reason="once more"), job)
        done = await rig.until(job, JobState.SUCCEEDED)
    assert [attempt.code.revision for attempt in done.attempts] == [first, second]


async def test_a_start_that_is_repeated_runs_the_commit_on_record(rig: Rig, tree: WorkTree):
    first = tree.commit(train="echo first")
    job = await rig.submit(RUN, **git_code(f"file://{tree.path}"))
    tree.commit(train="echo second")
    fact = ev.CodeResolved(uri=f"file://{tree.path}", revision=first)
    submitted = await rig.job(job)
    event = ev.Event.of(
        fact, job=job, attempt=1, time=submitted.submitted_at, owner=submitted.owner, project=submitted.project
    )
    await rig.bus.observe(event)
    async with running(await rig.scheduler()):
        done = await rig.until(job, JobState.SUCCEEDED)
    assert rig.log(job) == "first\n"
    assert done.attempt.code.revision == first


async def test_a_private_repository_is_opened_with_the_secret_of_the_code_sets_owner(
    rig: Rig, tree: WorkTree, tmp_path: Path
):
    tree.commit(train="env | grep -c s3cret-token; ls -a /code")
    await keep(rig, secret("token", "bob"))
    await Vault(rig.bus, rig.keyring).keep(Secret.id_of("token"), "s3cret-token\n")
    with git_server(tmp_path, tmp_path, login="git:s3cret-token") as server:
        code = git_code(server.url("code/.git"), secret="token", owner="bob")
        async with running(await rig.scheduler(git_ca_file=server.ca_file)):
            job = await rig.submit(RUN, **code)
            await rig.until(job, JobState.SUCCEEDED)
            assert rig.log(job).split() == ["0", ".", "..", "train.sh"]
            denied = await rig.submit(RUN, name="denied", **git_code(server.url("code/.git")))
            done = await rig.until(denied, JobState.DECIDING)
    assert "asks for a user and password" in done.attempt.ended.message
    held = holders(rig.home, "s3cret-token")
    assert [path for path in held if "/code/" not in str(path)] == []


async def test_what_cannot_be_fetched_fails_the_attempt_with_the_reason(rig: Rig, tree: WorkTree):
    tree.commit(train="true")
    async with running(await rig.scheduler()):
        job = await rig.submit(RUN, **git_code(f"file://{tree.path}", "nowhere"))
        done = await rig.until(job, JobState.DECIDING)
    assert f"code from file://{tree.path}: it has no branch, tag or commit 'nowhere'" in done.attempt.ended.message


async def test_a_job_that_is_stopped_while_its_code_is_fetched_ends_at_once(rig: Rig):
    silent = await asyncio.start_server(lambda *_: asyncio.sleep(60), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with running(await rig.scheduler()):
        job = await rig.submit(RUN, **git_code(f"https://127.0.0.1:{port}/x"))
        await rig.until(job, JobState.STARTING)
        await rig.append(ev.StopRequested(by="u-ada"), job)
        await rig.until(job, JobState.STOPPED, limit_s=45)
    silent.close()


async def test_a_platform_that_ends_while_code_is_fetched_does_not_wait_for_it(rig: Rig):
    silent = await asyncio.start_server(lambda *_: asyncio.sleep(60), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with asyncio.timeout(45):
        async with running(await rig.scheduler()):
            job = await rig.submit(RUN, **git_code(f"https://127.0.0.1:{port}/x"))
            await rig.until(job, JobState.STARTING)
    assert (await rig.job(job)).state is JobState.STARTING
    silent.close()
