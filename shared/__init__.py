"""What every service shares: contracts, the bus, the HTTP factory, telemetry. It imports no service."""
