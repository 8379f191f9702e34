"""Python files that lie in every replica for training code to import; nothing of the platform imports them."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

PYTHON_DIR: Final = "python"
"""Where they are, beside the gang's other files."""
HOOK_FILE: Final = "trainmaster_hook.py"


@cache
def python_files() -> dict[str, str]:
    """Their texts by path relative to the directory of the gang's files."""
    return {f"{PYTHON_DIR}/{HOOK_FILE}": (resources.files(__name__) / HOOK_FILE).read_text("utf-8")}
