"""The training job: its models, and the validation that turns a JSON document into one or says all that is wrong."""

from shared.jobspec.models import FIRST_CLUSTER, JobSpec, Mount, Role, TrainingSpec
from shared.jobspec.validation import validate_job

__all__ = ["FIRST_CLUSTER", "JobSpec", "Mount", "Role", "TrainingSpec", "validate_job"]
