"""Whether gangs can be left to Volcano, by what an API server says."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.volcano import Volcano
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError

NOT_KNOWN = ApiError(404, "NotFound", "the server could not find the requested resource")


class Server:
    """An API server with Volcano, where everything is allowed."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.allowed = True
        self.asked: dict = {}

    async def request(self, method: str, path: str, *, body: dict | None = None) -> dict:
        if self.problem is not None:
            raise self.problem
        if method == "GET":
            assert path == "/apis/scheduling.volcano.sh/v1beta1"
            return {}
        assert path.endswith("/selfsubjectaccessreviews")
        self.asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": self.allowed}}


async def test_nothing_stands_in_the_way_where_podgroups_may_be_made():
    server = Server()
    volcano = Volcano(server, "jobs")
    await volcano.ask()
    assert (volcano.obstacle, volcano.asked.is_set()) == ("", True)
    group = {"group": "scheduling.volcano.sh", "resource": "podgroups"}
    assert server.asked == {"verb": "create", "namespace": "jobs", **group}


async def test_what_is_missing_is_told_with_what_to_do():
    server = Server()
    volcano = Volcano(server, "")
    server.problem = NOT_KNOWN
    await volcano.ask()
    assert "have Volcano installed" in volcano.obstacle
    server.problem, server.allowed = None, False
    await volcano.ask()
    assert "in all namespaces; have the chart installed with jobs.volcano: true" in volcano.obstacle
    server.allowed = True
    await volcano.ask()
    assert volcano.obstacle == ""


@pytest.mark.parametrize("error", [UnavailableError("away"), ApiError(403, "Forbidden", "no")])
async def test_an_answer_that_cannot_be_had_changes_nothing(error):
    server = Server()
    volcano = Volcano(server, "jobs")
    server.problem = NOT_KNOWN
    await volcano.ask()
    before = volcano.obstacle
    server.problem = error
    await volcano.ask()
    assert volcano.obstacle == before
