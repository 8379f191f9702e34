"""What would become of a job that is not submitted.

It is let in, or not, by the very rules of `shared.jobspec` and `shared.admission` that the submitter uses; so what is
wrong here is what would be wrong there. Only what belongs to the moment of a submission is left to it: that the name is
free, that the project's queue has room, and that code which is to be uploaded has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from services.scheduler.domain.portability import differences
from services.scheduler.domain.terms import Terms
from services.scheduler.domain.trial_plan import TrialPlan, submitted_job, trial_plan
from services.scheduler.handlers.standings import StandingHandlers
from shared.admission import Locations, LookedUp, admit
from shared.admission import World as Admission
from shared.admission.directories import Directories
from shared.auth.principal import Principal
from shared.catalog import CatalogWatch, Cluster, asker_of
from shared.clock import Clock
from shared.events import Submitted
from shared.ids import new_job_id
from shared.jobspec import judge_job


@dataclass(frozen=True, slots=True)
class PlanHandlers:
    """The use case about plans."""

    catalog: CatalogWatch
    standings: StandingHandlers
    locations: Locations
    directories: Directories
    clock: Clock

    async def plan(self, principal: Principal, document: object) -> TrialPlan:
        """What would become of the job; raises InvalidInputError with all that is wrong, or ForbiddenError."""
        judged = judge_job(document)
        view = await self.catalog.refresh()
        upload = judged.parts.code.upload if judged.parts.code else None
        kept = frozenset({upload}) if upload else frozenset[str]()
        found = LookedUp.of(judged.parts, Admission(view, asker_of(principal, view), self.locations, kept))
        spec, resolved = admit(judged, found, await self.directories.missing(found.paths))
        submitted = Submitted(
            name=spec.metadata.name or "",
            owner_name=principal.name,
            spec=spec.document()["spec"],
            resolved=resolved,
            priority=spec.spec.priority,
        )
        job = submitted_job(submitted, new_job_id(), principal.user_id, spec.metadata.project, self.clock.now())
        gang = Terms.of(job).gang(job)
        asker = self.standings.asker(principal, job)
        plan = await self.standings.answered(lambda trials: trial_plan(gang, resolved, trials, asker), gang)
        cluster = view.get(Cluster, resolved.cluster)
        return replace(plan, differences=differences(cluster.spec.engine, resolved)) if cluster is not None else plan
