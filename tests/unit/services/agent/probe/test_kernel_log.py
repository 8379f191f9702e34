"""Complaints of drivers, from records as the kernel writes them."""

from __future__ import annotations

import pytest

from services.agent.probe.kernel_log import complaints, read, record_of_line
from shared.agent_facts import Complaint, complaint_of

XID = "4,1093,3600000000,-;NVRM: Xid (PCI:0000:cb:00): 79, pid=1797, name=pt_main_thread, GPU has fallen off the bus."
SXID = "3,2001,7100000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 44 egress PRIV error"


def found(*records: str, up_s: float = 7200.0) -> list[Complaint]:
    return [complaint_of(each) for each in complaints(records, up_s)]


def test_an_xid_names_device_number_and_age() -> None:
    assert found(XID) == [
        Complaint("xid", "0000:cb:00", 79, 3600.0, "pid=1797, name=pt_main_thread, GPU has fallen off the bus.")
    ]


def test_an_sxid_is_of_a_switch_and_keeps_whether_it_is_fatal() -> None:
    (complaint,) = found(SXID)
    assert (complaint.source, complaint.bus, complaint.number, complaint.age_s) == ("sxid", "0000:c1:00.0", 12028, 100)
    assert complaint.text.startswith("Fatal")


@pytest.mark.parametrize("record", ["6,1,0,-;Linux version 6.1", "6,2,5,-;NVRM: loading NVIDIA UNIX Kernel Module", ""])
def test_other_records_are_no_complaints(record: str) -> None:
    assert found(record) == []


def test_the_latest_are_kept_where_there_are_very_many() -> None:
    many = found(*(f"4,{n},{n}000000,-;NVRM: Xid (PCI:0000:cb:00): {n}, x" for n in range(1, 501)), up_s=1000.0)
    assert [many[0].number, many[-1].number, len(many)] == [301, 500, 200]


def test_lines_of_the_journal_are_read_as_well() -> None:
    line = "[ 3600.000000] gpu-7 kernel: NVRM: Xid (PCI:0000:cb:00): 48, pid=7, DBE at partition 2"
    (complaint,) = found(record_of_line(line))
    assert (complaint.number, complaint.age_s, complaint.text) == (48, 3600.0, "pid=7, DBE at partition 2")


def test_the_log_of_this_machine_can_be_read_or_is_empty() -> None:
    assert all(complaint_of(each).age_s >= 0 for each in read())
