"""`trainmaster drain`."""

from __future__ import annotations

from trainmaster.cli.node_orders import order_command

command = order_command("drain", "Place nothing new on a node; what runs there goes on.")
