"""Right job documents: defaults, shorthands, and names in every script."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidInputError, Violation
from shared.ids import DNS_LABEL_MAX, replica_id
from shared.jobspec import validate_job
from shared.jobspec.models import JobSpec
from tests.support.specs import changed, job_document, small_job_document, without

NAME_CHARACTERS = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zs", "Zl", "Zp"], exclude_characters='/:*?"<>|')


def violations_of(document: object) -> tuple[Violation, ...]:
    try:
        validate_job(document)
    except InvalidInputError as error:
        return error.violations
    return ()


def test_defaults_are_filled_in() -> None:
    job = validate_job(small_job_document())
    assert job.metadata.project == "default"
    assert job.spec.cluster == "main"
    assert job.spec.roles[0].name == "worker"
    assert job.spec.roles[0].pool.type == "public"
    assert job.spec.image.source == "address"
    assert job.spec.start_timeout_s == 1800
    assert job.spec.termination_grace_s == 30
    assert job.spec.max_run_time_s is None
    assert job.spec.completion.succeed_when == "all"
    assert not job.spec.preemptible


def test_the_printed_document_means_the_same_job() -> None:
    job = validate_job(job_document())
    assert validate_job(job.document()) == job
    assert job.document()["spec"]["startTimeout"] == "30m"


def test_the_callers_document_is_not_changed() -> None:
    document = changed(job_document(), "/spec/env/VC_WORKER_NUM", "7")
    before = repr(document)
    validate_job(document)
    assert repr(document) == before


def test_a_replica_variable_sets_the_replicas_of_its_role_and_leaves_env() -> None:
    document = changed(job_document(), "/spec/roles/1/name", "ps-a")
    for value in ("7", 7):
        job = validate_job(changed(document, "/spec/env/VC_PS_A_NUM", value))
        assert [role.replicas for role in job.spec.roles] == [1, 7]
        assert dict(job.spec.env) == {"NCCL_DEBUG": "INFO"}


def test_a_replica_variable_may_stand_in_for_replicas() -> None:
    document = without(changed(job_document(), "/spec/env/VC_WORKER_NUM", "3"), "/spec/roles/1/replicas")
    assert validate_job(document).spec.roles[1].replicas == 3


def test_a_single_mount_without_a_path_is_at_mnt_data() -> None:
    mount = {"type": "dataset", "source": "dataset_mnist"}
    document = changed(small_job_document(), "/spec/mounts", [mount])
    document = changed(document, "/spec/tensorboard", {"logDir": "/mnt/data/runs"})
    assert validate_job(document).spec.mounts[0].mount_path == "/mnt/data"


def test_a_directory_may_be_written_with_a_slash_at_its_end() -> None:
    mount = {"type": "dataset", "source": "dataset_mnist", "subPath": "mnist/", "mountPath": "/mnt/data/"}
    document = changed(small_job_document(), "/spec/mounts", [mount])
    document = changed(document, "/spec/tensorboard", {"logDir": "/mnt/data/output/runs/"})
    spec = validate_job(changed(document, "/spec/checkpoint", {"dir": "/mnt/data/ckpt/"})).spec
    assert (spec.mounts[0].mount_path, spec.mounts[0].sub_path) == ("/mnt/data", "mnist")
    assert spec.tensorboard is not None
    assert spec.tensorboard.log_dir == "/mnt/data/output/runs"
    assert spec.checkpoint is not None
    assert spec.checkpoint.dir == "/mnt/data/ckpt"
    for wrong in ("/mnt/data//", "/"):
        assert violations_of(changed(document, "/spec/tensorboard/logDir", wrong))


def test_blocks_that_are_off_are_accepted() -> None:
    document = job_document()
    document["spec"] |= {
        "retry": {"maxRetries": 0},
        "diagnosis": {"enabled": False},
        "hangDetection": {"enabled": False, "silence": "30m"},
        "preemptible": False,
        "secrets": {},
        "topology": None,
        "cluster": "main",
        "framework": "other",
    }
    validate_job(document)
    validate_job(changed(job_document(), "/spec/retry", None))


def test_odd_but_legal_names_work() -> None:
    for name in (
        "训练任务",
        "a@b#c+d",
        "(x)[y]{z}",
        "ünïcödé",
        "ชื่อ",
        "👩‍🔬",
        "…",
        "a,b;c=d&e%f",
        "x" * 128,
        "训" * 128,
    ):
        assert validate_job(changed(job_document(), "/metadata/name", name)).metadata.name == name
        assert name in validate_job(changed(job_document(), "/metadata/labels/-", name)).metadata.labels


@given(st.text(NAME_CHARACTERS, min_size=1, max_size=128).filter(lambda name: name not in {".", ".."}))
def test_every_visible_name_is_kept_as_it_is(name: str) -> None:
    assert validate_job(changed(job_document(), "/metadata/name", name)).metadata.name == name


@given(st.text(max_size=140))
def test_a_name_is_kept_or_refused_but_never_changed(name: str) -> None:
    document = changed(job_document(), "/metadata/name", name)
    violations = violations_of(document)
    if violations:
        assert {violation.pointer for violation in violations} == {"/metadata/name"}
        return
    assert validate_job(document).metadata.name == name
    assert not any(char.isspace() or unicodedata.category(char) == "Cc" for char in name)


@given(
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
    st.integers(min_value=1, max_value=10_000),
)
def test_an_accepted_role_gives_host_labels_that_fit_for_every_index_and_attempt(name: str, replicas: int) -> None:
    document = changed(small_job_document(), "/spec/roles/0/name", name)
    violations = violations_of(changed(document, "/spec/roles/0/replicas", replicas))
    fits = len(replica_id("tj-aaaaaaaaaaaa", 999, name, replicas - 1)) <= DNS_LABEL_MAX
    assert [violation.code for violation in violations] == ([] if fits else ["host-name-too-long"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
KEYS = [*JobSpec.model_json_schema()["$defs"]["TrainingSpec"]["properties"]]


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_any_json_in_any_section_is_answered_with_violations_and_never_a_crash(spec: dict[str, object]) -> None:
    document = job_document()
    document["spec"] |= spec
    for violation in violations_of(document):
        assert violation.code
        assert violation.message
