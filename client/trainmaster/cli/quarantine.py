"""`trainmaster quarantine`."""

from __future__ import annotations

from trainmaster.cli.node_orders import order_command

command = order_command("quarantine", "Place nothing on a node that something is wrong with; what runs there goes on.")
