"""Which known name a misspelt one stands for."""

from __future__ import annotations

import pytest

from shared.misspellings import meant, slips_between

KNOWN = ("KUBE_NFS", "KUBE_IMAGE", "HOST", "NATS_CA_FILE")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("KUBE_NSF", "KUBE_NFS"),
        ("KUBENFS", "KUBE_NFS"),
        ("KUBE_IMAGES", "KUBE_IMAGE"),
        ("KUBE_IMGE", "KUBE_IMAGE"),
        ("NAST_CAFILE", "NATS_CA_FILE"),
        ("HOSTS", "HOST"),
    ],
)
def test_up_to_two_slips_are_seen_through(name: str, known: str) -> None:
    assert meant(name, KNOWN) == known


@pytest.mark.parametrize("name", ["KUBE_NFS", "HOME", "GIT_CA_FILE", "SOMETHING", ""])
def test_a_known_name_and_one_that_is_like_none_are_no_misspellings(name: str) -> None:
    assert meant(name, KNOWN) is None


def test_nothing_is_known_of_no_names() -> None:
    assert meant("KUBE_NFS", ()) is None


def test_slips_are_counted() -> None:
    assert [slips_between("abcd", other) for other in ("abcd", "abdc", "acd", "", "wxyz")] == [0, 1, 1, 4, 4]
