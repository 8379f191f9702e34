"""A gang as Kubernetes objects: pure functions from its start and an admin's settings to manifests.

`gang` puts all together: the `record`, which owns the rest, ConfigMaps with `environment` and files, `secrets`, the
`network`, `pods` with `command`, `resources`, `security`, `scheduling`, `volumes`, `mounts` and `code`, and a
`pod_group` for Volcano. `settings` says what an admin decides.
"""

from services.scheduler.engines.kubernetes.objects.gang import GangObjects, gang_objects
from services.scheduler.engines.kubernetes.objects.record import GangRecord
from services.scheduler.engines.kubernetes.objects.settings import ObjectSettings

__all__ = ["GangObjects", "GangRecord", "ObjectSettings", "gang_objects"]
