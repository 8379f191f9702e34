"""How the platform is started: `local` on one machine."""
