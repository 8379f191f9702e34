"""The `trainmaster` command: one module a subcommand, found by `main` and loaded when it is used."""
