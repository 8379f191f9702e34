"""A job's cluster: named or the first one, and all of its roles in there."""

from __future__ import annotations

from typing import Any

import pytest

from shared.admission import admit
from shared.admission.lookup import LookedUp
from shared.admission.references import World
from shared.catalog import Cluster
from shared.errors import InvalidInputError
from shared.events import Resolved
from shared.jobspec import JobSpec, judge_job
from tests.support.catalog import catalog_of, instance_type, made, pool
from tests.support.specs import small_job_document
from tests.unit.shared.admission.test_admitting import ANN, LOCATIONS


def cluster(name: str, *, first: bool = False, **spec: Any) -> Cluster:
    return made(Cluster, name, {"first": first, **spec})


PROD, EAST = cluster("prod", first=True), cluster("east", mounts=False, mountsHint="no driver")
POOLS = (
    pool("public", cluster="prod"),
    pool("public-east", cluster="east"),
    pool("team-a", type="dedicated", cluster="east", members={"users": ["ann"]}),
    instance_type(pools=("public", "public-east", "team-a")),
)


def job(**spec: Any) -> dict[str, Any]:
    document = small_job_document()
    return {**document, "spec": {**document["spec"], **spec}}


def let_in(document: dict[str, Any], *catalog: Any) -> tuple[JobSpec, Resolved]:
    judged = judge_job(document)
    world = World(catalog_of(*(catalog or (PROD, EAST, *POOLS))), ANN, LOCATIONS)
    return admit(judged, LookedUp.of(judged.parts, world), frozenset())


def refused(document: dict[str, Any], *catalog: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        let_in(document, *catalog)
    return [(each.pointer, each.code, each.message) for each in caught.value.violations]


def test_a_job_that_names_no_cluster_gets_the_first_one_and_says_so():
    spec, resolved = let_in(job())
    assert (spec.spec.cluster, resolved.cluster, resolved.roles[0].pool_name) == ("prod", "prod", "public")


def test_the_public_pool_is_that_of_the_jobs_cluster():
    _, resolved = let_in(job(cluster="east"))
    assert (resolved.cluster, resolved.roles[0].pool_name) == ("east", "public-east")


def test_a_cluster_that_there_is_not_is_refused_with_those_that_there_are():
    told = ("/spec/cluster", "unknown-cluster", "there is no cluster 'main'; there is: 'east', 'prod'")
    assert refused(job(cluster="main")) == [told]


def test_all_roles_run_in_one_cluster():
    document = job()
    first = document["spec"]["roles"][0]
    document["spec"]["roles"] = [
        {**first, "name": "here"},
        {**first, "name": "there", "pool": {"type": "dedicated", "name": "team-a"}},
    ]
    (told,) = refused(document)
    assert told[:2] == ("/spec/roles/1/pool/name", "pool-of-another-cluster")
    assert told[2] == (
        "the pool 'team-a' is in the cluster 'east', and all roles of this job run in 'prod'; "
        "set spec.cluster to 'east', or give a pool of 'prod'"
    )
    document["spec"]["cluster"] = "east"
    assert [role.pool_name for role in let_in(document)[1].roles] == ["public-east", "team-a"]


def test_a_cluster_without_a_public_pool_says_so():
    told = refused(job(cluster="east"), PROD, EAST, pool("public", cluster="prod"), instance_type())
    assert [(pointer, code) for pointer, code, _ in told] == [("/spec/roles/0/pool", "no-public-pool")]
    assert told[0][2].startswith("the cluster 'east' has no public pool; ")


def test_what_a_cluster_can_mount_is_asked_of_the_jobs_own():
    mounts = [{"type": "storage", "source": "team-data", "mountPath": "/mnt/data"}]
    told = refused(job(cluster="east", mounts=mounts))
    assert ("/spec/mounts", "mounts-unavailable", "mounts do not work here: no driver") in told
    assert not any(code == "mounts-unavailable" for _, code, _ in refused(job(mounts=mounts)))


def test_before_a_scheduler_has_told_of_clusters_the_first_is_called_main():
    assert let_in(job(), *POOLS)[1].cluster == "main"
    assert let_in(job(cluster="main"), *POOLS)[1].cluster == "main"
    assert refused(job(cluster="east"), *POOLS)[0][2] == "there is no cluster 'east'; there is: none yet"
