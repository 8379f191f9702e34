"""The platform on one machine: start, idle memory, time to the first log line, fifty jobs at once, the demo.

Beside each figure stands the same work without a platform: a bare process, fifty bare processes, a bare nats-server.
The demo is run as a newcomer would, in a fresh clone of the working tree's HEAD, PyTorch's installation included;
`--quick` leaves it out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.report import Row, percentile, progress, report
from tests.support.nats import NatsServer
from tests.support.platform import ROOT, Platform, await_, job_document

_STARTS = 5
_JOBS = 30
_TOGETHER = 50
_IDLE_S = 10.0


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    work = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    try:
        rows = [_start(work), *_on_a_platform(work)]
        if not quick:
            rows.append(_demo(work))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report("platform", rows)


def _start(work: Path) -> Row:
    progress("starting the platform")
    took = []
    for number in range(_STARTS):
        platform = Platform(work / f"start-{number}")
        began = time.perf_counter()
        platform.up()
        took.append(time.perf_counter() - began)
        platform.down()
    server = NatsServer(work / "bare-nats")
    began = time.perf_counter()
    server.start()
    bare = time.perf_counter() - began
    server.kill()
    return Row("up until ready, p50", percentile(took, 50), "s", "lower", 3, "bare nats-server", bare)


def _on_a_platform(work: Path) -> Iterator[Row]:
    with _running(work / "home") as platform:
        progress("idle memory")
        time.sleep(_IDLE_S)
        yield Row("idle resident memory, all processes", _resident_mib(platform), "MiB", "lower", 250)
        progress(f"{_JOBS} echo jobs one after the other")
        yield from _first_lines(platform)
        progress(f"{_TOGETHER} echo jobs at once")
        yield _fifty_at_once(platform)


@contextmanager
def _running(home: Path) -> Iterator[Platform]:
    platform = Platform(home)
    platform.up()
    try:
        yield platform
    finally:
        platform.down()


def _resident_mib(platform: Platform) -> float:
    pid = platform.pid
    if pid is None:
        raise RuntimeError("the platform is gone")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(_rss_kib(int(process)) for process in (pid, *children)) / 1024


def _rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def _first_lines(platform: Platform) -> Iterator[Row]:
    with platform.http as http:
        took = [_first_line_s(http, number) for number in range(_JOBS)]
    bare = [_bare_s() for _ in range(_JOBS)]
    name = "submission to first log line of an echo job"
    yield Row(f"{name}, p50", percentile(took, 50), "s", "lower", 0.35, "bare process", percentile(bare, 50))
    yield Row(f"{name}, p95", percentile(took, 95), "s", "lower", None, "bare process", percentile(bare, 95))


def _first_line_s(http: httpx.Client, number: int) -> float:
    began = time.perf_counter()
    answer = http.post("/v1/jobs", json=job_document(f"echo-{number}", "echo hello"))
    answer.raise_for_status()
    job = answer.json()["metadata"]["id"]
    with http.stream("GET", f"/v1/logs/{job}/follow") as lines:
        for line in lines.iter_lines():
            if "hello" in line:
                took = time.perf_counter() - began
                break
        else:
            raise RuntimeError(f"{job} ended without its line")
    return took


def _bare_s() -> float:
    began = time.perf_counter()
    subprocess.run(["/bin/bash", "-c", "echo hello"], check=True, capture_output=True)
    return time.perf_counter() - began


def _fifty_at_once(platform: Platform) -> Row:
    with platform.http as http, ThreadPoolExecutor(8) as pool:
        began = time.perf_counter()

        def submit(number: int) -> None:
            http.post("/v1/jobs", json=job_document(f"fifty-{number}", "echo hello")).raise_for_status()

        list(pool.map(submit, range(_TOGETHER)))
        await_("fifty jobs are done", lambda: _succeeded(http) >= _JOBS + _TOGETHER, 120)
        took = time.perf_counter() - began
    began = time.perf_counter()
    bare = [subprocess.Popen(["/bin/bash", "-c", "echo hello"], stdout=subprocess.DEVNULL) for _ in range(_TOGETHER)]
    for process in bare:
        process.wait()
    return Row(
        f"{_TOGETHER} echo jobs submitted at once, until done",
        took,
        "s",
        "lower",
        6,
        "bare processes",
        time.perf_counter() - began,
    )


def _succeeded(http: httpx.Client) -> int:
    answer = http.get("/v1/jobs", params={"state": "Succeeded", "limit": 200})
    answer.raise_for_status()
    return len(answer.json()["items"])


def _demo(work: Path) -> Row:
    progress("make demo in a fresh clone, everything installed anew")
    clone = work / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    began = time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINMASTER_")}
    subprocess.run(["make", "demo"], cwd=clone, check=True, env=environment)
    return Row("make demo in a fresh clone", time.perf_counter() - began, "s", "lower", 300)


if __name__ == "__main__":
    main()
