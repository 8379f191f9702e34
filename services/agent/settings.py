"""Settings of the node agent, read from the environment.

| variable | meaning |
|---|---|
| `TRAINMASTER_HOME` | directory of the platform; `gangs/` in it is read, `agent/` is the agent's own |
| `TRAINMASTER_NATS_URL` | address of NATS, several with commas between |
| `TRAINMASTER_NATS_CA_FILE` | certificates of the authority of NATS; without it the connection is not encrypted |
| `TRAINMASTER_NATS_USER`, `TRAINMASTER_NATS_PASSWORD` | the agent's NATS user; its inbox is `_INBOX_<user>` |
| `TRAINMASTER_MACHINE` | name of this machine: the agent answers on `tm.agent.<machine>.<verb>` |
| `TRAINMASTER_LOG_LEVEL` | least level that is logged: DEBUG, INFO (default), WARNING or ERROR |
| `TRAINMASTER_SAMPLE_S` | seconds between two samples of what replicas use; default 5 |
| `TRAINMASTER_PROBE_PYTHON` | interpreter that has PyTorch, for tests of a diagnosis; default the agent's own |
| `TRAINMASTER_PROBE_ADDRESS` | where other machines reach tests on this one; default the address on the way to NATS |
| `TRAINMASTER_PROBE_FAULTS` | for tests: nodes whose probes look bad, see `prober` |
| `TRAINMASTER_READY_FILE` | a file that is renewed while the agent can work, see `pulse`; default none |
| `TRAINMASTER_AGENT_SOURCE` | `local` (default): an engine here lays `gangs/`; `kubernetes`: pods are watched |

With `kubernetes` the machine's name is made of cluster and node, and there are, too:

| variable | meaning |
|---|---|
| `TRAINMASTER_NODE_NAME` | name of this node as Kubernetes has it; must be given |
| `TRAINMASTER_CLUSTER` | name of the cluster as Trainmaster has it; default `main` |
| `TRAINMASTER_KUBE_NAMESPACE`, `TRAINMASTER_KUBE_NAMESPACE_PREFIX` | as the scheduler's; pods elsewhere do not count |
| `TRAINMASTER_POD_LOGS` | where the kubelet keeps logs; default `/var/log/pods` |
| `TRAINMASTER_KUBELET_ROOT` | the kubelet's directory; default `/var/lib/kubelet` |
| `TRAINMASTER_CGROUP_ROOT` | the node's own control groups; default `/sys/fs/cgroup` |
| `TRAINMASTER_NODE_GPUS` | `true`: the node's GPUs can be seen, and are tested where no pod has them; default `false` |
| `TRAINMASTER_NODE_DIRECTORIES` | the node's directories that are below `/host/directories`, with colons between |
| `KUBECONFIG` | access to the API server; without it the pod's service account |

A name that is all but one of these is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shared.kubernetes.names import machine_name
from shared.kubernetes.namespaces import ALL_NAMESPACES, Namespaces
from shared.variables import SettingsError, refuse_misspelt

FIRST_CLUSTER: Final = "main"
_SAMPLE_MIN_S: Final = 0.1
_LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
VARIABLES: Final = frozenset(
    f"TRAINMASTER_{name}"
    for name in (
        *("HOME", "NATS_URL", "NATS_CA_FILE", "NATS_USER", "NATS_PASSWORD", "MACHINE", "LOG_LEVEL", "SAMPLE_S"),
        *("PROBE_PYTHON", "PROBE_ADDRESS", "PROBE_FAULTS", "AGENT_SOURCE", "NODE_NAME", "CLUSTER", "POD_LOGS"),
        *("KUBELET_ROOT", "CGROUP_ROOT", "NODE_GPUS", "NODE_DIRECTORIES", "KUBE_NAMESPACE", "KUBE_NAMESPACE_PREFIX"),
        "READY_FILE",
    )
)


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Which node this is, where things are on it, and in which namespaces pods are replicas."""

    node_name: str
    cluster: str = FIRST_CLUSTER
    namespaces: Namespaces = ALL_NAMESPACES
    pod_logs: Path = Path("/var/log/pods")
    kubelet_root: Path = Path("/var/lib/kubelet")
    cgroup_root: Path = Path("/sys/fs/cgroup")
    sees_gpus: bool = False
    directories: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> KubernetesSettings | None:
        """None where replicas are not pods."""
        source = environment.get("TRAINMASTER_AGENT_SOURCE") or "local"
        if source == "local":
            return None
        if source != "kubernetes":
            raise SystemExit(f"TRAINMASTER_AGENT_SOURCE: {source!r} is none of local, kubernetes")
        node_name = environment.get("TRAINMASTER_NODE_NAME")
        if not node_name:
            raise SystemExit("TRAINMASTER_NODE_NAME: must be the name of this node where replicas are pods")
        places = {
            "pod_logs": environment.get("TRAINMASTER_POD_LOGS"),
            "kubelet_root": environment.get("TRAINMASTER_KUBELET_ROOT"),
            "cgroup_root": environment.get("TRAINMASTER_CGROUP_ROOT"),
        }
        cluster = environment.get("TRAINMASTER_CLUSTER") or FIRST_CLUSTER
        given = {name: Path(path) for name, path in places.items() if path}
        return cls(
            node_name,
            cluster,
            _namespaces(environment),
            sees_gpus=_is_true(environment, "TRAINMASTER_NODE_GPUS"),
            directories=_paths(environment, "TRAINMASTER_NODE_DIRECTORIES"),
            **given,
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What the agent must be told."""

    home: Path
    nats_url: str = "nats://127.0.0.1:4222"
    nats_user: str = "agent"
    nats_password: str = field(default="", repr=False)
    machine: str = "local"
    probe_faults: str = ""
    probe_python: str = sys.executable
    probe_address: str = ""
    sample_s: float = 5.0
    log_level: str = "INFO"
    nats_ca_file: Path | None = None
    ready_file: Path | None = None
    kubernetes: KubernetesSettings | None = None

    @property
    def gangs(self) -> Path:
        """Where the engine puts the directories of gangs."""
        return self.home / "gangs"

    @property
    def state(self) -> Path:
        """Where the agent remembers what is kept."""
        return self.home / "agent"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The settings that the variables above give; what is not set has its default. Exits where one is wrong."""
        try:
            refuse_misspelt(VARIABLES, environment)
        except SettingsError as error:
            raise SystemExit(error.message) from None
        given = {
            "nats_url": environment.get("TRAINMASTER_NATS_URL"),
            "nats_user": environment.get("TRAINMASTER_NATS_USER"),
            "nats_password": environment.get("TRAINMASTER_NATS_PASSWORD"),
            "machine": environment.get("TRAINMASTER_MACHINE"),
            "probe_python": environment.get("TRAINMASTER_PROBE_PYTHON") or None,
            "probe_address": environment.get("TRAINMASTER_PROBE_ADDRESS"),
            "probe_faults": environment.get("TRAINMASTER_PROBE_FAULTS"),
        }
        home = environment.get("TRAINMASTER_HOME") or Path.home() / ".trainmaster"
        authority, ready = (environment.get(f"TRAINMASTER_{name}") for name in ("NATS_CA_FILE", "READY_FILE"))
        kubernetes = KubernetesSettings.from_environment(environment)
        if kubernetes is not None:
            given["machine"] = machine_name(kubernetes.cluster, kubernetes.node_name)
        named = {name: value for name, value in given.items() if value is not None}
        return cls(
            home=Path(home),
            sample_s=_sample_s(environment),
            log_level=_log_level(environment),
            nats_ca_file=Path(authority) if authority else None,
            ready_file=Path(ready) if ready else None,
            kubernetes=kubernetes,
            **named,
        )


def _paths(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    paths = tuple(path for path in (environment.get(name) or "").split(":") if path)
    wrong = [path for path in paths if not path.startswith("/")]
    if wrong:
        raise SystemExit(f"{name}: {wrong[0]!r} is no absolute path, such as /data")
    return paths


def _namespaces(environment: Mapping[str, str]) -> Namespaces:
    """Where the scheduler puts gangs; all, where that is not told."""
    shared = environment.get("TRAINMASTER_KUBE_NAMESPACE")
    prefix = environment.get("TRAINMASTER_KUBE_NAMESPACE_PREFIX")
    return Namespaces(prefix=prefix) if prefix else Namespaces(shared) if shared else ALL_NAMESPACES


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    given = environment.get(name) or "false"
    if given not in ("true", "false"):
        raise SystemExit(f"{name}: {given!r} is neither true nor false")
    return given == "true"


def _log_level(environment: Mapping[str, str]) -> str:
    given = environment.get("TRAINMASTER_LOG_LEVEL") or "INFO"
    if given not in _LOG_LEVELS:
        raise SystemExit(f"TRAINMASTER_LOG_LEVEL: {given!r} is none of {', '.join(_LOG_LEVELS)}")
    return given


def _sample_s(environment: Mapping[str, str]) -> float:
    given = environment.get("TRAINMASTER_SAMPLE_S") or "5"
    try:
        return max(_SAMPLE_MIN_S, float(given))
    except ValueError:
        raise SystemExit(f"TRAINMASTER_SAMPLE_S: {given!r} is no number of seconds, such as 5") from None
