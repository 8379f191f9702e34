"""`python -m services.scheduler`: the scheduler as a process of its own."""

from services.scheduler.bootstrap import bootstrap
from services.scheduler.settings import SchedulerSettings
from shared.service import main

if __name__ == "__main__":
    main(SchedulerSettings, bootstrap)
