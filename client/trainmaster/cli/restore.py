"""`trainmaster restore`."""

from __future__ import annotations

from trainmaster.cli.node_orders import order_command

command = order_command("restore", "Use a node again, whatever was found or ordered before.")
