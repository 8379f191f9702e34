"""The training job: its models, and the validation that turns a JSON document into one or says all that is wrong."""

from shared.jobspec.models import FIRST_CLUSTER, JobSpec, Mount, Role, TrainingSpec
from shared.jobspec.validation import JudgedJob, judge_job, validate_job

__all__ = ["FIRST_CLUSTER", "JobSpec", "JudgedJob", "Mount", "Role", "TrainingSpec", "judge_job", "validate_job"]
