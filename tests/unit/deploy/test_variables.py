"""Which of the platform's variables a component reads, and that no service takes another's for a misspelt one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.nats.__main__ import ProvisionSettings
from deploy.variables import READ_BY, all_variables
from services.agent import settings as agent
from shared.settings import variables
from shared.variables import refuse_misspelt

CLIENT = frozenset(f"TRAINMASTER_{name}" for name in ("URL", "TOKEN", "CONFIG", "DEBUG"))
COMPOSE = frozenset(f"TRAINMASTER_{name}" for name in ("BIND", "PORT", "DATA", "PACKAGES", "SHM"))
KNOWN = {**READ_BY, "provision": variables(ProvisionSettings)}


@pytest.mark.parametrize("component", KNOWN)
def test_services_may_share_one_environment(component: str) -> None:
    everything = CLIENT.union(COMPOSE, *KNOWN.values())
    refuse_misspelt(KNOWN[component], dict.fromkeys(everything, "x"))


def test_one_machine_takes_all_of_them_and_those_of_others_beside() -> None:
    refuse_misspelt(all_variables(), dict.fromkeys(CLIENT.union(COMPOSE, *KNOWN.values()), "x"))


def test_the_agent_names_all_of_its_variables() -> None:
    source = Path(agent.__file__).read_text()
    assert set(re.findall(r"TRAINMASTER_[A-Z][A-Z0-9_]*", source)) == agent.VARIABLES
