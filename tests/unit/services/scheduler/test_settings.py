"""The scheduler's settings and what follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.scheduler.domain.split import Split
from services.scheduler.settings import SchedulerSettings
from shared.settings import read_settings
from shared.variables import SettingsError


def test_two_platforms_on_one_machine_are_two_schedulers():
    homes = (SchedulerSettings(home=Path(home), machine="m") for home in ("/a", "/b"))
    assert len({settings.identity for settings in homes}) == 2


def test_settings_come_from_the_environment():
    settings = read_settings(SchedulerSettings, {"TRAINMASTER_HOME": "/srv/tm", "TRAINMASTER_NODES": "4"})
    assert (settings.nodes, settings.nats_user) == (4, "scheduler")
    assert settings.readmodel_file == Path("/srv/tm/readmodels/scheduler.sqlite")


def test_switches_that_nothing_stands_under_are_refused():
    given = {"TRAINMASTER_NODES": "4", "TRAINMASTER_LEAVES": "2"}
    assert read_settings(SchedulerSettings, given).split == Split(4, 2, 0)
    with pytest.raises(SettingsError, match="5 leaves are more than the 4 nodes"):
        read_settings(SchedulerSettings, given | {"TRAINMASTER_LEAVES": "5"})
    with pytest.raises(SettingsError, match="3 spines are more than the 2 leaves"):
        read_settings(SchedulerSettings, given | {"TRAINMASTER_SPINES": "3"})


def test_clusters_are_listed_with_their_contexts_the_first_one_first():
    given = {"TRAINMASTER_ENGINE": "kubernetes", "TRAINMASTER_CLUSTER": "prod"}
    assert read_settings(SchedulerSettings, given).contexts("prod") == {"prod": ""}
    one = read_settings(SchedulerSettings, given | {"TRAINMASTER_KUBE_CONTEXT": "here"})
    assert one.contexts("prod") == {"prod": "here"}
    several = read_settings(SchedulerSettings, given | {"TRAINMASTER_KUBE_CONTEXTS": "west=w@x=1, east=e"})
    assert list(several.contexts("prod").items()) == [("west", "w@x=1"), ("east", "e")]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"TRAINMASTER_KUBE_CONTEXTS": "a=x"}, "TRAINMASTER_ENGINE.*give kubernetes"),
        (
            {"TRAINMASTER_ENGINE": "kubernetes", "TRAINMASTER_KUBE_CONTEXTS": "a=x", "TRAINMASTER_KUBE_CONTEXT": "y"},
            "leave kube_context out",
        ),
        ({"TRAINMASTER_ENGINE": "kubernetes", "TRAINMASTER_KUBE_CONTEXTS": "a=x,a=y"}, "each cluster once"),
        ({"TRAINMASTER_ENGINE": "kubernetes", "TRAINMASTER_KUBE_CONTEXTS": "=x"}, "each cluster once"),
    ],
)
def test_clusters_that_cannot_be_meant_are_refused(given: dict[str, str], wrong: str):
    with pytest.raises(SettingsError, match=wrong):
        read_settings(SchedulerSettings, given)
