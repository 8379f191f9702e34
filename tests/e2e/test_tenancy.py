"""What one user's job and token can reach of the platform and of another user: nothing; each test tries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = pytest.mark.e2e

PASSWORD = "correct horse battery"
SECRET = "only for ada"


def user(name: str) -> dict[str, object]:
    return {
        "apiVersion": "trainmaster/v1",
        "kind": "User",
        "metadata": {"name": name},
        "spec": {"password": PASSWORD},
    }


@pytest.fixture(scope="module")
def adas_place(platform: Platform) -> Iterator[Path]:
    """A storage that ada alone may use, at a place of the host that sandboxes would show."""
    for name in ("ada", "bob"):
        platform.apply(user(name))
    with TemporaryDirectory(dir=Path.home(), prefix=".trainmaster-test-") as directory:
        (Path(directory) / "file").write_text(SECRET)
        platform.apply(
            {
                "apiVersion": "trainmaster/v1",
                "kind": "Storage",
                "metadata": {"name": "adas"},
                "spec": {"uri": f"file://{directory}", "access": {"users": ["ada"]}},
            }
        )
        yield Path(directory)


def client(platform: Platform, name: str) -> httpx.Client:
    with platform.http as http:
        base = str(http.base_url)
    login = httpx.post(
        f"{base}/v1/auth/login", json={"username": name, "password": PASSWORD}, trust_env=False, timeout=30
    )
    token = login.json()["token"]
    return httpx.Client(base_url=base, headers={"authorization": f"Bearer {token}"}, timeout=30, trust_env=False)


def submit(http: httpx.Client, document: dict[str, object]) -> str:
    answer = http.post("/v1/jobs", json=document)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["metadata"]["id"])


def partial_log(platform: Platform, job: str) -> str:
    with platform.http as http:
        return http.get(f"/v1/logs/{job}/1/worker/0", params={"raw": "true", "offset": 0}).text


def test_a_job_sees_no_file_of_another_user_nor_of_the_platform(platform: Platform, adas_place: Path) -> None:
    home, word = platform.home, "adas-word"
    with client(platform, "ada") as ada:
        adas = submit(ada, job_document("hers", "echo $WORD | tee /tmp/w /dev/shm/w; sleep 600", env={"WORD": word}))
    platform.await_state(adas, "Running")
    await_("her log is kept", lambda: word in partial_log(platform, adas))
    tries = [
        f"grep -rhs ${{HERS}}-wor[d] {home} /tmp /dev/shm",
        "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -a ${HERS}-wor[d]",
        f"cat {adas_place}/file",
        f"cat {home}/config/secrets.json",
        f"cat {home}/admin-password",
        f"ls -A {home}/gangs",
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -v VC_ | grep TRAINMASTER_NATS_PASSWORD",
    ]
    command = "; ".join(f"{{ {attempt} ; }} 2>/dev/null" for attempt in tries) + "; ls /proc | grep -c '^[0-9]'; true"
    with client(platform, "bob") as bob:
        job = submit(bob, job_document("prying", command, env={"HERS": "adas"}))
        assert platform.await_end(job)["status"]["state"] == "Succeeded"
        assert bob.get(f"/v1/logs/{adas}").status_code == 404
    with client(platform, "ada") as ada:
        assert platform.job(adas)["status"]["state"] == "Running"
        ada.post(f"/v1/jobs/{adas}/stop")
    said = platform.log(job).decode()
    assert word not in said
    assert SECRET not in said
    assert "nats_passwords" not in said
    assert (home / "admin-password").read_text().strip() not in said
    assert int(said.split()[-1]) < 12


def test_the_owner_reads_it_where_it_is_mounted(platform: Platform, adas_place: Path) -> None:
    assert adas_place.exists()
    mount = {"type": "storage", "source": "adas", "mountPath": "/mnt/data"}
    with client(platform, "ada") as ada:
        job = submit(ada, job_document("reading", "cat /mnt/data/file", mounts=[mount]))
        platform.await_end(job)
        assert platform.log(job).decode() == SECRET
    with client(platform, "bob") as bob:
        refused = bob.post("/v1/jobs", json=job_document("stealing", "true", mounts=[mount]))
        assert refused.status_code == 422
        for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", f"/v1/logs/{job}", f"/v1/scalars/{job}"):
            assert bob.get(path).status_code == 404, path
        assert bob.post(f"/v1/jobs/{job}/stop").status_code == 404
        assert bob.delete(f"/v1/jobs/{job}").status_code == 404
        assert bob.get("/v1/jobs").json()["items"] == [] or all(
            item["metadata"]["owner"] == "bob" for item in bob.get("/v1/jobs").json()["items"]
        )
        assert bob.put("/v1/auth/users/bob", json=user("bob") | {"spec": {"admin": True}}).status_code == 403


def test_nats_and_http_let_no_job_in_without_a_password(platform: Platform, adas_place: Path) -> None:
    assert adas_place.exists()
    with platform.http as http:
        port = http.base_url.port
    nats = (platform.home / "config" / "nats.conf").read_text().split('listen: "127.0.0.1:')[1].split('"')[0]
    command = (
        f"exec 3<>/dev/tcp/127.0.0.1/{nats}; read -r _ <&3; "
        "printf 'CONNECT {\"verbose\":true}\\r\\nSUB tm.> 1\\r\\n' >&3; timeout 2 head -2 <&3; "
        f"exec 4<>/dev/tcp/127.0.0.1/{port}; printf 'GET /v1/jobs HTTP/1.0\\r\\n\\r\\n' >&4; "
        "timeout 2 head -1 <&4; true"
    )
    with client(platform, "bob") as bob:
        job = submit(bob, job_document("knocking", command))
    platform.await_end(job)
    said = platform.log(job).decode()
    assert "Authorization Violation" in said
    assert "401" in said
