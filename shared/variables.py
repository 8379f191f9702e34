"""Environment variables by name: which prefix they have, and that misspelt ones are refused.

The module imports little, because the agent, which is meant to be small, needs it as services do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from shared.errors import TrainmasterError
from shared.misspellings import meant

PREFIX: Final = "TRAINMASTER_"


class SettingsError(TrainmasterError):
    """One or more environment variables are missing or wrong."""

    code = "invalid-settings"


def refuse_misspelt(known: Collection[str], environ: Mapping[str, str]) -> None:
    """Raise SettingsError where a variable is all but one of these.

    Anything else that is unknown here is left alone, since services may share one environment.
    """
    given = [name.removeprefix(PREFIX) for name in environ if name.startswith(PREFIX) and name not in known]
    names = [name.removeprefix(PREFIX) for name in known]
    slips = {name: found for name in given if (found := meant(name, names)) is not None}
    if slips:
        told = (f"{PREFIX}{name}: there is no such variable; give {PREFIX}{found}" for name, found in slips.items())
        raise SettingsError("wrong settings: " + "; ".join(sorted(told)))
