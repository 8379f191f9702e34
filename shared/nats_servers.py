"""Where NATS is and how its servers are told from impostors: a list of addresses, and the authority they are signed by.

One address is enough where a name stands for all servers of a cluster; several are tried in turn. With a file of
certificates the connection is encrypted, and a server must show a certificate of that authority for its host name.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

URLS_PATTERN: Final = r"^(nats|tls)://[^,\s]+(,(nats|tls)://[^,\s]+)*$"


def servers(urls: str) -> list[str]:
    """The addresses of a list with commas between."""
    return [url.strip() for url in urls.split(",") if url.strip()]


def trust(ca_file: Path | None) -> ssl.SSLContext | None:
    """How servers are verified; None where there is no file and nothing is encrypted. Raises OSError."""
    return ssl.create_default_context(cafile=str(ca_file)) if ca_file else None
