"""`python -m services.logs`: the logs service as a process of its own."""

from services.logs.bootstrap import bootstrap
from services.logs.settings import LogsSettings
from shared.service import main

if __name__ == "__main__":
    main(LogsSettings, bootstrap)
