"""`trainmaster login`."""

from __future__ import annotations

import os
import sys

import click

from trainmaster import credentials
from trainmaster.cli.screen import Screen
from trainmaster.client import Client
from trainmaster.errors import InputError


@click.command("login")
@click.option("-u", "--username", help="Your name on the platform; asked for where it is left out.")
@click.option("-p", "--password", help="Your password; asked for, or read from standard input, where it is left out.")
@click.option("-e", "--url", help="The platform's address; default: the one of the last login, or this machine's.")
def command(username: str | None, password: str | None, url: str | None) -> None:
    """Log in to a platform and remember the token.

    The token is kept in ~/.config/trainmaster/credentials.json ($TRAINMASTER_CONFIG), readable by you only.
    """
    stored = _stored()
    username = username or _asked("Username")
    password = password or _asked("Password", hidden=True)
    address = url or os.environ.get("TRAINMASTER_URL") or (stored.url if stored else credentials.DEFAULT_URL)
    with Client(address) as client:
        login = client.login(username, password)
    path = credentials.save_login(os.environ, login)
    Screen.here().say(f"logged in to {login.url} as {username}; the token is in {path}")


def _stored() -> credentials.Login | None:
    try:
        return credentials.stored_login(os.environ)
    except InputError:  # a damaged file is about to be replaced
        return None


def _asked(what: str, *, hidden: bool = False) -> str:
    """A line from the user, or from standard input where that is no terminal."""
    if sys.stdin.isatty():
        answer: str = click.prompt(what, hide_input=hidden, err=True)
        return answer
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise InputError(f"no {what.lower()} given; use --{what.lower()}, or pass it on standard input")
    return line
