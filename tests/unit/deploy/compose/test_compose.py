"""The files for one machine with Docker: what Compose takes, and what the image's steps need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

DEPLOY = Path(__file__).parents[4] / "deploy"
FILES = ("compose.yaml", "gpu.yaml")


def interpolated(file: str) -> str:
    """The file with the default in place of each variable."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (DEPLOY / "compose" / file).read_text())


def platform(file: str) -> Any:
    return yaml.safe_load(interpolated(file))["services"]["platform"]


@pytest.mark.parametrize("file", FILES)
def test_compose_takes_the_file(file: str) -> None:
    spec = compose_spec.PyCompose.from_yaml(interpolated(file)).to_spec()
    assert list(spec.services or {}) == ["platform"]


def test_a_word_that_compose_does_not_know_is_noticed() -> None:
    with pytest.raises(ValueError, match="restarts"):
        compose_spec.PyCompose.from_yaml(interpolated("compose.yaml").replace("restart:", "restarts:")).to_spec()


def test_the_platform_is_reached_from_its_machine_alone_unless_told_otherwise() -> None:
    assert platform("compose.yaml")["ports"] == ["127.0.0.1:8080:8080"]


def test_the_container_has_no_privileges_and_a_root_that_is_read_only() -> None:
    service = platform("compose.yaml")
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert "privileged" not in service


def steps() -> list[str]:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_is_built_of_files_that_the_context_has() -> None:
    root = DEPLOY.parent
    allowed = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word for step in steps() if step.startswith("COPY ") and "--from" not in step for word in step.split()[1:-1]
    }
    assert {name.partition("/")[0] for name in copied} == allowed
    assert allowed <= copied
    assert all((root / name).exists() for name in copied)


def copied_in_stages() -> list[list[str]]:
    """What each stage of the Containerfile copies, and where from."""
    stages: list[list[str]] = []
    for step in steps():
        if step.startswith("FROM "):
            stages.append([])
        elif step.startswith("COPY "):
            stages[-1].append(" ".join(step.split()[1:-1]))
    return stages


def test_what_is_from_others_is_a_layer_that_changes_with_lists_and_pins_alone() -> None:
    lists, dependencies, _platform, image = copied_in_stages()
    assert lists == ["pyproject.toml", "client/pyproject.toml"]
    assert dependencies == ["constraints.txt", "--from=lists requirements.txt"]
    assert image == ["--from=dependencies /opt/trainmaster", "--from=platform /platform"]


def test_the_image_has_the_pinned_versions_and_a_user_without_rights() -> None:
    installed = [step for step in steps() if "pip install" in step and "--no-deps" not in step]
    assert all("--constraint constraints.txt" in step for step in installed)
    assert "USER 10001" in steps()


def test_the_base_image_is_named_with_its_registry_as_some_engines_search_none() -> None:
    assert any(step.startswith("ARG PYTHON_IMAGE=docker.io/library/python:3.11-") for step in steps())


def test_chart_and_image_agree_on_user_and_version() -> None:
    values = yaml.safe_load((DEPLOY / "helm/trainmaster/values.yaml").read_text())
    chart = yaml.safe_load((DEPLOY / "helm/trainmaster/Chart.yaml").read_text())
    assert values["podSecurity"]["user"] == 10001
    assert platform("compose.yaml")["image"] == f"{values['image']['repository']}:{chart['appVersion']}"
