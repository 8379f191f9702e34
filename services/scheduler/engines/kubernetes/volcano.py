"""Whether gangs can be left to Volcano: whether the API server knows its kinds, and whether we may make PodGroups.

Both may change while the scheduler runs, as an admin installs Volcano or gives the right, so it is asked again every
minute. An answer that cannot be had changes nothing, and before the first one nothing stands in the way.
"""

from __future__ import annotations

import asyncio
from typing import Final

from services.scheduler.engines.kubernetes.errors import is_missing
from services.scheduler.engines.kubernetes.objects.pod_group import API
from services.scheduler.engines.kubernetes.paths import ACCESS_REVIEWS
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError, KubernetesApi

_GROUP: Final = API.partition("/")[0]


class Volcano:
    """What one API server says of it; `namespace` is that of gangs, empty where these are in several."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self.asked = asyncio.Event()
        self.obstacle = ""
        """What stands in the way, and what to do about it; empty where nothing does."""

    async def ask(self) -> None:
        """Look again."""
        try:
            self.obstacle = await self._look()
        except (UnavailableError, ApiError):
            return
        finally:
            self.asked.set()

    async def _look(self) -> str:
        try:
            await self._api.request("GET", f"/apis/{API}")
        except ApiError as error:
            if is_missing(error):
                return f"its API server does not know {API}; have Volcano installed there"
            raise
        where = f"namespace {self._namespace}" if self._namespace else "all namespaces"
        if not await self._may_make_pod_groups():
            return f"the scheduler may create no podgroups in {where}; have the chart installed with jobs.volcano: true"
        return ""

    async def _may_make_pod_groups(self) -> bool:
        asked = {"verb": "create", "group": _GROUP, "resource": "podgroups", "namespace": self._namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        answer = await self._api.request("POST", ACCESS_REVIEWS, body=review)
        return bool((answer.get("status") or {}).get("allowed"))
