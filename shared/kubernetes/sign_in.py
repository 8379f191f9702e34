"""Who a process is to an API server: by its pod's service account, or by a kubeconfig.

Where a process runs in a pod and names no kubeconfig it uses the pod's service account, whose token is read anew every
minute, as it changes. Else `KUBECONFIG` (or `~/.kube/config`) counts, with the context that is asked for or the
current one. What a kubeconfig says is read once by the package that does it, and so are the files and programs that it
names; so it is to be asked for again when the server does not know the token any more, or the certificate.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

from kubernetes.aio import config
from kubernetes.aio.client import Configuration

from shared.errors import UnavailableError

IN_CLUSTER: Final = "in-cluster"
"""The context that stands for the pod's own service account, whatever kubeconfig there is."""
_SERVICE_ACCOUNT: Final = "KUBERNETES_SERVICE_HOST"

SignIn = Callable[[], Awaitable[Configuration]]
"""Address and credentials as they are now; raises UnavailableError with what is wrong where there are none."""


def sign_in(context: str = "", kubeconfig: str = "") -> SignIn:
    """As this process has it."""
    return partial(_configuration, context, kubeconfig)


def way(configuration: Configuration) -> tuple[object, ...]:
    """What connections are made by: the address, and what is in the files with certificates now."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (configuration.host, *(Path(file).read_bytes() if file else b"" for file in files))


async def _configuration(context: str, kubeconfig: str) -> Configuration:
    configuration = Configuration()
    kubeconfig = kubeconfig or os.environ.get("KUBECONFIG", "")
    is_in_cluster = bool(os.environ.get(_SERVICE_ACCOUNT)) and not (context or kubeconfig)
    named = f" with context {context!r}" if context else ""
    try:
        if is_in_cluster or context == IN_CLUSTER:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await _load_kubeconfig(configuration, context, kubeconfig)
    except (config.ConfigException, OSError, ssl.SSLError) as error:
        raise UnavailableError(f"no access to Kubernetes{named}: {error}") from error
    except Exception as error:  # a file that is no kubeconfig is whatever Python and YAML make of it
        raise UnavailableError(f"no access to Kubernetes{named}: {kubeconfig} is no kubeconfig ({error})") from error
    return configuration


async def _load_kubeconfig(configuration: Configuration, context: str, kubeconfig: str) -> None:
    file = kubeconfig or config.KUBE_CONFIG_DEFAULT_LOCATION
    loading = config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=file, context=context or None, client_configuration=configuration
    )
    await loading
