"""`python -m services.watchdog`: the watchdog as a process of its own."""

from services.watchdog.bootstrap import bootstrap
from services.watchdog.settings import WatchdogSettings
from shared.service import main

if __name__ == "__main__":
    main(WatchdogSettings, bootstrap)
