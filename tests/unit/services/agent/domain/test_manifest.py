"""Reading `ship.json`."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from services.agent.domain.manifest import ManifestError, WrittenDirectory, parse_manifest
from shared.logs_wire import ReplicaRef

GIVEN = {
    "job": "tj-a",
    "attempt": 2,
    "role": "worker",
    "index": 3,
    "node": "n-1",
    "owner": "u-ada",
    "project": "default",
    "started_at": "1970-01-01T00:01:00.500Z",
    "log": "log",
    "tensorboard": None,
}


def test_a_manifest_is_read_and_what_is_unknown_ignored():
    manifest = parse_manifest(json.dumps(GIVEN | {"tensorboard": "/data/runs", "new": 1}))
    assert manifest.replica == ReplicaRef("tj-a", 2, "worker", 3)
    assert (manifest.node, manifest.started_at_s, manifest.log) == ("n-1", 60.5, "log")
    assert manifest.tensorboard == WrittenDirectory(PurePosixPath("/data/runs"), PurePosixPath())


def test_the_trusted_part_of_the_tensorboard_directory_may_be_named():
    given = GIVEN | {"tensorboard": "/data/team/out/runs", "tensorboard_root": "/data/team"}
    expected = WrittenDirectory(PurePosixPath("/data/team"), PurePosixPath("out/runs"))
    assert parse_manifest(json.dumps(given)).tensorboard == expected


WRONG = ({"attempt": "x"}, {"started_at": "yesterday"}, {"tensorboard": "/a", "tensorboard_root": "/b"})


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", *(json.dumps(GIVEN | wrong) for wrong in WRONG)])
def test_what_is_no_manifest_is_refused(text: str):
    with pytest.raises(ManifestError, match=r"ship\.json cannot be read"):
        parse_manifest(text)
