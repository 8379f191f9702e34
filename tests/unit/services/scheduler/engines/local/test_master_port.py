from __future__ import annotations

import socket

import pytest

from services.scheduler.engines.local import master_port
from services.scheduler.engines.local.master_port import FIRST_PORT, PORT_COUNT, is_free, pick_port
from services.scheduler.ports.engine import StartRefusedError
from tests.support.local_engine import gang_of


def test_the_same_gang_gets_the_same_port():
    gang = gang_of("true")

    assert pick_port(gang, ()) == pick_port(gang, ())
    assert FIRST_PORT <= pick_port(gang, ()) < FIRST_PORT + PORT_COUNT


def test_gangs_of_platforms_that_know_nothing_of_each_other_are_spread():
    assert len({pick_port(gang_of("true", job=f"tj-{number:012}"), ()) for number in range(50)}) > 45


def test_ports_of_other_gangs_and_of_other_programs_are_passed_over():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert not is_free(other.getsockname()[1])
    gang = gang_of("true")
    first = pick_port(gang, ())

    assert pick_port(gang, (first,)) != first


def test_with_every_port_taken_the_start_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(master_port, "PORT_COUNT", 3)

    with pytest.raises(StartRefusedError, match="no port from 20000 to 20002 is free"):
        pick_port(gang_of("true"), range(FIRST_PORT, FIRST_PORT + 3))
