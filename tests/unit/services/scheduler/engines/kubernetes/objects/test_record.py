"""The record of a gang: read again as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.engines.kubernetes.objects import GangRecord
from services.scheduler.engines.kubernetes.objects.record import RECORD_KEY, record_config_map
from tests.support.gangs import a_gang


@given(roles=st.dictionaries(st.sampled_from(["master", "ps", "worker"]), st.integers(1, 40), min_size=1))
def test_a_record_is_read_as_it_was_written(roles):
    gang = a_gang(roles, termination_grace_s=1.5)
    record = GangRecord.read(record_config_map(gang, "ns", "main"))
    told = [(each.role, each.index, each.node) for each in record.replicas]
    assert told == [(each.role, each.index, each.node) for each in gang.replicas]
    assert (record.job, record.attempt, record.grace_s) == (gang.job, gang.attempt, 1.5)


def test_a_gang_begins_as_one_that_is_being_made():
    record = record_config_map(a_gang(), "ns", "main")
    assert record["metadata"]["annotations"]["trainmaster.dev/phase"] == "creating"


@pytest.mark.parametrize("body", [{}, {"binaryData": {RECORD_KEY: "AAAA"}}, {"binaryData": {}}])
def test_what_is_no_record_is_told_so(body):
    with pytest.raises(ValueError, match="no record"):
        GangRecord.read(body)
