"""Text like that of real training jobs, from a seed: what the benchmark of logs stores, finds and compares with.

A replica writes what a Megatron-like trainer does: a start-up part (environment, NCCL, model), then an iteration line
every few steps with a time stamp, losses that fall with noise, learning rate, gradient norm and times that vary in all
their digits; between them lines of the data loader, checkpoints, evaluations with a progress bar, warnings of
libraries, and now and then a stack trace. No two replicas and no two lines are the same. Nothing is repeated to make it
compress better: the digits of a line are random numbers of the magnitude that the real ones have.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

_CHECKPOINT_WARNING: Final = (
    "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:{line}: UserWarning: torch.utils.checkpoint: "
    "the use_reentrant parameter should be passed explicitly."
)
_STREAMS_WARNING: Final = (
    "[rank{rank}]:[W{clock} ProcessGroupNCCL.cpp:{line}] Warning: TORCH_NCCL_AVOID_RECORD_STREAMS=1 has no effect for "
    "point-to-point collectives."
)
_CACHE_WARNING: Final = (
    "WARNING:datasets.builder:Using the latest cached version of the dataset at /mnt/data/cache/{hex} "
    "(last modified on {clock})."
)
_WARNINGS: Final = (_CHECKPOINT_WARNING, _STREAMS_WARNING, _CACHE_WARNING)
_CHANNEL: Final = (
    "{host}:{pid}:{tid} [{gpu}] NCCL INFO Channel {channel:02d}/16 : {rank}[{gpu}] -> {peer}[{gpu}] via P2P/CUMEM/read"
)
_TREES: Final = (
    "{host}:{pid}:{tid} [{gpu}] NCCL INFO Trees [0] {a}/{b}/-1->{rank}->{peer} [1] {b}/{a}/-1->{rank}->{peer}"
)
_INIT: Final = (
    "{host}:{pid}:{tid} [{gpu}] NCCL INFO ncclCommInitRank comm 0x{hex} rank {rank} nranks 1024 cudaDev {gpu} "
    "busId {hex2} commId 0x{hex} - Init COMPLETE"
)
_NCCL: Final = (_CHANNEL, _TREES, _INIT)
_TRACE: Final = """Traceback (most recent call last):
  File "/code/data/loader.py", line {line}, in __next__
    sample = self.decode(self.shards[shard].read(offset, length))
  File "/code/data/shards.py", line {line2}, in read
    raise ShardReadError(f"shard {{self.name}} at {{offset}}: {{error}}")
data.shards.ShardReadError: shard {hex}.tar at {offset}: connection reset by peer; retrying on replica {peer}
"""


class TrainingLog:
    """The log of one replica; endless."""

    def __init__(self, seed: int, rank: int) -> None:
        self._random = random.Random(f"{seed}/{rank}")  # noqa: S311  # a repeatable load
        self._rank = rank
        self._now = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=self._random.random() * 86_400)
        self._loss = 11.0 + self._random.random()
        self._step = 0

    def lines(self) -> Iterator[str]:
        """Lines with their ends, for ever."""
        yield from self._start_up()
        while True:
            yield self._iteration()
            yield from self._between()

    def _start_up(self) -> Iterator[str]:
        for _ in range(120):
            yield self._filled(self._random.choice(_NCCL)) + "\n"
        for layer in range(48):
            yield f"{self._clock()} INFO model.py:211 layer {layer:02d} parameters {self._random.randrange(10**8)}\n"

    def _iteration(self) -> str:
        draw = self._random
        self._step += 10
        self._now += timedelta(milliseconds=draw.gauss(23_000, 900))
        self._loss = max(1.4, self._loss * 0.9995) + draw.gauss(0, 0.03)
        elapsed = draw.gauss(2300, 90)
        return (
            f" [{self._now:%Y-%m-%d %H:%M:%S}.{self._now.microsecond:06d}] iteration {self._step:8d}/  500000 | "
            f"consumed samples: {self._step * 1024:12d} | elapsed time per iteration (ms): {elapsed:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): {draw.gauss(401, 9):.1f} | "
            f"learning rate: {3e-4 * (1 - self._step / 500_000):.6E} | global batch size:  1024 | "
            f"lm loss: {self._loss:.6E} | loss scale: 1.0 | grad norm: {abs(draw.gauss(0.4, 0.1)):.3f} | "
            f"num zeros: {draw.randrange(10**6)} | params norm: {draw.gauss(812, 3):.3f} | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )

    def _between(self) -> Iterator[str]:
        dice = self._random.random()
        if dice < 0.25:
            yield (
                f"{self._clock()} INFO loader.py:88 rank={self._rank} shard={self._hex(12)}.tar "
                f"samples={self._random.randrange(20_000)} wait_ms={self._random.expovariate(1 / 40):.2f}\n"
            )
        elif dice < 0.29:
            yield self._filled(self._random.choice(_WARNINGS)) + "\n"
        elif dice < 0.295:
            yield from self._evaluation()
        elif dice < 0.305:
            path = f"/mnt/data/ckpt/iter_{self._step:07d}/mp_rank_{self._rank:02d}_{self._hex(8)}.pt"
            yield f"{self._clock()} INFO checkpoint.py:402 saved {path} in {self._random.gauss(31, 4):.3f} s\n"
        elif dice < 0.307:
            yield self._filled(_TRACE)

    def _evaluation(self) -> Iterator[str]:
        for done in range(0, 101, 4):
            rate, bar = self._random.gauss(7.5, 0.4), ("█" * (done // 10)).ljust(10)
            took = f"00:{done // 7:02d}<00:{(100 - done) // 7:02d}"
            yield f"\rEvaluating: {done:3d}%|{bar}| {done}/100 [{took}, {rate:.2f}it/s]"
        loss = f"lm loss value: {self._loss:.6E} | lm loss PPL: {math.exp(self._loss):.6E}"
        yield f"\nvalidation loss at iteration {self._step} | {loss} |\n"

    def _filled(self, template: str) -> str:
        draw = self._random
        peer = draw.randrange(1024)
        return template.format(
            host=f"node-{self._rank // 8:04d}",
            pid=draw.randrange(10**5),
            tid=draw.randrange(10**6),
            gpu=self._rank % 8,
            channel=draw.randrange(16),
            rank=self._rank,
            peer=peer,
            a=draw.randrange(1024),
            b=draw.randrange(1024),
            hex=self._hex(12),
            hex2=self._hex(5),
            clock=self._clock(),
            line=draw.randrange(900),
            line2=draw.randrange(900),
            offset=draw.randrange(10**9),
        )

    def _clock(self) -> str:
        self._now += timedelta(milliseconds=self._random.expovariate(1 / 120))
        return f"{self._now:%Y-%m-%d %H:%M:%S},{self._now.microsecond // 1000:03d}"

    def _hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"


def training_text(seed: int, rank: int, size: int) -> bytes:
    """So many bytes of one replica's log."""
    parts, length = [], 0
    for line in TrainingLog(seed, rank).lines():
        parts.append(line.encode())
        length += len(parts[-1])
        if length >= size:
            return b"".join(parts)[:size]
    raise AssertionError("the log is endless")
