"""`python -m trainmaster` is the `trainmaster` command."""

from __future__ import annotations

from trainmaster.cli.main import main

if __name__ == "__main__":
    main()
