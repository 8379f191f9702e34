"""The JSON of nodes, pools and standings."""

from __future__ import annotations

from services.scheduler.domain.explain import Blocker
from services.scheduler.domain.explaining.changes import Change
from services.scheduler.domain.explaining.holders import Held, Holder
from services.scheduler.domain.explaining.whereabouts import Whereabouts
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.node_life import NodeLife
from services.scheduler.domain.nodes import NodeState
from services.scheduler.domain.standing import Standing
from services.scheduler.domain.views import node_document, pool_status, pools_of, standing_document
from shared.jobs import JobState
from tests.support.cluster import POOLS, PUBLIC, gang, node, request
from tests.support.jobs import START


def rooms(*nodes):
    ledger = Ledger(nodes)
    ledger.hold("g", [Seat("w", 0, nodes[0].id, request(cores=3, memory_gib=2, gpus=1), ("a-gpu0",))])
    return ledger.rooms


def test_a_node_is_shown_with_its_capacity_and_what_is_free():
    here = rooms(node("a", cores=8, memory_gib=32, gpus=2, labels={"team": "x"}))["n-a"]
    document = node_document(NodeLife(here.node), here, ["public"])
    assert document["metadata"] == {"id": "n-a", "name": "a", "labels": {"team": "x"}}
    assert document["spec"] == {"cluster": "main", "cpu": "8", "memory": "32Gi", "gpus": 2, "gpuModels": ["A100"]}
    assert document["status"] == {
        "state": "Ready",
        "reason": "",
        "by": "",
        "since": None,
        "quarantineWithheld": False,
        "returning": None,
        "pools": ["public"],
        "free": {"cpu": "5", "memory": "30Gi", "gpus": 1},
    }


def test_a_pool_sums_its_nodes_and_counts_only_ready_ones_as_free():
    here = rooms(node("a", cores=8), node("b", cores=4, state=NodeState.DRAINING))
    status = pool_status(PUBLIC, here.values())
    assert (status["nodes"], status["ready"]) == (2, 1)
    assert (status["total"]["cpu"], status["free"]["cpu"]) == ("12", "5")


def test_an_unknown_pool_has_nothing():
    assert pool_status(None, rooms(node("a")).values())["nodes"] == 0


def test_a_node_knows_its_pools():
    here = rooms(node("a", labels={"team": "x"}), node("b"))
    assert pools_of(here["n-a"], POOLS) == ["public", "team"]
    assert pools_of(here["n-b"], POOLS) == ["public"]


def test_a_standing_is_shown_with_its_numbers():
    blocker = Blocker("worker", "cpu", 12, 6, 16, 4, "short of cores")
    change = Change("replicas", "1 instead of 3 replicas", gang(), "worker", "3", "1", ("spec.roles.0.replicas=1",))
    held = Held("cpu", "public", (Holder("tj-2", 4, START),), 6)
    standing = Standing("tj-1", JobState.QUEUED, "waits", 2, 5, (blocker,), (held,), (change,), ("less",), START)
    assert standing_document(standing) == {
        "job": "tj-1",
        "state": "Queued",
        "position": 2,
        "rivals": 5,
        "summary": "waits",
        "blockers": [
            {
                "role": "worker",
                "resource": "cpu",
                "needed": 12,
                "available": 6,
                "total": 16,
                "largest": 4,
                "detail": "short of cores",
            }
        ],
        "held": [
            {
                "resource": "cpu",
                "pool": "public",
                "by": [{"job": "tj-2", "amount": 4, "endsBy": "2026-01-01T00:00:00.000Z"}],
                "byOthers": 6,
            }
        ],
        "changes": [
            {
                "kind": "replicas",
                "role": "worker",
                "from": "3",
                "to": "1",
                "settings": ["spec.roles.0.replicas=1"],
                "text": "1 instead of 3 replicas",
            }
        ],
        "suggestions": ["1 instead of 3 replicas would start it now", "less"],
        "expectedStartAt": "2026-01-01T00:00:00.000Z",
        "neverFits": False,
        "warnings": [],
        "placement": None,
    }


def test_the_place_of_a_placed_job_is_shown_with_why():
    place = Whereabouts("leaf", 2, 3, 4, 1, 0)
    document = standing_document(Standing("tj-1", JobState.RUNNING, "runs", place=place))
    assert document["placement"]["level"] == "leaf"
    assert document["placement"]["why"] == place.text
