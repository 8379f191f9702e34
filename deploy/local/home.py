"""The platform's home directory: where everything of a one-machine platform lies, and the lock that makes it one.

`Home` only names paths. `hold` takes the lock for the life of the process: a home has one platform, and whoever holds
the lock knows that its predecessor is dead. `secrets.json` is made once, readable by its owner alone: a NATS password a
user and the key that signs tokens. So is `secret-keys.json`, with the keys that seal the values of users' secrets; it
is worth a backup, as without it none of them can be opened.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.auth.keys import SigningKey
from shared.errors import TrainmasterError
from shared.locks import is_locked
from shared.vault import Keyring

NATS_USERS: Final = ("platform", "submitter", "scheduler", "watchdog", "diagnoser", "logs", "agent", "billing")
_PASSWORD_BYTES: Final = 24
MIN_FREE_BYTES: Final = 32 << 20


class HomeError(TrainmasterError):
    """The home directory cannot be used as it is; the message says what to do."""

    code = "unavailable"


class RunningPlatform(BaseModel):
    """What `platform.json` says of the platform that holds the lock."""

    model_config = ConfigDict(frozen=True)

    pid: int
    url: str
    nats_url: str
    nodes: int
    started: str


class Secrets(BaseModel):
    """What only the platform may know."""

    model_config = ConfigDict(frozen=True)

    nats_passwords: dict[str, str]
    signing_key: str
    admin_password: str


@dataclass(frozen=True, slots=True)
class Home:
    """Paths below a home directory."""

    root: Path

    @classmethod
    def default(cls) -> Home:
        """`$TRAINMASTER_HOME`, or `~/.trainmaster`."""
        return cls(Path(os.environ.get("TRAINMASTER_HOME") or Path.home() / ".trainmaster").absolute())

    @property
    def lock(self) -> Path:
        return self.root / "platform.lock"

    @property
    def state(self) -> Path:
        return self.root / "platform.json"

    @property
    def log(self) -> Path:
        return self.root / "platform.log"

    @property
    def nats_config(self) -> Path:
        return self.root / "config" / "nats.conf"

    @property
    def secrets(self) -> Path:
        return self.root / "config" / "secrets.json"

    @property
    def jwks(self) -> Path:
        return self.root / "config" / "jwks.json"

    @property
    def signing_key(self) -> Path:
        return self.root / "config" / "signing-key.pem"

    @property
    def secret_keys(self) -> Path:
        return self.root / "config" / "secret-keys.json"

    @property
    def billing_access(self) -> Path:
        """What a billing subscriber connects with."""
        return self.root / "config" / "billing.json"

    @property
    def admin_password(self) -> Path:
        return self.root / "admin-password"

    def prepare(self) -> Secrets:
        """Make the directory and its secrets where they are missing; raises HomeError."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._check_room()
            (self.root / "config").mkdir(exist_ok=True, mode=0o700)
            if not self.secrets.exists():
                write_private(self.secrets, _new_secrets().model_dump_json(), replace=False)
            if not self.secret_keys.exists():
                write_private(self.secret_keys, Keyring.generate().text(), replace=False)
            made = _completed(Secrets.model_validate_json(self.secrets.read_bytes()))
            self._lay(made)
        except OSError as error:
            raise HomeError(f"{self.root} cannot be used: {error.strerror}; choose another with --home") from error
        except ValidationError as error:
            raise HomeError(f"{self.secrets} is damaged; restore it, or remove it to make new secrets") from error
        return made

    def _check_room(self) -> None:
        """Where nothing can be written, not even the reason could be told later."""
        free_bytes = shutil.disk_usage(self.root).free
        if free_bytes < MIN_FREE_BYTES:
            raise HomeError(
                f"the disk of {self.root} has {free_bytes >> 20} MiB free, and the platform needs at least "
                f"{MIN_FREE_BYTES >> 20} MiB; free some, or choose another place with --home"
            )

    def _lay(self, made: Secrets) -> None:
        write_private(self.signing_key, made.signing_key)
        write_private(self.admin_password, made.admin_password + "\n")
        self.jwks.write_text(json.dumps(SigningKey.load(made.signing_key).public().jwks()))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock; raises HomeError where another platform has it."""
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            running = self.running()
            where = f" at {running.url} (process {running.pid})" if running else ""
            raise HomeError(f"a platform already runs in {self.root}{where}; stop it with: trainmaster down") from None
        try:
            yield
        finally:
            self.state.unlink(missing_ok=True)
            os.close(descriptor)

    def is_held(self) -> bool:
        """Whether a platform holds the lock."""
        return is_locked(self.lock)

    def running_gangs(self) -> int:
        """How many gangs have replicas that run now: a runner holds its replica's lock for life."""
        gangs = (self.root / "gangs").glob("tj-*")
        return sum(any(is_locked(lock) for lock in gang.glob("replicas/*/lock")) for gang in gangs)

    def running(self) -> RunningPlatform | None:
        """What the platform that holds the lock says of itself, once it is ready."""
        if not self.is_held():
            return None
        try:
            return RunningPlatform.model_validate_json(self.state.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def announce(self, platform: RunningPlatform) -> None:
        """Tell others that the platform is ready, and where."""
        partial = self.state.with_suffix(".part")
        partial.write_text(platform.model_dump_json())
        partial.replace(self.state)


def write_private(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a file that only its owner may read, whole or not at all; without `replace` one that is there stays.

    Others may be writing the same file, where `up` is called twice at once.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if replace:
        partial.replace(path)
        return
    with suppress(FileExistsError):
        path.hardlink_to(partial)
    partial.unlink()


def _completed(made: Secrets) -> Secrets:
    """The secrets with passwords for users that the version which made them did not have.

    They follow from the signing key, so that they need not be written and are the same at every start.
    """
    derived = {user: hmac.digest(made.signing_key.encode(), user.encode(), "sha256").hex() for user in NATS_USERS}
    return made.model_copy(update={"nats_passwords": {**derived, **made.nats_passwords}})


def _new_secrets() -> Secrets:
    return Secrets(
        nats_passwords={user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in NATS_USERS},
        signing_key=SigningKey.generate().pem(),
        admin_password=secrets.token_urlsafe(12),
    )
