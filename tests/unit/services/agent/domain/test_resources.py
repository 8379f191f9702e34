"""Rates from counters."""

from __future__ import annotations

from services.agent.domain.resources import Burden, Look, Meter
from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample, Sample

ONE, TWO = ReplicaRef("tj-a", 1, "worker", 0), ReplicaRef("tj-a", 1, "worker", 1)


def look(at_s: float, *burdens: tuple[ReplicaRef, list[Burden]], **more: object) -> Look:
    return Look(at_s, int(at_s * 1000), dict(burdens), **more)


def test_cpu_is_what_was_used_since_the_look_before():
    meter = Meter()
    assert meter.samples(look(10, (ONE, [Burden(100, 5)]))) == {}
    after = look(15, (ONE, [Burden(102.5, 5), Burden(5, 6)]))
    assert meter.samples(after) == {ONE: Sample(15_000, 1.5, 11, 2)}


def test_processes_that_ended_make_no_negative_rate():
    meter = Meter()
    meter.samples(look(10, (ONE, [Burden(100, 5), Burden(50, 5)])))
    assert meter.samples(look(15, (ONE, [Burden(101, 5)])))[ONE].cpu_cores == 0


def test_a_replica_without_processes_has_no_sample_and_begins_anew():
    meter = Meter()
    meter.samples(look(10, (ONE, [Burden(1, 5)]), (TWO, [])))
    assert meter.samples(look(15, (ONE, []), (TWO, [Burden(1, 1)]))) == {}
    assert set(meter.samples(look(20, (ONE, [Burden(9, 5)]), (TWO, [Burden(2, 1)])))) == {TWO}


def test_processes_that_are_counted_together_have_one_burden():
    meter = Meter()
    meter.samples(look(10, (ONE, [Burden(1, 5, processes=12)])))
    assert meter.samples(look(15, (ONE, [Burden(11, 6, processes=13)])))[ONE] == Sample(15_000, 2.0, 6, 13)


def test_a_sample_has_the_gpus_of_its_replica():
    meter, gpu = Meter(), GpuSample("GPU-1", 90, 1000)
    burdens = (ONE, [Burden(1, 5)]), (TWO, [Burden(1, 5)])
    meter.samples(look(10, *burdens))
    samples = meter.samples(look(15, *burdens, gpus={TWO: (gpu,)}))
    assert (samples[ONE].gpus, samples[TWO].gpus) == ((), (gpu,))
