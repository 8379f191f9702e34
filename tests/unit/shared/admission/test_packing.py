"""Inline files as an archive."""

from __future__ import annotations

import hashlib
import io
import tarfile

from hypothesis import given
from hypothesis import strategies as st

from shared.admission.packing import compressed, pack

NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=40)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(st.dictionaries(NAMES, TEXTS, max_size=5))
def test_files_come_out_as_they_went_in_and_the_digest_is_of_the_bytes(files: dict[str, str]) -> None:
    packed = pack(files)
    with tarfile.open(fileobj=io.BytesIO(packed.content), mode="r:gz") as tar:
        found = {member.name: tar.extractfile(member).read().decode() for member in tar}
    assert found == files
    assert packed.digest == f"sha256:{hashlib.sha256(packed.content).hexdigest()}"


def test_order_and_time_do_not_matter() -> None:
    assert pack({"a": "1", "b": "2"}).digest == pack({"b": "2", "a": "1"}).digest
    assert pack({"a": "1"}).digest != pack({"a": "2"}).digest


def test_the_same_files_can_be_had_small() -> None:
    with tarfile.open(fileobj=io.BytesIO(compressed({"a": "x" * 100_000})), mode="r:gz") as tar:
        assert tar.extractfile("a").read() == b"x" * 100_000
    assert len(compressed({"a": "x" * 100_000})) < 1_000
