"""`python -m services.submitter`: the submitter as a process of its own."""

from services.submitter.bootstrap import bootstrap
from services.submitter.settings import SubmitterSettings
from shared.service import main

if __name__ == "__main__":
    main(SubmitterSettings, bootstrap)
