"""The logs service: ingest, size, opening, searching, following, scalars; `--quick` with a tenth of the logs.

The parts are in `log_ingest`, `log_reads`, `log_follow` and `scalars`. The peer or limit of each figure was taken in
the same run, on the same cores, with the same text.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import log_follow, log_ingest, log_reads
from benchmarks.report import Row, percentile, progress, report
from benchmarks.scalars import scalar_rows

_MB = 1e6


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    scale = 10 if parser.parse_args().quick else 1
    work = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    try:
        rows = [*_ingest(work / "ingest", scale), *_reads(work / "reads", scale)]
        rows += [*_follow(work / "follow"), *scalar_rows()]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report("logs", rows)


def _ingest(work: Path, scale: int) -> Iterator[Row]:
    progress(f"taking in the logs of {log_ingest.REPLICAS} replicas on one core")
    found = log_ingest.measure(work, 786_432 if scale == 1 else 262_144)
    text = found.text_bytes / _MB
    zstd = found.text_bytes / found.zstd_bytes
    yield Row("ingest, durable, one core", text / found.wall_s, "MB/s", "higher", 80, "zstd -1", text / found.zstd_s)
    yield Row(
        "ingest, a second of CPU",
        text / found.cpu_s,
        "MB/s",
        "higher",
        None,
        "bare JetStream consumer",
        text / found.bare_consumer_s,
    )
    yield Row("text over stored bytes, at once", found.ratio_at_once, "x", "higher", 8, "zstd -1", zstd)
    yield Row("text over stored bytes, packed anew", found.ratio_compacted, "x", "higher", 10, "zstd -1", zstd)
    yield Row("resident memory at its peak", found.resident_mib, "MiB", "lower", 300)


def _reads(work: Path, scale: int) -> Iterator[Row]:
    progress("laying a log of 10 GB and one of 1 GB, then opening and searching them")
    found = log_reads.measure(work, 10_000_000_000 // scale, 1_000_000_000 // scale)
    frame = "one frame read and unpacked", 1e3 * found.one_frame_s
    yield Row("10 GB log: its tail, for the first time", 1e3 * found.first_tail_s, "ms", "lower", 20, *frame)
    for name, took, goal in (
        ("10 GB log: its tail, p95", found.tails_s, 20),
        ("10 GB log: 64 KiB at any offset, p95", found.offsets_s, 20),
        ("last 200 lines of a replica, p95", found.last_200_s, 10),
    ):
        yield Row(name, 1e3 * percentile(took, 95), "ms", "lower", goal, *frame)
    yield Row("a rare literal in 1 GB, p95", 1e3 * percentile(found.literal_s, 95), "ms", "lower", 50)
    yield Row(
        "full scan, one core",
        found.scan_bytes_s / _MB,
        "MB/s",
        "higher",
        600,
        "reading and unpacking alone",
        found.unpack_bytes_s / _MB,
    )


def _follow(work: Path) -> Iterator[Row]:
    progress(f"following {log_follow.REPLICAS} replicas")
    took = log_follow.measure(work, 20)
    name = f"write of a replica to a follower of {log_follow.REPLICAS}"
    yield Row(f"{name}, p50", 1e3 * percentile(took, 50), "ms", "lower", None)
    yield Row(f"{name}, p99", 1e3 * percentile(took, 99), "ms", "lower", 400)


if __name__ == "__main__":
    main()
