"""`python -m deploy.local`: the one-machine platform in this process, until TERM or Ctrl-C; its log goes to stderr."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deploy.local.home import Home
from deploy.local.launcher import LaunchOptions
from deploy.local.process import run_until_stopped
from services.scheduler.domain.split import Split
from shared.errors import TrainmasterError
from shared.telemetry import configure_logging


def main() -> None:
    """Parse the arguments and run; what keeps the platform from starting is one line on standard error."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    parser.add_argument("--home", type=Path, default=None)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--nats-port", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--leaves", type=int, default=0)
    parser.add_argument("--spines", type=int, default=0)
    given = parser.parse_args()
    split = Split(given.nodes, given.leaves, given.spines)
    home = Home(given.home.absolute()) if given.home else Home.default()
    configure_logging("json", "INFO")
    try:
        run_until_stopped(LaunchOptions(home, given.host, given.port, given.nats_port, split), lambda _ready: None)
    except TrainmasterError as error:
        sys.exit(f"error: {error.message}")


if __name__ == "__main__":
    main()
