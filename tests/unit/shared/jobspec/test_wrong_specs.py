"""Wrong job documents, each with the exact pointer and code that it must be answered with, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from shared.errors import InvalidInputError
from shared.jobspec import validate_job
from tests.support.specs import changed, job_document, without


class _Missing:
    """Stands for a key that is left out; its text is the same in every process, as ids of tests must be."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()
LONG_ROLE = "a" * 42

# (pointer changed, value put there or MISSING, pointer of the violation or None for the same, code)
WRONG: list[tuple[str, Any, str | None, str]] = [
    # the document
    ("/apiVersion", "trainmaster/v2", None, "not-a-choice"),
    ("/apiVersion", MISSING, None, "required"),
    ("/kind", "Job", None, "not-a-choice"),
    ("/metadata", MISSING, None, "required"),
    ("/metadata", [], None, "wrong-type"),
    ("/spec", MISSING, None, "required"),
    ("/spec", "x", None, "wrong-type"),
    ("/status", {}, None, "unknown-key"),
    # names and labels
    ("/metadata/name", MISSING, None, "required"),
    ("/metadata/generateName", "mnist-", None, "two-names"),
    ("/metadata/name", None, None, "required"),
    ("/metadata/name", 7, None, "wrong-type"),
    ("/metadata/name", "", None, "name-empty"),
    ("/metadata/name", "n" * 129, None, "name-too-long"),
    ("/metadata/name", "训" * 129, None, "name-too-long"),
    *(("/metadata/name", f"a{char}b", None, "name-character") for char in '/:*?"<>| \t\n\0\u3000\u200b\u202e\x7f'),
    ("/metadata/name", "..", None, "name-not-allowed"),
    ("/metadata/name", "half\ud800", None, "not-unicode"),
    ("/metadata/project", "a b", None, "name-character"),
    ("/metadata/labels", "demo", None, "wrong-type"),
    ("/metadata/labels/1", "de mo", None, "name-character"),
    ("/metadata/labels/1", True, None, "wrong-type"),
    ("/metadata/labels/-", "demo", "/metadata/labels/2", "duplicate"),
    ("/metadata/lables", [], None, "unknown-key"),
    # image and code
    ("/spec/image", MISSING, None, "required"),
    ("/spec/image", 3, None, "wrong-type"),
    ("/spec/image", "", None, "image-address-invalid"),
    ("/spec/image", "reg/im age:1", None, "image-address-invalid"),
    ("/spec/image/ref", "pytorch:2.3", None, "image-name-invalid"),
    ("/spec/image/ref", MISSING, None, "required"),
    ("/spec/image/source", "docker", None, "not-a-choice"),
    ("/spec/image", {"source": "address", "ref": "a b"}, "/spec/image/ref", "image-address-invalid"),
    ("/spec/code", {}, None, "code-source"),
    ("/spec/code", {"source": "set", "upload": "sha256:" + "0" * 64}, None, "code-source"),
    ("/spec/code", {"upload": "sha256:" + "0" * 64, "revision": "main"}, "/spec/code/revision", "code-source"),
    ("/spec/code", {"upload": "./src"}, "/spec/code/upload", "digest-invalid"),
    ("/spec/code", {"inline": {}}, "/spec/code/inline", "too-few"),
    ("/spec/code", {"inline": {"/etc/passwd": "x"}}, "/spec/code/inline/~1etc~1passwd", "path-not-relative"),
    ("/spec/code", {"inline": {"../x": "x"}}, "/spec/code/inline/..~1x", "path-not-normal"),
    ("/spec/code", {"inline": {"a~b\0": "x"}}, "/spec/code/inline/a~0b\0", "path-character"),
    ("/spec/code", {"inline": {"a.py": 1}}, "/spec/code/inline/a.py", "wrong-type"),
    ("/spec/code", {"inline": {"a.py": "x\0"}}, "/spec/code/inline/a.py", "nul-character"),
    ("/spec/code", {"inline": {"a": "x", "a/b": "y"}}, "/spec/code/inline/a~1b", "path-collision"),
    ("/spec/code", {"inline": {"a.py": "训" * 90_000}}, "", "spec-too-large"),
    # mounts
    ("/spec/mounts/0/type", "disk", None, "not-a-choice"),
    ("/spec/mounts/0/source", MISSING, None, "required"),
    ("/spec/mounts/0/source", "a/b", None, "name-character"),
    ("/spec/mounts/0/subPath", "/mnist", None, "path-not-relative"),
    ("/spec/mounts/0/subPath", "../other", None, "path-not-normal"),
    ("/spec/mounts/1/mountPath", MISSING, None, "required"),
    ("/spec/mounts/1/mountPath", "data", None, "path-not-absolute"),
    ("/spec/mounts/1/mountPath", "/mnt/../etc", None, "path-not-normal"),
    ("/spec/mounts/1/mountPath", "/mnt//set", None, "path-not-normal"),
    ("/spec/mounts/1/mountPath", "/mnt/set//", None, "path-not-normal"),
    ("/spec/mounts/1/mountPath", "/mnt/" + "s" * 256, None, "path-too-long"),
    ("/spec/mounts/1/mountPath", "/mnt/s\net", None, "path-character"),
    *(
        ("/spec/mounts/1/mountPath", path, None, "mount-path-reserved")
        for path in ("/", "/code", "/code/x", "/etc/trainmaster", "/etc", "/proc", "/dev/shm", "/sys", "/tmp/x", "/usr")
    ),
    ("/spec/mounts/1/mountPath", "/mnt/data", None, "mount-path-twice"),
    ("/spec/mounts/1/mountPath", "/mnt/data/set", None, "mount-path-nested"),
    ("/spec/mounts/1/mountPath", "/mnt", None, "mount-path-nested"),
    ("/spec/mounts/1/readOnly", "yes", None, "wrong-type"),
    # variables
    ("/spec/env", ["A=1"], None, "wrong-type"),
    ("/spec/env/OMP_NUM_THREADS", 4, None, "wrong-type"),
    ("/spec/env/DEBUG", True, None, "wrong-type"),
    ("/spec/env/1ST", "x", None, "env-name-invalid"),
    ("/spec/env/A-B", "x", None, "env-name-invalid"),
    ("/spec/env/Ä", "x", None, "env-name-invalid"),
    ("/spec/env/A", "x\0y", None, "nul-character"),
    ("/spec/env/A", "x" * 131_072, None, "argument-too-long"),
    ("/spec/env", {f"V{number}": "x" for number in range(21)}, None, "too-many"),
    ("/spec/env", {**{f"V{number}": "x" for number in range(20)}, "VC_WORKER_NUM": "2"}, None, "too-many"),
    *(
        (f"/spec/env/{name}", "x", None, "reserved-name")
        for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NPROC_PER_NODE", "PET_NNODES", "TM_JOB_ID")
    ),
    *(
        (f"/spec/env/{name}", "x", None, "reserved-name")
        for name in ("VC_TASK_INDEX", "VC_TASK_NAMES", "VC_WORKER_HOSTS", "VC_worker_NUM")
    ),
    ("/spec/env/VC_PS_NUM", "2", None, "unknown-role"),
    *(
        ("/spec/env/VC_WORKER_NUM", value, None, "replicas-invalid")
        for value in ("0", "-1", "2.5", "two", "", "10001", "٣", True, 2.0, None)
    ),
    # roles
    ("/spec/roles", MISSING, None, "required"),
    ("/spec/roles", [], None, "too-few"),
    ("/spec/roles", {"name": "worker"}, None, "wrong-type"),
    ("/spec/roles/1", "worker", None, "wrong-type"),
    ("/spec/roles/1/name", "Worker", None, "not-a-dns-label"),
    ("/spec/roles/1/name", "work_er", None, "not-a-dns-label"),
    ("/spec/roles/1/name", "-worker", None, "not-a-dns-label"),
    ("/spec/roles/1/name", "", None, "not-a-dns-label"),
    ("/spec/roles/1/name", "工人", None, "not-a-dns-label"),
    ("/spec/roles/1/name", "master", None, "duplicate-role"),
    ("/spec/roles/1/name", LONG_ROLE, None, "host-name-too-long"),
    ("/spec/roles/1/replicas", MISSING, None, "required"),
    ("/spec/roles/1/replicas", 0, None, "out-of-range"),
    ("/spec/roles/1/replicas", 10_001, None, "out-of-range"),
    *(("/spec/roles/1/replicas", value, None, "wrong-type") for value in (True, 2.0, "2", None)),
    ("/spec/roles/1/pool", "team-a", None, "wrong-type"),
    ("/spec/roles/1/pool", {"type": "dedicated"}, "/spec/roles/1/pool/name", "required"),
    ("/spec/roles/1/pool", {"type": "public", "name": "x"}, "/spec/roles/1/pool/name", "pool-name-not-allowed"),
    ("/spec/roles/1/pool", {"name": "x"}, "/spec/roles/1/pool/name", "pool-name-not-allowed"),
    ("/spec/roles/1/pool/type", "private", None, "not-a-choice"),
    ("/spec/roles/1/instanceType", MISSING, None, "required"),
    ("/spec/roles/1/command", MISSING, None, "required"),
    ("/spec/roles/1/command", " \n", None, "command-empty"),
    ("/spec/roles/1/command", ["python", "train.py"], None, "wrong-type"),
    ("/spec/roles/1/command", "echo \0", None, "nul-character"),
    ("/spec/roles/1/command", "训" * 43_691, None, "argument-too-long"),
    ("/spec/roles/1/replica", 2, None, "unknown-key"),
    # paths on mounts
    ("/spec/tensorboard", {}, "/spec/tensorboard/logDir", "required"),
    ("/spec/tensorboard/logDir", "runs", None, "path-not-absolute"),
    ("/spec/tensorboard/logDir", "/mnt/database/runs", None, "not-on-a-mount"),
    ("/spec/tensorboard/logDir", "/mnt/set/runs", None, "mount-read-only"),
    ("/spec/checkpoint/dir", "/root/ckpt", None, "not-on-a-mount"),
    ("/spec/checkpoint/dir", "/mnt/set", None, "mount-read-only"),
    # numbers, durations, completion
    *(("/spec/priority", value, None, "out-of-range") for value in (0, 10)),
    *(("/spec/priority", value, None, "wrong-type") for value in ("high", 5.0, True)),
    *(("/spec/startTimeout", value, None, "duration-invalid") for value in ("", "30", "-1s", "1d", "1.5h", "m")),
    ("/spec/startTimeout", 30, None, "wrong-type"),
    ("/spec/startTimeout", "0s", None, "out-of-range"),
    ("/spec/maxRunTime", "9999999h", None, "duration-invalid"),
    ("/spec/maxRunTime", "0s", None, "out-of-range"),
    ("/spec/terminationGrace", "2h", None, "out-of-range"),
    ("/spec/completion/succeedWhen", "any", None, "not-a-choice"),
    ("/spec/completion/succeedWhen", "role:", None, "not-a-choice"),
    ("/spec/completion/succeedWhen", "role:Master", None, "not-a-dns-label"),
    ("/spec/completion/succeedWhen", "role:ps", None, "unknown-role"),
    ("/spec/excludeNodes", ["n1", "n1"], "/spec/excludeNodes/1", "duplicate"),
    # what later versions bring
    ("/spec/framework", "tensorflow", None, "not-a-choice"),
    ("/spec/preemptible", "yes", None, "wrong-type"),
    ("/spec/topology", {"mode": "strict"}, "/spec/topology/mode", "not-a-choice"),
    ("/spec/topology", {"level": "rack"}, "/spec/topology/level", "not-a-choice"),
    ("/spec/topology", {"tier": 1}, "/spec/topology/tier", "unknown-key"),
    ("/spec/secrets", {"HF_TOKEN": "no name"}, "/spec/secrets/HF_TOKEN", "name-character"),
    ("/spec/secrets", {"RANK": "x"}, "/spec/secrets/RANK", "reserved-name"),
    ("/spec/retry", {"maxRetries": -1}, "/spec/retry/maxRetries", "out-of-range"),
    ("/spec/retry", {"interval": "1s"}, "/spec/retry/maxRetries", "required"),
    ("/spec/diagnosis", {"enabled": "yes"}, "/spec/diagnosis/enabled", "wrong-type"),
    # retries and hangs
    ("/spec/retry", {"maxRetries": 101}, "/spec/retry/maxRetries", "out-of-range"),
    ("/spec/retry", {"maxRetries": "3"}, "/spec/retry/maxRetries", "wrong-type"),
    ("/spec/retry", {"maxRetries": 1, "interval": "soon"}, "/spec/retry/interval", "duration-invalid"),
    ("/spec/retry", {"maxRetries": 1, "interval": 30}, "/spec/retry/interval", "wrong-type"),
    ("/spec/retry", {"maxRetries": 1, "on": {}}, "/spec/retry/on", "condition-missing"),
    ("/spec/retry", {"maxRetries": 1, "on": {"hang": False}}, "/spec/retry/on", "condition-missing"),
    ("/spec/retry", {"maxRetries": 1, "on": {"hang": True}}, "/spec/retry/on/hang", "hang-detection-off"),
    ("/spec/retry", {"maxRetries": 1, "on": {"hang": "yes"}}, "/spec/retry/on/hang", "wrong-type"),
    ("/spec/retry", {"maxRetries": 1, "on": {"failure": {}, "diagnosisFailure": True}},
     "/spec/retry/on/diagnosisFailure", "diagnosis-off"),
    ("/spec/hangDetection", {"silence": "999ms"}, "/spec/hangDetection/silence", "out-of-range"),
    ("/spec/hangDetection", {"enabled": "yes"}, "/spec/hangDetection/enabled", "wrong-type"),
    ("/spec/hangDetection", {"silence": "0s"}, "/spec/hangDetection/silence", "out-of-range"),
    ("/spec/hangDetection", {"exitSilence": "999ms"}, "/spec/hangDetection/exitSilence", "out-of-range"),
    ("/spec/hangDetection", {"phases": {"setup": "999ms"}}, "/spec/hangDetection/phases/setup", "out-of-range"),
    ("/spec/hangDetection", {"phases": {f"p{number}": "1h" for number in range(21)}}, "/spec/hangDetection/phases",
     "too-many"),
]  # fmt: skip


def violations_of(document: object) -> set[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        validate_job(document)
    for violation in caught.value.violations:
        assert violation.message
        assert "Input should" not in violation.message
    found = [(violation.pointer, violation.code) for violation in caught.value.violations]
    assert len(found) == len(set(found))
    return set(found)


def case_id(case: tuple[str, Any, str | None, str]) -> str:
    return f"{case[0]}={repr(case[1])[:24]}"


@pytest.mark.parametrize("case", WRONG, ids=case_id)
def test_one_wrong_place_gives_exactly_its_violation(case: tuple[str, Any, str | None, str]) -> None:
    changed_at, value, pointer, code = case
    document = job_document()
    wrong = without(document, changed_at) if value is MISSING else changed(document, changed_at, value)
    assert violations_of(wrong) == {(changed_at if pointer is None else pointer, code)}


@pytest.mark.parametrize("document", [None, [], "x", 1, True])
def test_a_document_that_is_no_object_is_refused_as_a_whole(document: object) -> None:
    assert violations_of(document) == {("", "wrong-type")}


def test_too_many_roles_are_counted() -> None:
    roles = [{"name": f"r{n}", "replicas": 1, "instanceType": "s", "command": "x"} for n in range(11)]
    document = without(changed(job_document(), "/spec/roles", roles), "/spec/completion")
    assert violations_of(document) == {("/spec/roles", "too-many")}


def test_errors_in_many_places_come_back_at_once_and_hide_no_rule() -> None:
    document = job_document()
    for pointer, value in [
        ("/metadata/name", "a b"),
        ("/spec/priority", "high"),
        ("/spec/mounts/0/type", "disk"),
        ("/spec/mounts/1/mountPath", "/mnt/data/set"),
        ("/spec/roles/1/name", "master"),
        ("/spec/roles/1/replicas", 0),
        ("/spec/tensorboard/logDir", "/root"),
        ("/spec/completion/succeedWhen", "role:ps"),
        ("/spec/preemptible", "yes"),
        ("/spec/env/RANK", "0"),
        ("/spec/unknown", 1),
    ]:
        document = changed(document, pointer, value)
    assert violations_of(document) == {
        ("/metadata/name", "name-character"),
        ("/spec/priority", "wrong-type"),
        ("/spec/mounts/0/type", "not-a-choice"),
        ("/spec/mounts/1/mountPath", "mount-path-nested"),
        ("/spec/roles/1/name", "duplicate-role"),
        ("/spec/roles/1/replicas", "out-of-range"),
        ("/spec/tensorboard/logDir", "not-on-a-mount"),
        ("/spec/completion/succeedWhen", "unknown-role"),
        ("/spec/preemptible", "wrong-type"),
        ("/spec/env/RANK", "reserved-name"),
        ("/spec/unknown", "unknown-key"),
    }


def test_role_names_that_meet_after_upper_casing_are_reported_beside_their_own_faults() -> None:
    document = changed(changed(job_document(), "/spec/roles/0/name", "a-b"), "/spec/roles/1/name", "A_B")
    document = without(document, "/spec/completion")
    assert violations_of(document) == {
        ("/spec/roles/1/name", "not-a-dns-label"),
        ("/spec/roles/1/name", "duplicate-role"),
    }


def test_a_flood_of_errors_is_cut() -> None:
    document = changed(job_document(), "/spec/labels", 0)
    document["spec"].update({f"key{number}": 0 for number in range(5000)})
    with pytest.raises(InvalidInputError) as caught:
        validate_job(document)
    assert len(caught.value.violations) == 100


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    nested: Any = {}
    for _ in range(100_000):
        nested = {"a": nested}
    assert violations_of(changed_shallow(nested)) == {("", "too-deep")}


def changed_shallow(value: Any) -> dict[str, Any]:
    document = job_document()
    document["spec"]["retry"] = value
    return document


@pytest.mark.parametrize(
    ("pointer", "value", "fragment"),
    [
        ("/spec/role", [], "did you mean roles?"),
        ("/spec/roles/0/instancetype", "x", "did you mean instanceType?"),
        ("/metadata/zzz", 1, "the keys here are name, generateName, project, labels"),
        ("/spec/priority", 10, "10 is out of range; give an integer from 1 to 9"),
        ("/spec/env/N", 1, "put numbers and booleans in quotes"),
        ("/spec/roles/1/name", LONG_ROLE, "it may have at most 41"),
        ("/metadata/name", "a b", "has a space"),
        ("/metadata/name", "a\u200bb", "U+200B"),
    ],
)
def test_a_sentence_says_what_would_be_accepted(pointer: str, value: Any, fragment: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        validate_job(changed(job_document(), pointer, value))
    assert fragment in caught.value.violations[0].message


@pytest.mark.parametrize(
    ("prefix", "code"), [("a/b", "name-character"), ("x" * 124, "name-too-long"), ("", "name-empty"), (7, "wrong-type")]
)
def test_the_beginning_of_a_name_is_held_to_what_names_are(prefix: Any, code: str) -> None:
    document = changed(without(job_document(), "/metadata/name"), "/metadata/generateName", prefix)
    with pytest.raises(InvalidInputError) as caught:
        validate_job(document)
    assert [(each.pointer, each.code) for each in caught.value.violations] == [("/metadata/generateName", code)]
