"""What one machine and Kubernetes make of the same job."""

from __future__ import annotations

import pytest

from services.scheduler.domain.portability import differences
from shared.events import Resolved, ResolvedImage, ResolvedMount


def job(*uris: str, image: str = "registry.example/x:1") -> Resolved:
    mounts = tuple(
        ResolvedMount(mount_path=f"/mnt/{index}", type="storage", source="team", uri=uri)
        for index, uri in enumerate(uris)
    )
    return Resolved(
        cluster="main", roles=(), mounts=mounts, image=ResolvedImage(source="address", address=image) if image else None
    )


def test_the_image_is_used_in_one_place_and_noted_in_the_other():
    (here,) = differences("local", job())
    (there,) = differences("kubernetes", job())
    assert "registry.example/x:1 is noted and not used" in here
    assert "registry.example/x:1 is pulled" in there


@pytest.mark.parametrize(
    ("uri", "here", "there"),
    [
        ("file:///data", "a directory of this machine", "a directory of the node"),
        ("s3://bucket/key", "copied here before the start", "is mounted"),
        ("pvc://claim", None, "one machine refuses the job"),
        ("nfs://nas/data", None, "one machine refuses the job"),
    ],
)
def test_each_kind_of_data_is_told_at_its_mount(uri: str, here: str | None, there: str):
    told = differences("local", job(uri, image=""))
    assert [here in sentence for sentence in told] == ([True] if here else [])
    (sentence,) = differences("kubernetes", job(uri, image=""))
    assert there in sentence
    assert "/mnt/0" in sentence


def test_a_job_without_data_and_image_is_the_same_everywhere():
    assert differences("local", job(image="")) == differences("kubernetes", job(image="")) == ()
