"""The configuration of nats-server: durable writes, and the users with their rights.

`nats_config` is the whole file for one machine. `users` is the part of it that says who may do what; a cluster's file
includes the same text, with names of environment variables in place of passwords.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.nats.rights import RIGHTS, Rights

MAX_PAYLOAD: Final = "1MB"


def nats_config(port: int, store: Path, passwords: Mapping[str, str]) -> str:
    """Text of the one-machine server's configuration file."""
    lines = [
        f'listen: "127.0.0.1:{port}"',
        "server_name: trainmaster",
        f"max_payload: {MAX_PAYLOAD}",
        "write_deadline: 10s",
        f"jetstream {{ {_jetstream(store)} }}",
        "authorization {",
        "  users = [",
        *(f"    {line}" for line in users({user: json.dumps(passwords[user]) for user in RIGHTS})),
        "  ]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def users(passwords: Mapping[str, str]) -> list[str]:
    """A line a user; the passwords are written as they come, so they are quoted already, or names of variables."""
    return [_user(user, passwords[user], rights) for user, rights in RIGHTS.items()]


def _jetstream(store: Path) -> str:
    """Settings of the store.

    The server counts what its streams may hold at most against `max_file`, by default three quarters of the disk that
    is free as it starts. A small or filled disk would then keep the platform from starting, with all its jobs; what is
    really written shall decide.
    """
    # The server knows fewer escapes than JSON.
    place = json.dumps(str(store), ensure_ascii=False)
    return f"store_dir: {place}, sync_interval: always, max_mem: 64MB, max_file: 1TB"


def _user(user: str, password: str, rights: Rights) -> str:
    permissions: dict[str, object] = {
        "publish": {"allow": list(rights.publish)},
        "subscribe": {"allow": [f"_INBOX_{user}.>", *rights.subscribe]},
    }
    if rights.answers:
        permissions["allow_responses"] = True
    return f'{{"user": {json.dumps(user)}, "password": {password}, "permissions": {json.dumps(permissions)}}}'
