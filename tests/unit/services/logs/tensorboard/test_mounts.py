"""Directories on mounts of this machine: what may be shown, and what leads elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.logs.tensorboard.mounts import mount_path, place_on_machine
from shared import events as ev
from shared.errors import InvalidInputError
from shared.jobs import Job
from tests.support.jobs import job_after


def job_with_mount(uri: str, root: str | None = None, path: str = "/mnt/data") -> Job:
    job = job_after()
    mount = ev.ResolvedMount(mount_path=path, type="storage", source="data", uri=uri, root=root)
    resolved = job.submitted.resolved.model_copy(update={"mounts": (mount,)})
    return job.model_copy(update={"submitted": job.submitted.model_copy(update={"resolved": resolved})})


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "storage" / "team" / "runs").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return tmp_path / "storage"


def code_of(job: Job, path: str, home: Path) -> str:
    with pytest.raises(InvalidInputError) as caught:
        place_on_machine(mount_path(job, path), home)
    (violation,) = caught.value.violations
    assert violation.pointer == "/dir"
    return violation.code


def test_a_directory_is_found_below_the_place_that_user_code_cannot_replace(storage: Path):
    job = job_with_mount(f"file://{storage}/team", root=f"file://{storage}")
    place = place_on_machine(mount_path(job, "/mnt/data/runs"), storage.parent / "home")
    assert (place.root, place.below) == (storage.resolve(), "team/runs")


def test_without_a_root_the_mount_itself_is_that_place(storage: Path):
    place = place_on_machine(mount_path(job_with_mount(f"file://{storage}/team"), "/mnt/data"), storage.parent / "home")
    assert (place.root, place.below) == ((storage / "team").resolve(), ".")


@pytest.mark.parametrize("path", ["/etc", "/mnt/data/../../etc", "/mnt/database", "/"])
def test_what_is_on_no_mount_is_refused(storage: Path, path: str):
    assert code_of(job_with_mount(f"file://{storage}/team"), path, storage.parent / "home") == "not-on-a-mount"


def test_a_link_out_of_the_mount_is_refused_and_one_within_is_not(storage: Path, tmp_path: Path):
    (tmp_path / "others").mkdir()
    (storage / "team" / "out").symlink_to(tmp_path / "others")
    (storage / "team" / "in").symlink_to(storage / "team" / "runs")
    job = job_with_mount(f"file://{storage}/team")
    assert code_of(job, "/mnt/data/out", tmp_path / "home") == "not-allowed"
    assert place_on_machine(mount_path(job, "/mnt/data/in"), tmp_path / "home").below == "runs"


def test_what_is_not_there_or_no_directory_is_told(storage: Path):
    (storage / "team" / "file").touch()
    job = job_with_mount(f"file://{storage}/team")
    for path in ("/mnt/data/nowhere", "/mnt/data/file"):
        assert code_of(job, path, storage.parent / "home") == "not-found"


def test_the_platforms_own_state_is_never_beside_it(storage: Path):
    job = job_with_mount(f"file://{storage.parent}")
    assert code_of(job, "/mnt/data/storage", storage.parent / "home") == "not-allowed"


@pytest.mark.parametrize("uri", ["nfs://nas/team", "pvc://claim/team"])
def test_a_volume_of_a_cluster_is_no_directory_of_this_machine(storage: Path, uri: str):
    job = job_with_mount(uri)
    assert code_of(job, "/mnt/data/runs", storage.parent / "home") == "not-on-this-machine"
