"""Which files hold a text that should be in none."""

from __future__ import annotations

from pathlib import Path


def holders(directory: Path, text: str) -> list[Path]:
    """Files below the directory that hold the text; those that go meanwhile, as the platform works there, hold none."""
    return [path for path in directory.rglob("*") if path.is_file() and text.encode() in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
