"""Where the login is kept: one JSON file `{"url", "username", "token"}`, readable by its owner only.

The file is `$TRAINMASTER_CONFIG`, else `~/.config/trainmaster/credentials.json`. `$TRAINMASTER_URL` and
`$TRAINMASTER_TOKEN` take precedence over it; a stored token is never sent to another address than the one it came from.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from trainmaster.errors import InputError, NotLoggedInError

DEFAULT_URL: Final = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Login:
    """A platform's address, and who the token speaks for there (no token: nobody)."""

    url: str
    username: str = ""
    token: str = ""


def config_path(environ: Mapping[str, str]) -> Path:
    """The file that holds the login."""
    configured = environ.get("TRAINMASTER_CONFIG")
    return Path(configured) if configured else Path.home() / ".config" / "trainmaster" / "credentials.json"


def stored_login(environ: Mapping[str, str]) -> Login | None:
    """The login as the file has it; None where there is no file."""
    path = config_path(environ)
    try:
        fields = json.loads(path.read_bytes())
        return Login(str(fields["url"]), str(fields.get("username", "")), str(fields["token"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged; run `trainmaster login` to write it anew") from error


def current_login(environ: Mapping[str, str]) -> Login:
    """The login that commands use; raises NotLoggedInError where there is no token for the address."""
    stored = stored_login(environ) or Login(DEFAULT_URL)
    url = (environ.get("TRAINMASTER_URL") or stored.url).rstrip("/")
    token = environ.get("TRAINMASTER_TOKEN") or (stored.token if url == stored.url.rstrip("/") else "")
    if not token:
        raise NotLoggedInError(f"not logged in at {url}; run `trainmaster login -u USER -e {url}`")
    return Login(url, stored.username, token)


def save_login(environ: Mapping[str, str], login: Login) -> Path:
    """Write the login in one step, so that a reader sees the old file or the new one; gives the file's path."""
    path = config_path(environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".credentials-")  # mkstemp gives mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(login), file, indent=2)
    Path(temporary).replace(path)
    return path
