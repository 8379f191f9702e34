"""The client against the platform's own contracts: what the platform says and refuses, the client understands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.catalog import Cluster
from shared.catalog.kinds import KINDS as CATALOG_KINDS
from shared.errors import InvalidInputError
from shared.events import PAYLOADS
from shared.jobspec import validate_job
from shared.jobspec.models import TrainingSpec
from tests.support.specs import job_document
from trainmaster.documents import JobEvent
from trainmaster.errors import Violation
from trainmaster.kinds import kind_of_argument
from trainmaster.manifests.reader import Manifest, read
from trainmaster.manifests.source import Source
from trainmaster.manifests.writer import yaml_text
from trainmaster.rendering.faults import place_of
from trainmaster.rendering.timeline import sentence, timeline

ROOT = Path(__file__).parents[3]
JOB_EVENTS = sorted(payload.TYPE for payload in PAYLOADS if payload.KIND in ("state", "obs"))
WITHOUT_MESSAGE = {"trainmaster.job.succeeded.v1", "trainmaster.job.stopped.v1"}


def manifest_of(text: str) -> Manifest:
    (manifest,) = read(Source("job.yaml", text), Path())
    return manifest


@pytest.mark.parametrize("event_type", JOB_EVENTS)
def test_every_event_of_a_job_is_told_in_words(event_type: str) -> None:
    document = json.loads((ROOT / "tests" / "golden" / "events" / f"{event_type}.json").read_text())
    event = JobEvent.of(document, 1)
    assert sentence(event) or event_type in WITHOUT_MESSAGE
    assert timeline([event]).row_count == 1


@pytest.mark.parametrize(
    "kind", [kind for kind in CATALOG_KINDS if kind is not Cluster], ids=lambda kind: kind.__name__
)
def test_every_kind_of_the_catalog_has_the_names_that_the_platform_gives_it(kind: Any) -> None:
    known = kind_of_argument(kind.plural())
    assert (known.name, known.singular) == (kind.__name__, kind.SINGULAR)


def test_a_job_written_as_yaml_is_accepted_by_the_platform() -> None:
    manifest = manifest_of(yaml_text(job_document()))
    assert validate_job(manifest.document).metadata.name == "mnist-ddp"


def test_every_key_of_a_job_survives_yaml() -> None:
    keys = [field.alias or name for name, field in TrainingSpec.model_fields.items()]
    text = "spec:\n" + "".join(f"  {key}: x\n" for key in keys) + "  on: x\n"
    assert set(manifest_of(text).document["spec"]) == {*keys, "on"}


WRONG = """\
apiVersion: trainmaster/v1
kind: TrainingJob
metadata:
  name: "with space"
  labels: [good, 3]
spec:
  image: {source: nowhere, ref: x}
  env:
    THREADS: 4
    RANK: "0"
  roles:
    - name: worker
      replicas: 0
      instanceType: cpu-small
      comand: echo
  retry:
    maxRetries: -1
    on: {failure: {policy: Sometimes}}
  priority: high
  startTimeout: 30
"""


def test_every_violation_of_the_platform_has_its_line_and_column() -> None:
    manifest = manifest_of(WRONG)
    with pytest.raises(InvalidInputError) as caught:
        validate_job(manifest.document)
    found = [Violation(one.pointer, one.code, one.message) for one in caught.value.violations]
    spans = {one.pointer: place_of(one, manifest) for one in found}
    assert {pointer: (span.line, span.column) for pointer, span in spans.items()} == {
        "/metadata/name": (4, 9),
        "/metadata/labels/1": (5, 18),
        "/spec/image/source": (7, 19),
        "/spec/env/THREADS": (9, 14),
        "/spec/env/RANK": (10, 5),
        "/spec/roles/0/replicas": (13, 17),
        "/spec/roles/0/comand": (15, 7),
        "/spec/roles/0/command": (12, 7),
        "/spec/retry/maxRetries": (17, 17),
        "/spec/retry/on/failure/policy": (18, 28),
        "/spec/priority": (19, 13),
        "/spec/startTimeout": (20, 17),
    }
