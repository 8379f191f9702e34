"""The engines: each runs replicas in one kind of place and stands behind the `Engine` port of `services.scheduler`."""
