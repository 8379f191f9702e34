"""Who may talk to whom."""

from __future__ import annotations

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.settings import Egress
from services.scheduler.ports.gangs import CodeUpload
from tests.support.gangs import JOB, a_gang, of_kind

ITSELF = {"podSelector": {"matchLabels": {"trainmaster.dev/gang": f"{JOB}-1"}}}


def policy(set_up: ObjectSettings | None = None, **parts):
    (found,) = of_kind(a_gang(**parts), "NetworkPolicy", set_up or ObjectSettings())
    return found["spec"]


def test_only_the_gang_itself_reaches_the_gang():
    assert policy()["podSelector"] == ITSELF["podSelector"]
    assert policy()["ingress"] == [{"from": [ITSELF]}]
    assert policy()["policyTypes"] == ["Ingress", "Egress"]


def test_a_gang_reaches_itself_names_and_the_world_but_not_the_clouds_metadata():
    itself, dns, world = policy()["egress"]
    assert itself == {"to": [ITSELF]}
    assert {port["port"] for port in dns["ports"]} == {53}
    assert world["to"][0]["ipBlock"] == {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}
    assert world["to"][1]["ipBlock"] == {"cidr": "::/0", "except": ["fe80::/10"]}


def test_an_admin_may_shut_gangs_in():
    assert len(policy(ObjectSettings(egress=Egress(())))["egress"]) == 2


def test_exceptions_are_told_of_the_networks_in_which_they_lie():
    egress = Egress(("10.0.0.0/8", "192.168.0.0/16"), ("10.96.0.0/12",))
    blocks = [each["ipBlock"] for each in policy(ObjectSettings(egress=egress))["egress"][-1]["to"]]
    assert blocks == [{"cidr": "10.0.0.0/8", "except": ["10.96.0.0/12"]}, {"cidr": "192.168.0.0/16"}]


def test_a_gang_that_fetches_its_code_reaches_the_scheduler():
    set_up = ObjectSettings(platform_image="p", code_url="http://scheduler:8080", egress=Egress(()))
    *_, last = policy(set_up, code=CodeUpload("sha256:0", "t"))["egress"]
    assert last["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "scheduler"
