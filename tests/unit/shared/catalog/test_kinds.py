"""Catalog documents: what users may write, and that what is read can be applied again."""

from __future__ import annotations

from typing import Any

import pytest

from shared.catalog import CodeSet, Dataset, InstanceType, Pool, User
from shared.catalog.base import CatalogDocument
from shared.catalog.kinds import KINDS
from shared.catalog.view import Entry
from shared.documents import must_parse, parse
from shared.units import GIB


def document(kind: str, spec: dict[str, Any] | None = None, name: str = "x") -> dict[str, Any]:
    return {"apiVersion": "trainmaster/v1", "kind": kind, "metadata": {"name": name}, "spec": spec or {}}


DIAGNOSIS = {"stages": {"pairs": False}, "floors": {"bf16Tflops": 600, "pairGbS": 12.5}, "messages": ["64Mi"]}
RIGHT: dict[str, dict[str, Any]] = {
    "Cluster": {"mounts": False, "mountsHint": "apt-get install bubblewrap"},
    "Pool": {"type": "dedicated", "members": {"groups": ["team"]}, "nodes": {"names": ["n1"]}, "queuePolicy": "fifo"},
    "InstanceType": {
        "cpu": "500m",
        "memory": "4Gi",
        "gpu": {"count": 2},
        "pools": ["public"],
        "pricePerHour": "1.25",
        "diagnosis": DIAGNOSIS,
    },
    "Storage": {"uri": "file:///data/team", "access": {"public": True}},
    "Dataset": {"uri": "file:///data/set", "access": {"users": ["bob"]}},
    "Model": {"uri": "file:///data/model"},
    "Image": {"type": "platform", "address": "registry.example/pytorch:2.3"},
    "CodeSet": {"inline": {"train.py": "print()"}},
    "Secret": {"value": "hunter2", "access": {"users": ["bob"]}},
    "Project": {"members": {"users": ["bob"]}},
    "User": {"admin": True, "password": "correct horse"},
    "Group": {"members": ["bob"]},
}


def diagnosed(diagnosis: dict[str, Any]) -> dict[str, Any]:
    return {"cpu": "2", "memory": "4Gi", "diagnosis": diagnosis}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_can_be_applied_again(kind: type[CatalogDocument]) -> None:
    written = must_parse(kind, document(kind.__name__, RIGHT[kind.__name__]))
    shown = Entry(written, 7).shown() | {"status": {"anything": 1}}
    again = must_parse(kind, shown)
    assert again.spec == written.spec  # type: ignore[attr-defined]
    assert shown["metadata"]["sequence"] == 7
    assert shown["metadata"]["id"].startswith(kind.PREFIX + "-")


@pytest.mark.parametrize(
    ("kind", "spec", "pointer", "code"),
    [
        (InstanceType, {"cpu": 0, "memory": "4Gi"}, "/spec/cpu", "cpu-invalid"),
        (InstanceType, {"cpu": True, "memory": "4Gi"}, "/spec/cpu", "wrong-type"),
        (InstanceType, {"cpu": "NaN", "memory": "4Gi"}, "/spec/cpu", "cpu-invalid"),
        (InstanceType, {"cpu": "2", "memory": "4GB"}, "/spec/memory", "memory-invalid"),
        (InstanceType, {"cpu": "2", "memory": 4}, "/spec/memory", "wrong-type"),
        (InstanceType, {"cpu": "2", "memory": "0Mi"}, "/spec/memory", "out-of-range"),
        (InstanceType, {"cpu": "2", "memory": "1Gi", "pricePerHour": -1}, "/spec/pricePerHour", "price-invalid"),
        (InstanceType, {"cpu": "2", "memory": "1Gi", "pricePerHour": "inf"}, "/spec/pricePerHour", "price-invalid"),
        (InstanceType, {"cpu": "2", "memory": "1Gi", "pricePerHour": 1e-7}, "/spec/pricePerHour", "price-invalid"),
        (InstanceType, {"cpu": "2", "memory": "1Gi", "gpu": {"count": 0}}, "/spec/gpu/count", "out-of-range"),
        (InstanceType, diagnosed({"stages": {"dance": True}}), "/spec/diagnosis/stages/dance", "unknown-key"),
        (InstanceType, diagnosed({"stages": {"pairs": "off"}}), "/spec/diagnosis/stages/pairs", "wrong-type"),
        (InstanceType, diagnosed({"floors": {"pairGbS": 0}}), "/spec/diagnosis/floors/pairGbS", "out-of-range"),
        (InstanceType, diagnosed({"floors": {"cpuMs": "9"}}), "/spec/diagnosis/floors/cpuMs", "wrong-type"),
        (InstanceType, diagnosed({"messages": ["8Gi"]}), "/spec/diagnosis/messages/0", "out-of-range"),
        (Pool, {"type": "shared"}, "/spec/type", "not-a-choice"),
        (Pool, {"runAsUser": 0}, "/spec/runAsUser", "out-of-range"),
        (Pool, {"member": {}}, "/spec/member", "unknown-key"),
        (Dataset, {"uri": "s3://"}, "/spec/uri", "uri-invalid"),
        (Dataset, {"uri": "s3://Bucket/x"}, "/spec/uri", "uri-invalid"),
        (Dataset, {"uri": "s3://bucket/x/../y"}, "/spec/uri", "path-not-normal"),
        (Dataset, {"uri": "s3://bucket/x//"}, "/spec/uri", "path-not-normal"),
        (CodeSet, {"directory": "s3://bucket/x"}, "/spec/directory", "uri-invalid"),
        (CodeSet, {"directory": "pvc://claim/x"}, "/spec/directory", "uri-invalid"),
        (Dataset, {"uri": "pvc://"}, "/spec/uri", "uri-invalid"),
        (Dataset, {"uri": "pvc://Claim"}, "/spec/uri", "uri-invalid"),
        (Dataset, {"uri": "pvc://claim/../x"}, "/spec/uri", "path-not-normal"),
        (Dataset, {"uri": "pvc://claim/x//"}, "/spec/uri", "path-not-normal"),
        (Dataset, {"uri": "nfs://host"}, "/spec/uri", "uri-invalid"),
        (Dataset, {"uri": "nfs:///x"}, "/spec/uri", "uri-invalid"),
        (Dataset, {"uri": "nfs://host/a//b"}, "/spec/uri", "path-not-normal"),
        (Dataset, {"uri": "/data"}, "/spec/uri", "uri-invalid"),
        (Dataset, {"uri": "file://host/data"}, "/spec/uri", "path-not-absolute"),
        (Dataset, {"uri": "file:///data/../etc"}, "/spec/uri", "path-not-normal"),
        (Dataset, {}, "/spec/uri", "required"),
        (CodeSet, {"upload": "./src"}, "/spec/upload", "digest-invalid"),
        (User, {"password": "short"}, "/spec/password", "password-length"),
        (User, {"password": "a" * 20}, "/spec/password", "password-simple"),
    ],
)  # fmt: skip
def test_wrong_documents_are_refused_at_the_place(
    kind: type[CatalogDocument], spec: dict[str, Any], pointer: str, code: str
) -> None:
    _, violations = parse(kind, document(kind.__name__, spec))
    assert [(violation.pointer, violation.code) for violation in violations] == [(pointer, code)]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("file:///srv/data/", "file:///srv/data"),
        ("file:///", "file:///"),
        ("s3://bucket/dlc_mnist/", "s3://bucket/dlc_mnist"),
        ("s3://bucket/", "s3://bucket"),
        ("pvc://claim/x/", "pvc://claim/x"),
        ("nfs://host/", "nfs://host/"),
        ("nfs://host/a/", "nfs://host/a"),
    ],
)
def test_a_directory_may_be_written_with_a_slash_at_its_end(written: str, kept: str) -> None:
    assert must_parse(Dataset, document("Dataset", {"uri": written})).spec.uri == kept


def test_amounts_are_integers_inside_and_text_outside() -> None:
    kind = must_parse(InstanceType, document("InstanceType", {"cpu": 0.5, "memory": "1024Mi", "pricePerHour": 1.1}))
    assert (kind.spec.cpu, kind.spec.memory, kind.spec.price_per_hour) == (500, GIB, 1_100_000)
    assert kind.document()["spec"] == {"cpu": "500m", "memory": "1Gi", "pools": [], "pricePerHour": "1.1"}


def test_the_same_name_is_always_the_same_key_and_kinds_do_not_meet() -> None:
    assert Dataset.key_of("训练集") == Dataset.key_of("训练集")
    assert Dataset.key_of("a") != CodeSet.key_of("a")
    assert all(char.isascii() for char in Dataset.key_of("训练集 @#+"))
