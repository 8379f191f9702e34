"""Who may read which logs, by id or name, and who may not."""

from __future__ import annotations

from shared.auth.principal import Principal
from shared.bus import Bus
from shared.catalog import CatalogStore, User
from shared.ids import UserId
from shared.logs_wire import Chunk
from tests.support.catalog import made, project
from tests.support.logs import ADA, KeptLogs, log_of, publish, submit


def principal(name: str, *, admin: bool = False) -> Principal:
    return Principal(UserId(User.id_of(name)), name, admin)


ANN, BOB, ROOT = principal("ann"), principal("bob"), principal("root", admin=True)
PATHS = (
    "/v1/logs/{job}",
    "/v1/logs/{job}/1/worker/0",
    "/v1/logs/{job}/follow",
    "/v1/scalars/{job}",
    "/v1/logs/{job}/lines",
    "/v1/logs/{job}/1/worker/0/download",
    "/v1/log-search?pattern=x&job={job}",
)


async def logged(bus: Bus, owner: Principal, name: str = "demo", project_name: str = "default") -> str:
    job = await submit(bus, name, owner=owner.user_id, project=project_name)
    await publish(bus, Chunk(log_of(job), 0, b"secret\n"), Chunk(log_of(job), 7, end=7))
    return job


async def status(kept: KeptLogs, who: Principal, path: str) -> int:
    async with kept.client(who).stream("GET", path) as answer:
        return answer.status_code


async def test_a_foreign_job_is_not_there(kept: KeptLogs):
    job = await logged(kept.bus, ANN)
    for path in PATHS:
        assert await status(kept, BOB, path.format(job=job)) == 404
        assert await status(kept, ANN, path.format(job=job)) == 200
        assert await status(kept, ROOT, path.format(job=job)) == 200


async def test_without_a_token_nothing_is_shown(kept: KeptLogs):
    job = await logged(kept.bus, ANN)
    client = kept.client(ANN)
    del client.headers["authorization"]
    for path in PATHS:
        assert (await client.get(path.format(job=job))).status_code == 401


async def test_what_is_no_job_is_not_found(kept: KeptLogs):
    for reference in ("tj-aaaaaaaaaaaa", "nothing", "..", "%2e%2e%2fother", "*", ">", "tj-*", "名字"):
        assert await status(kept, ROOT, f"/v1/logs/{reference}") == 404


async def test_a_name_means_the_own_job_first(kept: KeptLogs):
    await CatalogStore(kept.bus).put(made(User, "ann", {}), expected=0)
    await CatalogStore(kept.bus).put(made(User, "bob", {}), expected=0)
    own, other = await logged(kept.bus, ANN, "实验 #1"), await logged(kept.bus, BOB, "实验 #1")
    assert (await kept.client(ANN).get("/v1/logs/实验 %231")).status_code == 200
    await kept.until_ended(own, principal=ANN)
    await kept.until_ended(other, principal=BOB)
    assert (await kept.client(ROOT).get("/v1/logs/实验 %231")).status_code == 409


async def test_a_name_of_another_means_their_job_to_those_who_may_see_it(kept: KeptLogs):
    store = CatalogStore(kept.bus)
    for name in ("ann", "bob"):
        await store.put(made(User, name, {}), expected=0)
    await logged(kept.bus, ANN, "theirs", "vision")
    assert await status(kept, ROOT, "/v1/logs/theirs/1/worker/0") == 200
    assert await status(kept, BOB, "/v1/logs/theirs/1/worker/0") == 404
    await store.put(project("vision", owner="ann", users=["bob"]), expected=0)
    assert await status(kept, BOB, "/v1/logs/theirs/1/worker/0") == 200
    assert await status(kept, ADA, "/v1/logs/theirs/1/worker/0") == 404


async def test_a_cursor_of_another_job_opens_nothing(kept: KeptLogs):
    await logged(kept.bus, ANN)
    own = await submit(kept.bus, "own", owner=BOB.user_id)
    cursor = {"Last-Event-ID": "AQEGd29ya2VyAQc"}
    async with kept.client(BOB).stream("GET", f"/v1/logs/{own}/1/worker/0", headers=cursor) as answer:
        assert await answer.aread() == b""
