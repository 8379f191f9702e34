"""The few HTTP calls that `up` and `down` make of a platform on this machine, with the standard library alone."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Final

from deploy.local.home import HomeError

ADMIN: Final = "admin"
_TIMEOUT_S: Final = 10.0
_LIVE: Final = ("Queued", "Diagnosing", "Starting", "Running", "Stopping", "Deciding", "Retrying")


class PlatformCalls:
    """Calls as the admin of one platform; raises HomeError where it refuses or does not answer."""

    def __init__(self, url: str, password: str) -> None:
        self._url = url
        self.token = ""
        self.token = str(self._call("POST", "/v1/auth/login", {"username": ADMIN, "password": password})["token"])

    def live_jobs(self) -> list[dict[str, str]]:
        """Metadata (id, name) of up to 100 jobs that have not ended."""
        states = "&".join(f"state={state}" for state in _LIVE)
        return [job["metadata"] for job in self._call("GET", f"/v1/jobs?limit=100&{states}")["items"]]

    def stop_job(self, job_id: str) -> None:
        """Ask a job to stop."""
        self._call("POST", f"/v1/jobs/{job_id}/stop", {})

    def _call(self, method: str, path: str, body: object = None) -> Any:
        headers = {
            "content-type": "application/json",
            **({"authorization": f"Bearer {self.token}"} if self.token else {}),
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data=data, headers=headers, method=method)  # noqa: S310  # ours
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310  # as above
                return json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise HomeError(f"the platform refused {method} {path}: {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise HomeError(f"the platform at {self._url} does not answer: {error}") from error
