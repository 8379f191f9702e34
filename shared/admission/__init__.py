"""The rules by which a job is let in: what its references mean to the one who submits it, and whether it may be there.

The submitter decides by them when a job is submitted, the scheduler when somebody asks what would become of one.
"""

from __future__ import annotations

from shared.admission.admitting import admit
from shared.admission.locations import Locations
from shared.admission.lookup import LookedUp
from shared.admission.references import World

__all__ = ["Locations", "LookedUp", "World", "admit"]
