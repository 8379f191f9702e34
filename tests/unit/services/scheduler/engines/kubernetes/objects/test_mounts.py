"""Data as volumes: what each URI becomes, what is confined, and what is refused."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.objects.mounts import mount_volumes, volume_of
from services.scheduler.engines.kubernetes.objects.settings import S3Volumes, VolumeSettings
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeInline, GangMount
from tests.support.gangs import a_gang

ALL = VolumeSettings(
    ("/srv/data",), nfs=True, s3=S3Volumes({"ours": "bucket-claim"}, "s3.example", {"bucket": "{bucket}"})
)


def volume(uri: str, sub_path: str = "", *, read_only: bool = False, settings: VolumeSettings = ALL):
    return volume_of("mount-0", GangMount(None, "/mnt/data", read_only, uri=uri, sub_path=sub_path), settings)


@pytest.mark.parametrize(
    ("uri", "sub_path", "source", "part"),
    [
        ("pvc://team", "", {"persistentVolumeClaim": {"claimName": "team", "readOnly": False}}, ""),
        ("pvc://team", "a/b", {"persistentVolumeClaim": {"claimName": "team", "readOnly": False}}, "a/b"),
        ("pvc://team/a", "", {"persistentVolumeClaim": {"claimName": "team", "readOnly": False}}, "a"),
        ("file:///srv/data/team", "a", {"hostPath": {"path": "/srv/data/team", "type": "Directory"}}, "a"),
        ("nfs://nas/data", "a", {"nfs": {"server": "nas", "path": "/data", "readOnly": False}}, "a"),
        ("s3://ours/key", "a", {"persistentVolumeClaim": {"claimName": "bucket-claim", "readOnly": False}}, "key/a"),
        (
            "s3://other/key",
            "a",
            {"csi": {"driver": "s3.example", "readOnly": False, "volumeAttributes": {"bucket": "other"}}},
            "key/a",
        ),
    ],
)
def test_each_scheme_has_its_volume_and_the_storages_root_confines_links(uri, sub_path, source, part):
    found = volume(uri, sub_path)
    assert (found.source, found.sub_path) == (source, part)


def test_a_driver_that_takes_the_prefix_gets_it():
    settings = VolumeSettings(s3=S3Volumes({}, "s3.example", {"bucket": "{bucket}", "prefix": "{prefix}/"}))
    found = volume("s3://b/key", "a", settings=settings)
    assert found.source["csi"]["volumeAttributes"] == {"bucket": "b", "prefix": "key/a/"}
    assert not found.sub_path


@pytest.mark.parametrize("uri", ["pvc://team", "file:///srv/data", "nfs://nas/data", "s3://ours", "s3://other"])
def test_a_mount_that_is_read_only_can_be_written_nowhere(uri):
    found = volume(uri, read_only=True)
    assert found.mount()["readOnly"]
    (source,) = found.source.values()
    assert source.get("readOnly", True)


@pytest.mark.parametrize(
    ("uri", "sub_path", "settings", "sentence"),
    [
        ("file:///srv/data", "", VolumeSettings(), r"cannot be mounted in this cluster, which mounts pvc://$"),
        ("nfs://nas/data", "", VolumeSettings(), "cannot be mounted"),
        ("s3://b", "", VolumeSettings(), "cannot be mounted"),
        ("file:///srv/database", "", ALL, "may mount: /srv/data$"),
        ("file:///srv/data/../secret", "", ALL, "/srv/secret lies in no directory"),
        ("pvc://team/a", "b", ALL, "a link could lead out"),
        ("s3://b", "", VolumeSettings(s3=S3Volumes({"ours": "claim"})), "no volume for the bucket b, only for ours"),
        ("s3://b", "a --allow-other", ALL, "could take for options"),
        ("s3://b/x,uid=0", "", ALL, "could take for options"),
    ],
)
def test_what_cannot_be_had_or_confined_is_refused_in_one_sentence(uri, sub_path, settings, sentence):
    with pytest.raises(StartRefusedError, match=sentence) as refused:
        volume(uri, sub_path, settings=settings)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("path", ["/", "/etc/trainmaster", "/proc/x", "/dev", "/dev/shm", "/code"])
def test_nothing_is_mounted_over_what_a_replica_needs(path):
    gang = a_gang(mounts=(GangMount(None, path, uri="pvc://team"),), code=CodeInline({}))
    with pytest.raises(StartRefusedError, match=path):
        mount_volumes(gang, ALL)


def test_without_code_its_place_is_free():
    (found,) = mount_volumes(a_gang(mounts=(GangMount(None, "/code", uri="pvc://team"),)), ALL)
    assert found.path == "/code"


def test_an_admin_decides_what_can_be_mounted():
    assert VolumeSettings().schemes == ("pvc",)
    assert ALL.schemes == ("file", "nfs", "pvc", "s3")
