"""Values of a job's secrets, looked up when its gang is started and kept nowhere.

Whether the job's owner may use a secret was asked when the job was submitted and is asked again now, by the catalog of
this moment: a secret that is not shared any more, or another of the same name, reaches nobody.
"""

from __future__ import annotations

from services.scheduler.ports.engine import StartRefusedError
from shared.catalog import CatalogWatch, Secret, may_use_secret
from shared.catalog.access import asker_named
from shared.documents.fields import shown
from shared.jobs import Job
from shared.jobspec.models import TrainingSpec
from shared.vault import SealError, Vault


class JobSecrets:
    """Opens secrets on behalf of users."""

    def __init__(self, catalog: CatalogWatch, vault: Vault) -> None:
        self._catalog = catalog
        self._vault = vault

    async def of(self, job: Job) -> dict[str, str]:
        """The job's secret variables; raises StartRefusedError where one may not be used or has no value."""
        names = TrainingSpec.model_validate(job.submitted.spec).secrets
        return {variable: await self.value(name, job.submitted.owner_name) for variable, name in names.items()}

    async def of_image(self, job: Job) -> str | None:
        """What opens the registry of the job's image, if that needs anything; raises StartRefusedError."""
        image = job.submitted.resolved.image
        if image is None or image.pull_secret is None:
            return None
        return await self.value(image.pull_secret, image.owner or "")

    async def value(self, name: str, user: str) -> str:
        """The value of a secret that the user may use; raises StartRefusedError."""
        catalog = await self._catalog.refresh()
        secret = catalog.get(Secret, name)
        if secret is None or not may_use_secret(secret, asker_named(user, catalog)):
            raise StartRefusedError(f"there is no secret {shown(name)} any more that {user} may use")
        try:
            value = await self._vault.reveal(secret.id)
        except SealError as error:
            raise StartRefusedError(f"the secret {shown(name)} cannot be opened: {error.message}") from error
        if value is None:
            raise StartRefusedError(f"the secret {shown(name)} has no value; apply it again")
        return value
