"""Which secrets a job's start opens, and on whose behalf."""

from __future__ import annotations

import pytest

from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.sources.job_secrets import JobSecrets
from shared import events as ev
from shared.jobs import Job, fold_all
from tests.support.catalog import catalog_of, secret
from tests.support.jobs import history, role, submitted

CATALOG = catalog_of(secret("registry", owner="ann"), secret("hers", owner="ann", users=["bob"]))


class Watch:
    async def refresh(self):
        return CATALOG


class Values:
    async def reveal(self, name: str) -> str:
        return f"value of {name}"


SECRETS = JobSecrets(Watch(), Values())


def job(**image: str) -> Job:
    found = ev.ResolvedImage(source="platform", address="x:1", **image)
    return fold_all(history([(submitted(resolved=ev.Resolved(cluster="main", roles=(role(),), image=found)), 1)]))


async def test_what_opens_the_registry_is_opened_for_the_images_owner():
    assert (await SECRETS.of_image(job(pull_secret="registry", owner="ann"))).startswith("value of ")


async def test_an_image_that_needs_nothing_opens_nothing():
    assert await SECRETS.of_image(job()) is None


async def test_what_its_owner_may_not_use_any_more_opens_no_registry():
    with pytest.raises(StartRefusedError, match="no secret"):
        await SECRETS.of_image(job(pull_secret="registry", owner="bob"))
