"""Among which nodes others may choose."""

from __future__ import annotations

import pytest

from services.scheduler.domain.choosing import Among, among
from services.scheduler.domain.gang import Pool
from services.scheduler.domain.nodes import NodeState
from tests.support.cluster import ask, gang, node

TEAM = Pool("team", "main", node_labels={"team": "x"}, node_names=frozenset({"n-b"}))
PUBLIC = Pool("public", "main", dedicated=(TEAM,))
MINE = {"labels": {"team": "x"}}


def found(*nodes, pool: Pool = TEAM, excluded: tuple[str, ...] = (), **wanted) -> Among:
    role = ask(pool=pool.name, **wanted)
    return among(gang(role, excluded=excluded), {pool.name: pool}, nodes)["worker"]


@pytest.mark.parametrize("state", [state for state in NodeState if state is not NodeState.READY])
def test_nodes_that_take_no_gangs_are_barred(state: NodeState):
    assert found(node("a", **MINE), node("c", state=state, **MINE)).barred == ("c",)


def test_nodes_that_the_job_does_not_want_are_barred():
    assert found(node("a", **MINE), node("c", **MINE), excluded=("n-a",)).barred == ("a",)


def test_nodes_whose_gpus_are_of_another_model_are_barred():
    nodes = (node("a", gpus=1, **MINE), node("c", gpus=1, model="H100", **MINE))
    assert found(*nodes, gpus=1, model="H100").barred == ("a",)
    assert found(*nodes, gpus=1).barred == ()


def test_nodes_of_dedicated_pools_are_barred_to_a_pool_that_selects_none():
    assert found(node("a"), node("b"), node("c", **MINE), pool=PUBLIC).barred == ("b", "c")


def test_what_selectors_leave_out_need_not_be_barred():
    assert found(node("a", state=NodeState.LOST), node("c", cluster="east", state=NodeState.LOST)).barred == ()


def test_nodes_that_are_named_by_id_are_told_by_name():
    assert found(node("b"), node("c", **MINE)).named == ("b",)


def test_roles_of_pools_that_are_gone_have_none():
    assert among(gang(ask(pool="gone")), {}, ()) == {}
