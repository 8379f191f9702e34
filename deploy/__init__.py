"""How the platform is started: `local` on one machine, `nats` what every way shares."""
