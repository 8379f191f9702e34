"""The one-machine platform as one process: five services in one event loop, nats-server and the node agent as children.

Order of the start: hold the home's lock, bind the HTTP port, mend the store, start nats-server, make streams and
consumers, wire the services, serve, start the agent, announce. Order of the end: streams and requests, services, agent,
nats-server. A process killed with -9 takes its children with it (they ask the kernel for that) and leaves the replicas
running; the next launcher finds the lock free and takes them up again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import structlog
from nats.js.errors import APIError
from pydantic import SecretStr

from deploy.local.children import Child, ChildSpec, await_nats, free_port, nats_server_command
from deploy.local.home import Home, HomeError, RunningPlatform, Secrets, write_private
from deploy.local.nats_store import mend_store
from deploy.local.probe_settings import PROBE_FAULTS, refuse_wrong_faults, refuse_wrong_python
from deploy.local.readiness import await_ready
from deploy.nats.config import nats_config
from deploy.variables import all_variables
from services.diagnoser.bootstrap import bootstrap as bootstrap_diagnoser
from services.diagnoser.settings import CheckingSettings, DiagnoserSettings, LimitSettings
from services.logs.bootstrap import bootstrap as bootstrap_logs
from services.logs.settings import KeepingSettings, LogsSettings, TensorBoardSettings
from services.scheduler.bootstrap import bootstrap as bootstrap_scheduler
from services.scheduler.domain.split import Split
from services.scheduler.engines.local.inventory import divided, look_at_machine
from services.scheduler.settings import QuarantineSettings, SchedulerSettings
from services.submitter.bootstrap import bootstrap as bootstrap_submitter
from services.submitter.settings import ArchiveSettings, SubmitterSettings
from services.watchdog.bootstrap import bootstrap as bootstrap_watchdog
from services.watchdog.settings import WatchdogSettings
from shared.asset_settings import SourceSettings
from shared.bus import Bus, BusOptions
from shared.bus.provision import provision
from shared.bus.streams import BILLING
from shared.clock import SystemClock, rfc3339
from shared.http.serve import HttpServer
from shared.service import Service, run_services
from shared.settings import read_settings, variable
from shared.tasks import end
from shared.variables import refuse_misspelt

_PASSED_TO_AGENT: Final = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONPATH",
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_HCA",
    "TRAINMASTER_PROBE_PYTHON",
    "TRAINMASTER_PROBE_FAULTS",
    "TRAINMASTER_SAMPLE_S",
)


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How the platform is to run; port 0 takes any that is free."""

    home: Home
    host: str = "127.0.0.1"
    port: int = 8080
    nats_port: int = 0
    split: Split = field(default_factory=Split)

    @property
    def own_host(self) -> str:
        """Where this machine itself reaches HTTP."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    @property
    def machine(self) -> str:
        """Name of this machine in node names and of its agent."""
        return socket.gethostname().split(".")[0] or "local"


OnReady = Callable[[RunningPlatform], None]


async def run_platform(options: LaunchOptions, stopping: asyncio.Event, on_ready: OnReady) -> None:
    """Run until `stopping` is set; raises HomeError, SettingsError, UnavailableError or ProvisionError before that.

    `on_ready` is called in a thread once everything answers.
    """
    refuse_misspelt(all_variables(), os.environ)
    refuse_wrong_python(os.environ)
    if os.environ.get(PROBE_FAULTS):
        machine = await asyncio.to_thread(look_at_machine)
        refuse_wrong_faults(os.environ, [offer.id for offer in divided(machine, options.split)])
    secrets = options.home.prepare()
    with options.home.hold():
        await _Platform(options, secrets, stopping, on_ready).run()


class _Platform:
    def __init__(self, options: LaunchOptions, secrets: Secrets, stopping: asyncio.Event, on_ready: OnReady) -> None:
        self._options = options
        self._home = options.home
        self._secrets = secrets
        self._stopping = stopping
        self._on_ready = on_ready
        self._server = HttpServer(options.host, options.port)
        self._nats_port = options.nats_port or free_port()
        self._nats = Child(self._nats_spec())
        self._agent = Child(self._agent_spec())
        self._log = structlog.get_logger()

    async def run(self) -> None:
        self._home.nats_config.touch(mode=0o600)
        self._home.nats_config.write_text(
            nats_config(self._nats_port, self._home.root / "nats", self._secrets.nats_passwords)
        )
        await asyncio.to_thread(mend_store, self._home.root / "nats")
        write_private(self._home.billing_access, self._billing_access())
        try:
            await self._nats.start()
            await await_nats(self._nats_port, self._nats, self._home.root / "nats.log")
            await self._provision()
            services = await self._bootstrap()
            await self._serve(services)
        finally:
            await self._agent.stop()
            await self._nats.stop()

    async def _provision(self) -> None:
        bus = await Bus.connect(self._bus_options("platform"))
        try:
            await provision(bus.js)
        except APIError as error:
            log = self._home.root / "nats.log"
            raise HomeError(f"nats-server cannot set up its streams: {error.description}; {log} says why") from error
        finally:
            await bus.close()

    async def _serve(self, services: Sequence[Service]) -> None:
        await self._agent.start()
        watching = [asyncio.create_task(child.keep_running()) for child in (self._nats, self._agent)]
        announcing = asyncio.create_task(self._announce())
        try:
            await run_services(services, self._server, self._stopping)
        finally:
            await end(*watching, announcing)

    async def _announce(self) -> None:
        options = self._options
        url = f"http://{options.own_host}:{self._server.port}"
        await await_ready(options.own_host, self._server.port)
        started = rfc3339(SystemClock().now())
        running = RunningPlatform(
            pid=os.getpid(), url=url, nats_url=self._nats_url, nodes=options.split.nodes, started=started
        )
        self._home.announce(running)
        self._log.info("platform_ready", url=url, home=str(self._home.root), nodes=options.split.nodes)
        await asyncio.to_thread(self._on_ready, running)

    async def _bootstrap(self) -> list[Service]:
        root, secrets = self._home.root, self._secrets
        sources = read_settings(SourceSettings, os.environ).model_dump()
        assets = {"secret_keys_file": self._home.secret_keys, **sources}
        submitter = SubmitterSettings.model_validate(
            self._common("submitter")
            | assets
            | read_settings(ArchiveSettings, os.environ).model_dump()
            | {
                "home": root,
                "signing_key_file": self._home.signing_key,
                "admin_password": SecretStr(secrets.admin_password),
                "replicas_here": True,
            }
        )
        scheduler = SchedulerSettings.model_validate(
            self._common("scheduler")
            | assets
            | read_settings(QuarantineSettings, os.environ).model_dump()
            | asdict(self._options.split)
            | {"home": root, "machine": self._options.machine}
        )
        keeping = read_settings(KeepingSettings, os.environ).model_dump()
        boards = read_settings(TensorBoardSettings, os.environ).model_dump()
        logs = LogsSettings.model_validate(self._common("logs") | sources | keeping | boards | {"home": root})
        networks = os.environ.get(variable("webhook_networks"), "")
        watchdog = WatchdogSettings.model_validate(
            self._common("watchdog") | assets | {"home": root, "webhook_networks": networks}
        )
        checking = read_settings(CheckingSettings, os.environ).model_dump()
        limits = read_settings(LimitSettings, os.environ).model_dump()
        diagnoser = DiagnoserSettings.model_validate(self._common("diagnoser") | checking | limits | {"home": root})
        services = await asyncio.gather(
            bootstrap_submitter(submitter),
            bootstrap_scheduler(scheduler),
            bootstrap_watchdog(watchdog),
            bootstrap_diagnoser(diagnoser),
            bootstrap_logs(logs),
        )
        return list(services)

    def _common(self, user: str) -> dict[str, object]:
        """Settings that every service has."""
        return {
            "nats_url": self._nats_url,
            "nats_user": user,
            "nats_password": SecretStr(self._secrets.nats_passwords[user]),
            "host": self._options.host,
            "port": self._options.port,
            "jwks_file": self._home.jwks,
        }

    def _billing_access(self) -> str:
        """What a billing subscriber connects with; the port may be another at every start."""
        user = "billing"
        access = {"url": self._nats_url, "user": user, "password": self._secrets.nats_passwords[user]}
        return json.dumps({**access, "stream": BILLING.stream, "consumer": BILLING.durable}) + "\n"

    @property
    def _nats_url(self) -> str:
        return f"nats://127.0.0.1:{self._nats_port}"

    def _bus_options(self, user: str) -> BusOptions:
        return BusOptions(self._nats_url, user, self._secrets.nats_passwords[user])

    def _nats_spec(self) -> ChildSpec:
        return ChildSpec(
            name="nats-server",
            command=(nats_server_command(), "-c", str(self._home.nats_config)),
            environment={"PATH": os.environ.get("PATH", ""), "GOMEMLIMIT": "200MiB"},
            log=self._home.root / "nats.log",
        )

    def _agent_spec(self) -> ChildSpec:
        environment = {name: os.environ[name] for name in _PASSED_TO_AGENT if name in os.environ}
        return ChildSpec(
            name="agent",
            command=(sys.executable, "-m", "services.agent"),
            environment={
                **environment,
                "TRAINMASTER_HOME": str(self._home.root),
                "TRAINMASTER_NATS_URL": self._nats_url,
                "TRAINMASTER_NATS_USER": "agent",
                "TRAINMASTER_NATS_PASSWORD": self._secrets.nats_passwords["agent"],
                "TRAINMASTER_MACHINE": self._options.machine,
            },
            log=self._home.root / "agent.log",
            # One that is stopped, or hangs, would hold up the next for ever; it loses nothing by being killed.
            last_signal=signal.SIGKILL,
        )
