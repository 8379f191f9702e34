"""`trainmaster password`."""

from __future__ import annotations

import os
import sys

import click

from trainmaster import credentials
from trainmaster.cli.screen import Screen
from trainmaster.client import Client
from trainmaster.errors import InputError


@click.command("password")
def command() -> None:
    """Change your own password.

    The present and the new one are asked for, or read as two lines from standard input where that is no terminal. Every
    token that you had before is taken back, and this command is logged in anew.
    """
    login = credentials.current_login(os.environ)
    current, new = _asked()
    with Client(login.url, login.token) as client:
        changed = client.change_password(current, new)
    say = Screen.here().say
    if os.environ.get("TRAINMASTER_TOKEN"):
        say(
            "password changed; the token in TRAINMASTER_TOKEN is not good any more: `trainmaster login` gives a new one"
        )
        return
    path = credentials.save_login(os.environ, changed)
    say(f"password changed; logged in anew, the token is in {path}")


def _asked() -> tuple[str, str]:
    if sys.stdin.isatty():
        current: str = click.prompt("Present password", hide_input=True, err=True)
        new: str = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
        return current, new
    lines = sys.stdin.read().splitlines()
    if len(lines) != 2 or not all(lines):
        raise InputError("give two lines on standard input: the present password and the new one")
    return lines[0], lines[1]
