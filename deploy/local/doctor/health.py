"""How the platform of this home is doing, where one runs."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from deploy.local.doctor.finding import Finding, fail, ok, warn
from deploy.local.home import Home
from deploy.local.readiness import ready_status


def platform(place: Home) -> Finding:
    """Whether a platform runs here, and every check of its services passes."""
    running = place.running()
    if running is None:
        if place.is_held():
            return warn("platform", f"a platform is starting or stopping in {place.root}", f"tail -f {place.log}")
        return ok("platform", f"none runs in {place.root}")
    address = urlsplit(running.url)
    status, body = asyncio.run(ready_status(address.hostname or "", address.port or 0))
    told = f"process {running.pid} at {running.url}"
    if status == 200:
        return ok("platform", f"{told} is ready")
    mend = f"tail {place.log}; trainmaster down --home {place.root} && trainmaster up --home {place.root}"
    if status == 0:
        return fail("platform", f"{told} does not answer: {body or 'nothing listens'}", mend)
    return fail("platform", f"{told} is not ready: {_failing(body)}", mend)


def _failing(body: str) -> str:
    """The checks that do not pass, as far as the answer tells."""
    try:
        checks = json.loads(body).get("checks", {})
        failing = [f"{name}: {check.get('detail', '')}" for name, check in checks.items() if not check.get("ok")]
    except (ValueError, AttributeError):
        failing = []
    return "; ".join(failing) or body[:300]
