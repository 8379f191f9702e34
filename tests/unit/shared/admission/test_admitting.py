"""Resolving a job against a catalog: what is frozen into the submission, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared.admission import admit
from shared.admission.locations import Locations
from shared.admission.lookup import LookedUp
from shared.admission.packing import pack
from shared.admission.references import World
from shared.catalog import Asker, Cluster, CodeSet, Image, InstanceType, Model, Pool, Project
from shared.errors import ForbiddenError, InvalidInputError
from shared.events import Resolved
from shared.jobspec import judge_job
from tests.support.catalog import catalog_of, dataset, image, instance_type, made, pool, project, storage
from tests.support.specs import changed, job_document, small_job_document, without

ANN = Asker("ann")
LOCATIONS = Locations((), "/state")
DIGEST = "sha256:" + "0" * 64
DOCUMENTS = (
    pool(),
    pool("team-a", type="dedicated", members={"users": ["bob"]}),
    instance_type(),
    instance_type("big", pools=("team-a",), gpu={"count": 8, "model": "A100"}),
    storage("team-data", uri="file:///data/team", public=True),
    dataset("dataset_mnist", uri="file:///data/team/mnist"),
    image("pytorch-2.3"),
    project("vision"),
)


def resolved(
    document: dict[str, Any], *more: Any, asker: Asker = ANN, uploads: frozenset[str] = frozenset()
) -> Resolved:
    return admitted(document, World(catalog_of(*DOCUMENTS, *more), asker, LOCATIONS, uploads))


def admitted(document: dict[str, Any], world: World, missing: frozenset[str] = frozenset()) -> Resolved:
    judged = judge_job(document)
    return admit(judged, LookedUp.of(judged.parts, world), missing)[1]


def codes(document: dict[str, Any], *more: Any, asker: Asker = ANN) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        resolved(document, *more, asker=asker)
    return [(violation.pointer, violation.code) for violation in caught.value.violations]


def test_everything_is_resolved_as_it_is_now() -> None:
    found = resolved(job_document())
    assert found.cluster == "main"
    assert found.image.address == "registry.example/x:1"
    assert [(mount.mount_path, mount.uri, mount.read_only) for mount in found.mounts] == [
        ("/mnt/data", "file:///data/team/mnist", False),
        ("/mnt/set", "file:///data/team/mnist", True),
    ]
    role = found.roles[0]
    assert (role.name, role.pool_name, role.cpu_millis, role.memory_bytes) == ("master", "main", 1000, 1 << 30)
    assert role.price_micros_per_hour == 100_000


def test_a_directory_is_held_in_by_its_storage_because_others_may_make_links_on_the_way_to_it() -> None:
    folder = made(CodeSet, "folder", {"directory": "file:///data/team/code/v1"}, "ann")
    found = resolved(changed(job_document(), "/spec/code", {"source": "folder"}), folder)
    assert [mount.root for mount in found.mounts] == ["file:///data/team", "file:///data/team"]
    assert found.code is not None
    assert (found.code.uri, found.code.root) == ("file:///data/team/code/v1", "file:///data/team")


def test_code_is_resolved_by_its_kind() -> None:
    inline = made(CodeSet, "inline", {"inline": {"a.py": "x"}}, "ann")
    folder = made(CodeSet, "folder", {"directory": "file:///data/team/code"}, "ann")
    kept = made(CodeSet, "kept", {"upload": DIGEST}, "ann")
    foreign = made(CodeSet, "foreign", {"upload": DIGEST}, "bob")
    sets = (inline, folder, kept, foreign)

    def code(choice: dict[str, Any]) -> Any:
        return resolved(changed(small_job_document(), "/spec/code", choice), *sets, uploads=frozenset({DIGEST})).code

    assert code({"inline": {"a.py": "x"}}).kind == "inline"
    assert code({"upload": DIGEST}).digest == DIGEST
    assert code({"source": "kept"}).digest == DIGEST
    assert code({"source": "folder"}).uri == "file:///data/team/code"
    assert code({"source": "inline"}).digest == pack({"a.py": "x"}).digest
    document = changed(small_job_document(), "/spec/code", {"source": "foreign"})
    assert codes(document, *sets) == [("/spec/code/source", "unknown-code-set")]


def test_a_foreign_pool_goes_before_other_errors() -> None:
    document = changed(job_document(), "/spec/roles/0/pool", {"type": "dedicated", "name": "team-a"})
    document = changed(document, "/spec/mounts/0/source", "nothing")
    with pytest.raises(ForbiddenError, match="'team-a'"):
        resolved(document)


def test_an_admin_may_use_every_pool_and_a_dedicated_one_has_no_price() -> None:
    document = changed(small_job_document(), "/spec/roles/0/pool", {"type": "dedicated", "name": "team-a"})
    document = changed(document, "/spec/roles/0/instanceType", "big")
    role = resolved(document, asker=Asker("root", admin=True)).roles[0]
    assert (role.gpu_count, role.gpu_model, role.price_micros_per_hour) == (8, "A100", None)


def test_an_instance_type_must_be_offered_by_the_pool() -> None:
    document = changed(small_job_document(), "/spec/roles/0/instanceType", "big")
    assert codes(document) == [("/spec/roles/0/instanceType", "unknown-instance-type")]


def test_without_a_public_pool_the_sentence_says_what_to_do() -> None:
    world = World(catalog_of(made(InstanceType, "cpu-small", {"cpu": 1, "memory": "1Gi"})), ANN, LOCATIONS)
    with pytest.raises(InvalidInputError) as caught:
        admitted(small_job_document(), world)
    assert [violation.code for violation in caught.value.violations] == ["no-public-pool"]


def test_where_the_engine_cannot_mount_the_reason_is_given() -> None:
    cluster = made(Cluster, "main", {"mounts": False, "mountsHint": "run apt-get install bubblewrap"})
    document = changed(small_job_document(), "/spec/mounts", [{"type": "storage", "source": "team-data"}])
    with pytest.raises(InvalidInputError, match="apt-get install bubblewrap"):
        resolved(document, cluster)
    resolved(small_job_document(), cluster)


def test_names_that_exist_are_offered_but_not_those_of_others() -> None:
    secret = made(Model, "secret", {"uri": "file:///data/team/m"}, "bob")
    own = made(Model, "own", {"uri": "file:///data/team/m"}, "ann")
    document = changed(small_job_document(), "/spec/mounts", [{"type": "model", "source": "other"}])
    with pytest.raises(InvalidInputError) as caught:
        resolved(document, secret, own)
    assert caught.value.violations[0].message.endswith("there is: 'own'")


def test_a_project_is_for_its_members() -> None:
    document = changed(small_job_document(), "/metadata/project", "vision")
    resolved(document)
    assert codes(document, asker=Asker("bob")) == [("/metadata/project", "unknown-project")]


# --- everything at once ----------------------------------------------------------------------------------------------


def test_wrong_names_are_told_together_with_all_else_that_is_wrong() -> None:
    document = job_document()
    for pointer, value in [
        ("/metadata/project", "nobody-s"),
        ("/spec/priority", 10),
        ("/spec/image/ref", "nothing"),
        ("/spec/mounts/0/source", "nothing"),
        ("/spec/mounts/0/mountPath", "relative"),
        ("/spec/roles/0/replicas", "two"),
        ("/spec/roles/0/instanceType", "huge"),
        ("/spec/secrets", {"TOKEN": "nothing", "OTHER": "a b"}),
    ]:
        document = changed(document, pointer, value)
    document = without(without(document, "/spec/tensorboard"), "/spec/checkpoint")
    assert set(codes(document)) == {
        ("/metadata/project", "unknown-project"),
        ("/spec/priority", "out-of-range"),
        ("/spec/image/ref", "unknown-platform-image"),
        ("/spec/mounts/0/source", "unknown-storage"),
        ("/spec/mounts/0/mountPath", "path-not-absolute"),
        ("/spec/roles/0/replicas", "wrong-type"),
        ("/spec/roles/0/instanceType", "unknown-instance-type"),
        ("/spec/secrets/TOKEN", "unknown-secret"),
        ("/spec/secrets/OTHER", "name-character"),
    }


@pytest.mark.parametrize(
    ("pointer", "value", "expected"),
    [
        ("/spec/roles/0/pool", {"type": "dedicated"}, ("/spec/roles/0/pool/name", "required")),
        ("/spec/image", {"source": "custom", "ref": "a:b"}, ("/spec/image/ref", "image-name-invalid")),
        ("/spec/code", {"source": "none", "upload": DIGEST}, ("/spec/code", "code-source")),
        ("/spec/image", {}, ("/spec/image/ref", "required")),
    ],
)
def test_of_one_place_only_the_first_is_told(pointer: str, value: Any, expected: tuple[str, str]) -> None:
    found = codes(changed(small_job_document(), pointer, value))
    assert expected in found
    assert not [code for _, code in found if code.startswith("unknown")]


def test_a_foreign_pool_waits_until_the_document_is_right() -> None:
    document = changed(small_job_document(), "/spec/roles/0/pool", {"type": "dedicated", "name": "team-a"})
    assert codes(changed(document, "/spec/priority", 10)) == [("/spec/priority", "out-of-range")]


# --- directories -----------------------------------------------------------------------------------------------------


def missing(document: dict[str, Any], *paths: str) -> list[tuple[str, str]]:
    folder = made(CodeSet, "folder", {"directory": "file:///data/team/code"}, "ann")
    world = World(catalog_of(*DOCUMENTS, folder), ANN, LOCATIONS)
    with pytest.raises(InvalidInputError) as caught:
        admitted(document, world, frozenset(paths))
    return [(violation.pointer, violation.code) for violation in caught.value.violations]


def test_what_is_read_must_be_there() -> None:
    assert missing(job_document(), "/data/team/mnist") == [("/spec/mounts/1/source", "no-such-directory")]


def test_what_is_written_is_made_where_its_storage_is_there() -> None:
    assert missing(job_document(), "/data/team") == [("/spec/mounts/0/subPath", "no-such-directory")]


def test_code_must_be_there() -> None:
    document = changed(small_job_document(), "/spec/code", {"source": "folder"})
    assert missing(document, "/data/team/code") == [("/spec/code/source", "no-such-directory")]


def test_sizes_that_can_never_fit_are_refused_beside_all_else_that_is_wrong() -> None:
    shape = {"pools": ["main"], "nodes": 1, "cpuMillis": 1000, "memoryBytes": 1 << 30, "gpus": {}}
    cluster = made(Cluster, "main", {"shapes": [shape]})
    document = changed(small_job_document(), "/metadata/project", "moon")
    document["spec"]["roles"][0]["replicas"] = 2
    found = codes(document, cluster)
    assert ("/metadata/project", "unknown-project") in found
    assert ("/spec/roles/0/replicas", "never-fits") in found


def test_sizes_of_all_roles_together_are_judged_where_each_alone_is_right() -> None:
    shape = {"pools": ["main"], "nodes": 2, "cpuMillis": 1000, "memoryBytes": 1 << 30, "gpus": {}}
    alone = {"level": "leaf", "nodes": {"0": 1}}
    cluster = made(Cluster, "main", {"shapes": [shape], "domains": [alone]})
    document = changed(small_job_document(), "/spec/topology", {"mode": "hard", "level": "leaf"})
    document["spec"]["roles"][0]["replicas"] = 2
    assert codes(document, cluster) == [("/spec/topology", "never-fits")]
    document["spec"]["roles"].append({**document["spec"]["roles"][0], "name": "more"})
    assert codes(document, cluster) == [("/spec/roles", "never-fits"), ("/spec/topology", "never-fits")]
    document["spec"]["roles"][0]["replicas"] = 3
    assert codes(document, cluster) == [("/spec/roles/0/replicas", "never-fits")]


def clustered(*schemes: str) -> Cluster:
    return made(Cluster, "main", {"schemes": list(schemes)})


def test_data_that_the_cluster_cannot_mount_is_refused_at_the_mount_that_names_it() -> None:
    assert codes(job_document(), clustered("pvc")) == [
        ("/spec/mounts/0/source", "scheme-unavailable"),
        ("/spec/mounts/1/source", "scheme-unavailable"),
    ]


def test_a_pool_that_leaves_gangs_to_volcano_is_refused_where_that_is_not_to_be_had() -> None:
    without = made(Cluster, "main", {"engine": "kubernetes", "volcano": False, "volcanoHint": "have it installed"})
    pool = made(Pool, "main", {"gangScheduler": "volcano"})
    with pytest.raises(InvalidInputError, match="have it installed") as caught:
        resolved(small_job_document(), pool, without)
    assert [(each.pointer, each.code) for each in caught.value.violations] == [
        ("/spec/roles/0/pool", "volcano-unavailable")
    ]
    assert resolved(small_job_document(), pool, made(Cluster, "main", {"engine": "kubernetes"})).roles


@pytest.mark.parametrize(
    ("pool", "who"), [({"gangScheduler": "volcano"}, "Volcano"), ({"binding": "kubernetes"}, "Kubernetes")]
)
def test_hard_topology_is_refused_where_others_choose_the_nodes(pool: dict, who: str) -> None:
    cluster = made(Cluster, "main", {"engine": "kubernetes"})
    document = small_job_document()
    document["spec"]["topology"] = {"mode": "hard", "level": "leaf"}
    with pytest.raises(InvalidInputError, match=f"in the pool 'main' {who} chooses the nodes") as caught:
        resolved(document, made(Pool, "main", pool), cluster)
    assert [(each.pointer, each.code) for each in caught.value.violations] == [
        ("/spec/topology", "topology-unavailable")
    ]
    assert resolved(document, made(Pool, "main", {}), cluster).roles
    document["spec"]["topology"]["mode"] = "soft"
    assert resolved(document, made(Pool, "main", pool), cluster).roles


def test_a_claim_is_mounted_with_its_storage_as_the_root() -> None:
    claim = storage("team-data", uri="pvc://team", public=True)
    found = resolved(job_document(), claim, dataset("dataset_mnist", uri="pvc://team/mnist"), clustered("pvc"))
    assert [(mount.uri, mount.root) for mount in found.mounts] == [("pvc://team/mnist", "pvc://team")] * 2


def test_what_opens_the_registry_is_the_images_secret_or_else_the_projects() -> None:
    own = made(Image, "pytorch-2.3", {"type": "platform", "address": "x:1", "pullSecret": "registry"}, "ann")
    default = made(Project, "vision", {"pullSecret": "of-project"}, "ann")
    assert resolved(job_document(), own, default).image.pull_secret == "registry"
    found = resolved(job_document(), default).image
    assert (found.pull_secret, found.owner) == ("of-project", default.owner)
    assert resolved(job_document()).image.pull_secret is None
