from __future__ import annotations

import socket

import pytest

from services.scheduler.engines.local import master_port
from services.scheduler.engines.local.master_port import FIRST_PORT, PORT_COUNT, is_free, pick_port
from services.scheduler.ports import StartRefusedError
from tests.support.local_engine import gang_of


def test_the_port_that_was_planned_is_taken_where_it_is_free():
    assert pick_port(gang_of("true", env={"MASTER_PORT": "23456"}), ()) == 23456


def test_without_a_plan_the_same_gang_gets_the_same_port():
    gang = gang_of("true")

    assert pick_port(gang, ()) == pick_port(gang, ())
    assert FIRST_PORT <= pick_port(gang, ()) < FIRST_PORT + PORT_COUNT


def test_ports_of_other_gangs_and_of_other_programs_are_passed_over():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert not is_free(other.getsockname()[1])
    last = FIRST_PORT + PORT_COUNT - 1

    assert pick_port(gang_of("true", env={"MASTER_PORT": str(last)}), (last,)) == FIRST_PORT


def test_with_every_port_taken_the_start_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(master_port, "PORT_COUNT", 3)

    with pytest.raises(StartRefusedError, match="no port from 20000 to 20002 is free"):
        pick_port(gang_of("true"), range(FIRST_PORT, FIRST_PORT + 3))
