"""What answers of an API server mean for a gang that is to be started."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.errors import is_busy, is_denied, is_final
from shared.kubernetes.access import ApiError

NO_RIGHT = 'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods" in API group "" in the n…'
QUOTA = 'pods "a" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
SECURITY = 'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged (container "replica" must not …'
EARLY = 'pods "a" is forbidden: error looking up service account a/default: serviceaccount "default" not found'


@pytest.mark.parametrize(
    ("status", "said", "final"),
    [
        (403, QUOTA, True),
        (403, SECURITY, True),
        (403, NO_RIGHT, False),
        (403, EARLY, False),
        (413, "too large", True),
        (422, "invalid", True),
        (401, "Unauthorized", False),
        (404, "not found", False),
        (409, "conflict", False),
        (500, "internal", False),
        (500, "etcdserver: request is too large", True),
        (
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2502146 vs. 20…",
            True,
        ),
    ],
)
def test_a_gang_is_refused_for_what_it_is_and_not_for_what_an_admin_has_to_mend(status: int, said: str, *, final: bool):
    error = ApiError(status, "", said)
    assert is_final(error) is final
    assert not (is_final(error) and is_busy(error))


def test_a_lack_of_rights_is_told_from_what_admission_refuses():
    assert [is_denied(ApiError(403, "Forbidden", said)) for said in (NO_RIGHT, QUOTA, SECURITY, EARLY)] == [True] + [
        False
    ] * 3
