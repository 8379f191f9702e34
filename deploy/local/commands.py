"""`trainmaster up` and `trainmaster down`: what the client's command line finds where the platform is installed.

`up` without `--detach` is the platform itself; with it, the platform is started in a session of its own. Its log goes
to `platform.log` either way, and the CLI is then logged in as the admin that the first start made.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from deploy.local.home import Home, HomeError, RunningPlatform
from deploy.local.http_calls import ADMIN, PlatformCalls
from services.scheduler.domain.split import Split
from shared.errors import TrainmasterError
from trainmaster.credentials import Login, save_login

_START_S: Final = 60.0
_STOP_S: Final = 60.0
_POLL_S: Final = 0.02
_LOG_LINES: Final = 5

home_option = click.option(
    "--home",
    "home_path",
    type=click.Path(file_okay=False, path_type=Path),
    help="State directory; default $TRAINMASTER_HOME or ~/.trainmaster.",
)
port_type = click.IntRange(0, 65535)


@click.command()
@home_option
@click.option("--port", type=port_type, default=8080, show_default=True, help="HTTP port on loopback; 0 takes any.")
@click.option("--nodes", type=click.IntRange(1, 64), default=1, show_default=True, help="Offer the machine as N nodes.")
@click.option("--leaves", type=click.IntRange(0, 64), default=0, help="Have the nodes under N leaf switches.")
@click.option("--spines", type=click.IntRange(0, 64), default=0, help="Have the leaves under N spine switches.")
@click.option("--nats-port", type=port_type, default=0, help="Port of NATS; default any that is free.")
@click.option("--detach", is_flag=True, help="Return once the platform is ready.")
def up(  # one for each option
    home_path: Path | None, port: int, nodes: int, leaves: int, spines: int, nats_port: int, *, detach: bool
) -> None:
    """Start the platform on this machine."""
    home, split = _home(home_path), Split(nodes, leaves, spines)
    if split.problem:
        raise click.UsageError(split.problem)
    try:
        home.prepare()
        if home.is_held():
            with home.hold():
                pass
        if detach:
            _start_detached(home, port, split, nats_port)
        else:
            _run_here(home, port, split, nats_port)
    except TrainmasterError as error:
        raise click.ClickException(error.message) from error


@click.command()
@home_option
@click.option("--replicas", is_flag=True, help="Also stop every running job; without it replicas go on.")
def down(home_path: Path | None, *, replicas: bool) -> None:
    """Stop the platform on this machine."""
    home = _home(home_path)
    running = home.running()
    if running is None:
        raise click.ClickException(f"no platform runs in {home.root}")
    try:
        if replicas:
            _stop_jobs(PlatformCalls(running.url, _password(home)))
        _stop(home, running)
    except TrainmasterError as error:
        raise click.ClickException(error.message) from error
    click.echo(f"platform stopped{_what_goes_on(home)}")


def _home(path: Path | None) -> Home:
    return Home(path.absolute()) if path else Home.default()


def _what_goes_on(home: Home) -> str:
    gangs = home.running_gangs()
    return f"; the replicas of {gangs} running jobs go on and are taken up by the next start" if gangs else ""


def _password(home: Home) -> str:
    return home.admin_password.read_text().strip()


def _run_here(home: Home, port: int, split: Split, nats_port: int) -> None:
    from deploy.local.launcher import LaunchOptions  # noqa: PLC0415  # `down` and `--detach` do without the services
    from deploy.local.process import run_until_stopped  # noqa: PLC0415  # as above
    from shared.telemetry import configure_logging  # noqa: PLC0415  # as above

    began = time.monotonic()

    def on_ready(running: RunningPlatform) -> None:
        _greet(running, home, time.monotonic() - began)
        click.echo("running until Ctrl-C")

    with home.log.open("a") as log:
        configure_logging("json", "INFO", log)
        run_until_stopped(LaunchOptions(home, port=port, nats_port=nats_port, split=split), on_ready)
    click.echo(f"platform stopped{_what_goes_on(home)}")


def _start_detached(home: Home, port: int, split: Split, nats_port: int) -> None:
    command = [sys.executable, "-m", "deploy.local", "--home", str(home.root)]
    command += ["--port", str(port), "--nats-port", str(nats_port)]
    command += [word for name, count in asdict(split).items() for word in (f"--{name}", str(count))]
    began = time.monotonic()
    with home.log.open("ab") as log:
        said_before = log.tell()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    _greet(_await_start(process, home, said_before), home, time.monotonic() - began)


def _await_start(process: subprocess.Popen[bytes], home: Home, said_before: int) -> RunningPlatform:
    deadline = time.monotonic() + _START_S
    while (running := home.running()) is None or running.pid != process.pid:
        if process.poll() is not None:
            raise HomeError(_last_words(home.log, said_before))
        if time.monotonic() > deadline:
            process.terminate()
            raise HomeError(f"the platform was not ready within {_START_S:g} s; see {home.log}")
        time.sleep(_POLL_S)
    return running


def _last_words(log: Path, said_before: int) -> str:
    """Why a platform did not start, of what was logged since; the log may be another one's too."""
    lines = log.read_bytes()[said_before:].decode(errors="replace").strip().splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else "\n".join(["the platform did not start:", *lines[-_LOG_LINES:]])


def _greet(running: RunningPlatform, home: Home, took_s: float) -> None:
    click.echo(f"platform ready at {running.url} in {took_s:.1f} s, home {home.root}")
    try:
        calls = PlatformCalls(running.url, _password(home))
    except HomeError:
        click.echo(f"the admin's password was changed; log in with: trainmaster login -u {ADMIN} -e {running.url}")
        return
    path = save_login(os.environ, Login(running.url, ADMIN, calls.token))
    click.echo(f"logged in as {ADMIN} ({path}); the password is in {home.admin_password}")


def _stop(home: Home, running: RunningPlatform) -> None:
    """Ask the platform to end, and wait until its process is gone, which is a moment after its lock is free."""
    try:
        process = os.pidfd_open(running.pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], _STOP_S)[0]:
            raise HomeError(f"process {running.pid} did not end within {_STOP_S:g} s; see {home.log}")
    finally:
        os.close(process)


def _stop_jobs(calls: PlatformCalls) -> None:
    """Ask every live job to stop and wait until none is live."""
    deadline = time.monotonic() + 2 * _STOP_S
    asked: set[str] = set()
    while jobs := calls.live_jobs():
        for job in jobs:
            if job["id"] not in asked:
                asked.add(job["id"])
                click.echo(f"stopping {job['name']} ({job['id']})")
                calls.stop_job(job["id"])
        if time.monotonic() > deadline:
            raise HomeError(f"{len(jobs)} jobs did not stop; see: trainmaster get jobs")
        time.sleep(10 * _POLL_S)
