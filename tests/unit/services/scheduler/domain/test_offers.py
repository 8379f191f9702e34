"""Who sees which pool, type and price; and which documents make no sense together."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from services.scheduler.domain.offers import (
    alternatives,
    instance_type_violations,
    pool_violations,
    seen_by,
    stamped,
    usable_pools,
)
from shared.catalog import Asker, Catalog, Cluster, InstanceType, Pool
from tests.support.catalog import catalog_of, made
from tests.support.jobs import START

ROOT, ADA, BOB = Asker("root", admin=True), Asker("ada", groups=frozenset({"vision"})), Asker("bob")


def document(kind, name, **spec):
    return kind.model_validate(
        {"apiVersion": "trainmaster/v1", "kind": kind.__name__, "metadata": {"name": name}, "spec": spec}
    )


def pool(name, **spec):
    return document(Pool, name, **spec)


def instance_type(name, *pools):
    return document(InstanceType, name, cpu=1, memory="1Gi", pools=list(pools), pricePerHour="2")


def catalog(*documents) -> Catalog:
    made = Catalog()
    for revision, one in enumerate(documents, start=1):
        made.apply(one.key_of(one.name), json.dumps(one.document()).encode(), revision)
    return made


TEAM = pool("team", type="dedicated", members={"groups": ["vision"]})
EVERYTHING = catalog(
    document(Cluster, "main"),
    pool("public"),
    TEAM,
    instance_type("both", "public", "team"),
    instance_type("own", "team"),
)


def test_dedicated_pools_are_for_members_and_admins():
    assert [sorted(usable_pools(EVERYTHING, asker)) for asker in (ROOT, ADA, BOB)] == [
        ["public", "team"],
        ["public", "team"],
        ["public"],
    ]


@pytest.mark.parametrize(
    ("name", "asker", "pools", "price"),
    [
        ("both", ROOT, ("public", "team"), 2_000_000),
        ("own", ROOT, ("team",), 2_000_000),
        ("both", ADA, ("public", "team"), 2_000_000),
        ("own", ADA, ("team",), None),
        ("both", BOB, ("public",), 2_000_000),
    ],
)
def test_an_instance_type_is_seen_with_usable_pools_and_a_public_price(name, asker, pools, price):
    seen = seen_by(EVERYTHING.get(InstanceType, name), EVERYTHING, asker)
    assert (seen.spec.pools, seen.spec.price_per_hour) == (pools, price)


def test_an_instance_type_of_foreign_pools_is_not_seen():
    assert seen_by(EVERYTHING.get(InstanceType, "own"), EVERYTHING, BOB) is None


def test_alternatives_are_pools_that_the_asker_may_use_and_that_offer_the_type():
    assert alternatives("both", "main", EVERYTHING, ADA) == {
        "public": "{type: public}",
        "team": "{type: dedicated, name: team}",
    }
    assert alternatives("both", "main", EVERYTHING, BOB) == {"public": "{type: public}"}
    assert alternatives("both", "moon", EVERYTHING, ADA) == {}
    assert alternatives("gone", "main", EVERYTHING, ADA) == {}


@pytest.mark.parametrize(
    ("wrong", "place", "code"),
    [
        (pool("x", cluster="moon", type="dedicated"), "/spec/cluster", "unknown-cluster"),
        (pool("x"), "/spec/type", "second-public-pool"),
        (pool("public", members={"users": ["ada"]}), "/spec/members", "members-of-public-pool"),
        (pool("public", binding="kubernetes"), "/spec/binding", "needs-kubernetes"),
        (pool("public", gangScheduler="volcano"), "/spec/gangScheduler", "needs-kubernetes"),
        (pool("public", runAsUser=2000), "/spec/runAsUser", "needs-kubernetes"),
        (pool("public", queue="research"), "/spec/queue", "queue-without-volcano"),
    ],
)
def test_a_pool_that_makes_no_sense_is_told_why(wrong, place, code):
    assert (place, code) in [(found.pointer, found.code) for found in pool_violations(wrong, EVERYTHING)]


def test_a_pool_may_leave_gangs_to_volcano_only_where_its_cluster_has_it():
    hint = "its API server does not know it; have Volcano installed there"
    without = made(Cluster, "main", {"engine": "kubernetes", "volcano": False, "volcanoHint": hint})
    wanted = pool("team", type="dedicated", gangScheduler="volcano", queue="research")
    (found,) = pool_violations(wanted, catalog_of(without))
    assert (found.pointer, found.code) == ("/spec/gangScheduler", "volcano-unavailable")
    assert hint in found.message
    assert not list(pool_violations(wanted, catalog_of(made(Cluster, "main", {"engine": "kubernetes"}))))


def test_a_pool_that_makes_sense_is_fine():
    assert not list(pool_violations(pool("public", queuePolicy="fifo"), EVERYTHING))
    assert not list(pool_violations(TEAM, EVERYTHING))


def test_a_pool_of_a_kubernetes_cluster_may_leave_binding_and_gangs_to_others():
    cluster = made(Cluster, "main", {"engine": "kubernetes"})
    wanted = pool("public", binding="kubernetes", gangScheduler="volcano", queue="research")
    assert not list(pool_violations(wanted, catalog_of(cluster)))


def test_an_instance_type_names_pools_that_there_are():
    (found,) = instance_type_violations(instance_type("x", "public", "moon"), EVERYTHING)
    assert (found.pointer, found.code) == ("/spec/pools/1", "unknown-pool")
    assert "public, team" in found.message


def test_a_document_keeps_the_time_of_its_making():
    made = stamped(TEAM, None, START)
    assert (made.metadata.created_at, made.metadata.updated_at) == (START, START)
    changed = stamped(TEAM, made, START + timedelta(days=1))
    assert (changed.metadata.created_at, changed.metadata.updated_at) == (START, START + timedelta(days=1))
