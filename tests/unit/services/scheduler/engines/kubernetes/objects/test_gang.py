"""A gang as manifests: whole, valid, small, and the same each time."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.settings import PodUser, S3Volumes, Toleration, VolumeSettings
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeInline, CodePacked, CodeUpload, GangMount, PoolTerms
from shared.units import MIB
from tests.support.gangs import JOB, UID, a_gang, container, first_pod, manifests_of, objects_of, of_kind
from tests.support.kubernetes_schemas import check

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def test_the_record_comes_first_and_owns_everything_else():
    record, *others = manifests_of(a_gang(secrets={"TOKEN": "x"}))
    assert (record["kind"], record["metadata"]["name"]) == ("ConfigMap", f"{JOB}-1")
    assert "ownerReferences" not in record["metadata"]
    owners = [each["metadata"]["ownerReferences"] for each in others]
    assert owners == [[{"apiVersion": "v1", "kind": "ConfigMap", "name": f"{JOB}-1", "uid": UID}]] * len(others)


def test_a_plain_gang_is_a_record_config_maps_a_service_a_policy_and_pods():
    kinds = [each["kind"] for each in manifests_of(a_gang())]
    assert kinds == ["ConfigMap", "ConfigMap", "ConfigMap", "Service", "NetworkPolicy", "Pod", "Pod"]


def test_a_replica_is_reached_by_its_name_below_the_gangs():
    pod, (service,) = first_pod(a_gang()), of_kind(a_gang(), "Service")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"{JOB}-1-worker-0", f"{JOB}-1")
    assert service["metadata"]["name"] == pod["spec"]["subdomain"]
    assert service["spec"]["publishNotReadyAddresses"]


def test_secret_variables_stand_in_a_secret_and_nowhere_else():
    gang = a_gang(secrets={"TOKEN": "geheim"}, code=CodeUpload("sha256:00", "billet"))
    set_up = ObjectSettings(platform_image="p", code_url="http://scheduler:8080")
    plain = [json.dumps(each) for each in manifests_of(gang, set_up) if each["kind"] != "Secret"]
    assert not any("geheim" in text or "billet" in text for text in plain)
    assert {"secretRef": {"name": f"{JOB}-1"}} in container(first_pod(gang, set_up))["envFrom"]


def test_the_command_never_sees_the_ticket_for_its_code():
    gang = a_gang(secrets={"TOKEN": "geheim"}, code=CodeUpload("sha256:00", "billet"))
    set_up = ObjectSettings(platform_image="p", code_url="http://scheduler:8080")
    by_name = {each["metadata"]["name"]: set(each["data"]) for each in of_kind(gang, "Secret", set_up)}
    assert by_name == {f"{JOB}-1": {"TOKEN"}, f"{JOB}-1-code": {"TM_CODE_TICKET"}}
    assert f"{JOB}-1-code" not in json.dumps(container(first_pod(gang, set_up)))


def test_an_image_is_needed():
    with pytest.raises(StartRefusedError, match=r"spec\.image"):
        objects_of(a_gang(image=""))


@pytest.mark.parametrize(("command", "env"), [("a\0b", {}), ("a", {"X": "\0"})])
def test_a_nul_character_is_refused(command: str, env: dict[str, str]):
    with pytest.raises(StartRefusedError, match="NUL"):
        objects_of(a_gang(command=command, env=env))


def test_the_service_follows_the_pods_and_the_files_come_last():
    code = CodeInline({"train.py": "pass"})
    objects = objects_of(a_gang(code=code, secrets={"TOKEN": "t"}, gang_scheduler="volcano"))
    before, after, last = (
        [each["kind"] for each in stage]
        for stage in (objects.before_pods(UID), objects.after_pods(UID), objects.at_last(UID))
    )
    assert before == ["ConfigMap", "ConfigMap", "Secret", "NetworkPolicy", "PodGroup"]
    assert (after, last) == (["Service"], ["ConfigMap"])
    assert {each["metadata"]["name"] for each in objects.at_last(UID)} == objects.files


@pytest.mark.parametrize("replicas", [1_000, 10_000])
def test_a_large_gang_has_small_pods_and_config_maps_within_their_limit(replicas: int):
    gang = a_gang({"master": 1, "worker": replicas - 1}, secrets={"TOKEN": "x" * 30_000})
    objects = objects_of(gang)
    config_maps = [objects.record, *(each for each in objects.owned_by(UID) if each["kind"] == "ConfigMap")]
    assert max(len(json.dumps(each)) for each in config_maps) < MIB
    assert len(json.dumps(objects.pod(gang.replicas[-1], UID))) < 5_000


def test_files_stand_at_their_names_whatever_config_maps_they_are_in():
    pod = first_pod(a_gang({"worker": 10_000}))
    files = next(volume for volume in pod["spec"]["volumes"] if volume["name"] == "files")
    paths = [item["path"] for source in files["projected"]["sources"] for item in source["configMap"]["items"]]
    assert paths == ["hosts/worker", "hostfile", "python/trainmaster_hook.py"]
    assert len(files["projected"]["sources"]) == 2


def test_host_lists_that_fit_into_no_config_map_are_unpacked_in_the_pod():
    gang = a_gang({"a-role-with-a-long-name-as-they-may-have": 12_000})
    pod = first_pod(gang)
    assert container(pod, "files")["command"][-1] == "/etc/trainmaster"
    assert max(len(json.dumps(each)) for each in of_kind(gang, "ConfigMap")) < MIB


def test_the_hostfile_stands_where_a_launcher_looks_for_it_however_large_it_is():
    pod = first_pod(a_gang({"a-role-with-a-long-name-as-they-may-have": 12_000}, hostfile_at="/job/hostfile"))
    second = next(each for each in container(pod)["volumeMounts"] if each["mountPath"] == "/job/hostfile")
    assert (second["name"], second["subPath"]) == ("files", "hostfile")
    assert [each["name"] for each in pod["spec"]["volumes"]].count("files") == 1


def test_event_files_in_the_code_lie_in_its_folder():
    pod = first_pod(a_gang(code=CodeInline({}), tensorboard_dir="/code/runs"))
    assert "tensorboard" not in [each["name"] for each in pod["spec"]["volumes"]]


def test_the_hostfile_stands_also_where_a_launcher_looks_for_it():
    mounts = container(first_pod(a_gang(hostfile_at="/job/hostfile")))["volumeMounts"]
    assert {"name": "files", "mountPath": "/job/hostfile", "subPath": "hostfile", "readOnly": True} in mounts


def test_event_files_get_a_volume_unless_a_mount_has_them():
    mounted = GangMount(None, "/mnt/data", uri="pvc://claim")
    volumes = [each["name"] for each in first_pod(a_gang(tensorboard_dir="/runs"))["spec"]["volumes"]]
    assert "tensorboard" in volumes
    pod = first_pod(a_gang(tensorboard_dir="/mnt/data/runs", mounts=(mounted,)))
    assert "tensorboard" not in [each["name"] for each in pod["spec"]["volumes"]]
    assert pod["metadata"]["annotations"]["trainmaster.dev/tensorboard"] == "/mnt/data/runs"


@pytest.mark.parametrize(
    ("field", "annotation"),
    [("tensorboard_dir", "trainmaster.dev/tensorboard"), ("checkpoint_dir", "trainmaster.dev/checkpoints")],
)
def test_only_the_first_rank_says_where_event_files_and_checkpoints_are(field: str, annotation: str):
    gang = a_gang(**{field: "/runs"})
    first, second = (objects_of(gang).pod(replica, UID)["metadata"]["annotations"] for replica in gang.replicas[:2])
    assert (first.get(annotation), second.get(annotation)) == ("/runs", None)


# --- any gang

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40)
ROLE_NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
MOUNTS = st.sampled_from(
    [
        GangMount(None, "/mnt/a", uri="pvc://claim", sub_path="x/y"),
        GangMount(None, "/mnt/b", uri="file:///srv/team", sub_path="x", read_only=True),
        GangMount(None, "/mnt/c", uri="nfs://files.example/data"),
        GangMount(None, "/mnt/d", uri="s3://bucket/key", sub_path="x"),
    ]
)
CODES = st.sampled_from([None, CodeInline({"a.py": "1"}), CodePacked(b"x"), CodeUpload("sha256:0", "t")])
POOLS = st.builds(
    PoolTerms,
    binding=st.sampled_from(["scheduler", "kubernetes"]),
    node_names=st.lists(st.sampled_from(["node-a", "node-b"]), unique=True).map(tuple),
    node_labels=st.dictionaries(st.sampled_from(["pool", "zone"]), st.sampled_from(["a", "b"])),
)
GANGS = st.builds(
    a_gang,
    roles=st.dictionaries(ROLE_NAMES, st.integers(1, 3), min_size=1, max_size=3),
    command=TEXTS.filter(bool),
    env=st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), TEXTS, max_size=3),
    gpus=st.integers(0, 8),
    pool=POOLS,
    mounts=st.lists(MOUNTS, unique_by=lambda mount: mount.path).map(tuple),
    code=CODES,
    secrets=st.dictionaries(st.just("TOKEN"), TEXTS),
    tensorboard_dir=st.sampled_from([None, "/runs", "/mnt/a/runs", "/code", "/code/runs"]),
    hostfile_at=st.sampled_from([None, "/job/hostfile"]),
    image_pull_secret=st.sampled_from([None, '{"auths": {"registry.example": {}}}']),
    gang_scheduler=st.sampled_from(["trainmaster", "volcano"]),
    queue=st.sampled_from(["", "training"]),
    project=TEXTS.filter(bool),
    job_name=TEXTS,
    termination_grace_s=st.floats(0, 3600),
)
ALL_SETTINGS = st.builds(
    ObjectSettings,
    platform_image=st.just("registry.example/trainmaster:1"),
    code_url=st.just("http://scheduler:8080"),
    cluster=TEXTS.filter(bool),
    user=st.sampled_from([PodUser(), PodUser(None), PodUser(None, may_be_root=True)]),
    tolerations=st.sampled_from([(), (Toleration("a"), Toleration("b", "c", "NoSchedule"))]),
    volumes=st.just(VolumeSettings(("/srv",), nfs=True, s3=S3Volumes({}, "s3.example", {"b": "{bucket}"}))),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(gang=GANGS, set_up=ALL_SETTINGS)
def test_every_gang_is_valid_for_kubernetes_with_names_and_labels_that_fit(gang, set_up):
    for manifest in manifests_of(gang, set_up):
        if manifest["kind"] != "PodGroup":
            check(manifest)
        metadata = manifest["metadata"]
        assert all(len(name) <= 63 and NAME.fullmatch(name) for name in (metadata["name"], metadata["namespace"]))
        assert all(len(value) <= 63 and LABEL_VALUE.fullmatch(value) for value in metadata["labels"].values())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(gang=GANGS, set_up=ALL_SETTINGS)
def test_the_same_gang_gives_the_same_objects_and_no_two_of_one_name(gang, set_up):
    made = list(manifests_of(gang, set_up))
    assert made == list(manifests_of(gang, set_up))
    names = [(each["kind"], each["metadata"]["name"]) for each in made]
    assert len(names) == len(set(names))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(gang=GANGS)
def test_volumes_and_their_places_belong_together_and_no_place_is_taken_twice(gang):
    for manifest in manifests_of(gang, VOLUMES):
        if manifest["kind"] == "Pod":
            volumes = [volume["name"] for volume in manifest["spec"]["volumes"]]
            assert len(volumes) == len(set(volumes))
            for each in (*manifest["spec"]["initContainers"], *manifest["spec"]["containers"]):
                paths = [mount["mountPath"] for mount in each["volumeMounts"]]
                assert len(paths) == len(set(paths))
                assert {mount["name"] for mount in each["volumeMounts"]} <= set(volumes)


VOLUMES = ObjectSettings(
    platform_image="p",
    code_url="http://scheduler:8080",
    volumes=VolumeSettings(("/srv",), nfs=True, s3=S3Volumes({"bucket": "claim"})),
)
