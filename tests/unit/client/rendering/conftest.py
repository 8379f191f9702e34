"""Renders things as a pipe would get them."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import RenderableType

from trainmaster.rendering.style import console


@pytest.fixture
def shown() -> Callable[[RenderableType], list[str]]:
    def render(thing: RenderableType) -> list[str]:
        stream = io.StringIO()
        console(stream, {}).print(thing, soft_wrap=True)
        return [line.rstrip() for line in stream.getvalue().splitlines()]

    return render
