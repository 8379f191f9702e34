"""The agent is small: it does without the libraries that services are made of."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"pydantic", "fastapi", "faststream", "starlette", "uvicorn", "structlog", "opentelemetry", "prometheus_client"}


def test_the_agent_imports_none_of_the_heavy_libraries():
    code = "import services.agent.bootstrap, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not HEAVY & set(imported)
