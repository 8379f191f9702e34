"""`python -m deploy.helm [--check]`: writes the chart's generated files, or says which of them are not up to date.

They are the users of NATS, and which variables each component reads, so that misspelt ones in the values are refused.
The rights are those of `deploy.nats.rights`, line by line what one machine has; a password is the name of a variable of
the environment, which nats-server replaces as it reads its configuration.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from deploy.nats.config import users
from deploy.nats.rights import RIGHTS
from deploy.variables import READ_BY

CHART: Final = Path(__file__).with_name("trainmaster")


def password_variable(user: str) -> str:
    """The environment variable of nats-server that holds the user's password."""
    return f"NATS_PASSWORD_{user.upper()}"


def generated() -> Mapping[Path, str]:
    """What each generated file must hold."""
    lines = users({user: f"${password_variable(user)}" for user in RIGHTS})
    return {
        CHART / "files" / "nats-users.conf": "\n".join(["users = [", *lines, "]"]) + "\n",
        CHART / "files" / "nats-users.txt": "\n".join(RIGHTS) + "\n",
        CHART / "files" / "variables.txt": "".join(f"{component} {name}\n" for component, name in _variables()),
    }


def _variables() -> Iterator[tuple[str, str]]:
    """Components of the chart whose values have an `env`, each with the platform's variables that it reads."""
    for component, names in READ_BY.items():
        yield from ((component, name) for name in sorted(names))


def main(arguments: list[str]) -> str | None:
    """Write the files, or compare them; gives an error's text."""
    wanted = generated()
    if arguments == ["--check"]:
        stale = [str(file) for file, text in wanted.items() if not file.exists() or file.read_text() != text]
        return f"not up to date: {', '.join(stale)}; write them with: python -m deploy.helm" if stale else None
    if arguments:
        return "usage: python -m deploy.helm [--check]"
    for file, text in wanted.items():
        file.write_text(text)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
