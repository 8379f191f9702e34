"""What NATS is told: who may do what, and which streams and consumers there are."""
