"""Where the logs service touches the disk and NATS."""
