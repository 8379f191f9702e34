"""What events of kubelets (1.36, as they were seen) say of a pod, in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from services.scheduler.engines.kubernetes.complaints import complaint

SINCE = datetime(2026, 12, 1, 2, 42, 10, tzinfo=UTC)
NFS = (
    'MountVolume.SetUp failed for volume "mount-0" : mount failed: exit status 32\nMounting command: mount\nMounting '
    "arguments: -t nfs 10.0.0.9:/x /var/lib/kubelet/pods/7fc0/volumes/kubernetes.io~nfs/mount-0\nOutput: mount.nfs: "
    "access denied by server\n"
)
CLAIM = (
    "Unable to attach or mount volumes: unmounted volumes=[mount-0], unattached volumes=[], failed to process "
    "volumes=[mount-0]: error processing PVC jobs/team-data: "
)
MISSING = CLAIM + 'failed to fetch PVC from API server: persistentvolumeclaims "team-data" not found'
UNBOUND = (
    "the claim team-data in namespace jobs is bound to no volume; one whose storage class waits for its first consumer "
    "has to be bound beforehand, or used in a pool with binding: kubernetes"
)


def event(reason: str, message: str = "", at: str = "2026-12-01T02:42:29Z", **more) -> dict:
    return {"reason": reason, "message": message, "lastTimestamp": at, **more}


def told(*events: dict) -> str:
    return complaint(events, "n1", SINCE)


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (event("FailedMount", MISSING), "the claim team-data does not exist in namespace jobs"),
        (event("FailedMount", f"{CLAIM}PVC is not bound"), UNBOUND),
        (event("FailedMount", CLAIM + "timeout"), "the claim team-data in namespace jobs cannot be used (timeout)"),
        (
            event("FailedMount", "MountVolume.SetUp failed: hostPath type check failed: /a b is not a directory"),
            "its node n1 has no directory /a b",
        ),
        (event("FailedMount", NFS), "its node n1 cannot mount a volume (mount.nfs: access denied by server)"),
        (
            event("FailedMount", 'MountVolume.SetUp failed for volume "files" : configmap "tj-a-1-files-0" not found'),
            "its node n1 has not found the ConfigMap tj-a-1-files-0 yet; it looks again within two minutes",
        ),
        (event("FailedAttachVolume", "in\n  use"), "a volume cannot be attached to its node n1 (in use)"),
        (
            event("FailedCreatePodSandBox", "plugin type cni failed"),
            "its node n1 cannot set up the pod's sandbox or network (plugin type cni failed)",
        ),
        (event("Pulling", 'Pulling image "x"'), "its node n1 pulls the image"),
    ],
)
def test_what_keeps_a_pod_is_told_in_words(happened, words):
    assert told(happened) == words


def test_the_last_of_several_events_counts_however_it_tells_its_time():
    first, second = event("FailedMount", "first"), event("FailedMount", "second", "2026-12-01T02:42:30Z")
    assert "second" in told(first, second)
    assert "second" in told(second, first)
    again = {"series": {"lastObservedTime": "2026-12-01T02:42:31.000000Z"}}
    assert "again" in told(second, event("FailedMount", "again", "", **again))


def test_events_from_before_the_release_and_of_other_kinds_say_nothing():
    assert told(event("FailedMount", NFS, "2026-12-01T02:42:09Z"), event("Scheduled"), event("BackOff"), {}) == ""


def test_a_long_message_is_cut():
    assert len(told(event("FailedMount", "x" * 5000))) < 400
