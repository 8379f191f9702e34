"""Prints an error to standard error, in the form that its kind has."""

from __future__ import annotations

from rich.text import Text

from trainmaster.cli.screen import Screen
from trainmaster.errors import ApiError, TrainmasterError
from trainmaster.manifests.reader import RefusedManifestError
from trainmaster.manifests.source import ManifestError
from trainmaster.rendering import faults


def show(error: TrainmasterError) -> None:
    """Print the error."""
    Screen.here().err.print(rendered(error), soft_wrap=True)


def rendered(error: TrainmasterError) -> Text:
    """The error as it is printed."""
    if isinstance(error, ManifestError):
        return faults.manifest_error(error)
    if isinstance(error, RefusedManifestError):
        return faults.violations(error.violations, error.manifest)
    if isinstance(error, ApiError):
        return faults.problem(error)
    return faults.plain_error(error.message)
