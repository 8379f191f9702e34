"""`python -m services.diagnoser`: the diagnoser as a process of its own."""

from services.diagnoser.bootstrap import bootstrap
from services.diagnoser.settings import DiagnoserSettings
from shared.service import main

if __name__ == "__main__":
    main(DiagnoserSettings, bootstrap)
