"""The command's entry: the table of subcommands, and the one place where errors become messages and exit codes.

Subcommands are loaded when they are used, for their libraries take longer to load than `--help` may take to print. So
the table holds what `--help` needs. Commands that other distributions offer are entry points of the group
`trainmaster.commands`; `up`, `down` and `doctor` come with the platform's.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from trainmaster.errors import ExitCode, InputError, TrainmasterError

PLUGIN_GROUP: Final = "trainmaster.commands"


class Entry(NamedTuple):
    """What `--help` says about a subcommand, and where it stands there."""

    section: str
    help: str


_JOBS: Final = "Jobs"
_ALL: Final = "Everything else on the platform"
_HERE: Final = "You and this machine"

COMMANDS: Final[dict[str, Entry]] = {
    "apply": Entry(_JOBS, "Submit the jobs in a YAML file, and put everything else in it in place."),
    "plan": Entry(_JOBS, "Say what would become of a job, without submitting it."),
    "describe": Entry(_JOBS, "Show one job on a page: state, roles, placement, exits; or a node."),
    "logs": Entry(_JOBS, "Print or follow what the replicas of a job write, search in it, or save it."),
    "search": Entry(_JOBS, "Find lines in the logs of your jobs, newest jobs first."),
    "events": Entry(_JOBS, "Show the history of a job, or follow it."),
    "explain": Entry(_JOBS, "Say what a job waits for, in numbers; of one that has ended what became of it."),
    "evidence": Entry(_JOBS, "Show what every rank of a silent job was doing: stacks, states, last lines."),
    "metrics": Entry(_JOBS, "Draw the curves that a job wrote for TensorBoard, several attempts over each other."),
    "tensorboard": Entry(_JOBS, "Start TensorBoard on what jobs wrote, and print its address."),
    "top": Entry(_JOBS, "Show what each replica of a job uses: CPU, memory, GPUs."),
    "exec": Entry(_JOBS, "Run a command in the sandbox of a running replica."),
    "rerun": Entry(_JOBS, "Submit a job once more, with changes."),
    "stop": Entry(_JOBS, "End a job."),
    "rules": Entry(_ALL, "Try the rules by which failures are told."),
    "usage": Entry(_ALL, "Show what jobs used and cost, or verify it against their events."),
    "get": Entry(_ALL, "List jobs, pools, instance types, datasets, nodes and so on, or show one."),
    "drain": Entry(_ALL, "Place nothing new on a node; what runs there goes on."),
    "quarantine": Entry(_ALL, "Place nothing on a node that something is wrong with; what runs there goes on."),
    "restore": Entry(
        _ALL, "Use a node again. One that a diagnosis found bad is tested first, and returns when it passes."
    ),
    "diagnose": Entry(_ALL, "Test nodes now, their devices and the ways between them; or show reports on record."),
    "delete": Entry(_ALL, "Delete an ended job, or something else by kind and name."),
    "login": Entry(_HERE, "Log in to a platform and remember the token."),
    "password": Entry(_HERE, "Change your own password."),
    "version": Entry(_HERE, "Print the version of this command."),
}
PLUGINS: Final[dict[str, Entry]] = {
    "up": Entry(_HERE, "Start the whole platform on this machine."),
    "down": Entry(_HERE, "Stop the platform on this machine."),
    "doctor": Entry(_HERE, "Say what this machine can and cannot do, and how to mend it."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return [*COMMANDS, *PLUGINS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(f"trainmaster.cli.{cmd_name}").command
            return command
        return _plugin(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        entries = {**COMMANDS, **PLUGINS}
        for section in dict.fromkeys(entry.section for entry in entries.values()):
            with formatter.section(section):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items() if entry.section == section])


def _plugin(name: str) -> click.Command | None:
    from importlib.metadata import entry_points  # noqa: PLC0415  # takes longer to load than the whole of --help

    for entry_point in entry_points(group=PLUGIN_GROUP, name=name):
        command: click.Command = entry_point.load()
        return command
    return _absent_plugin(name) if name in PLUGINS else None


def _absent_plugin(name: str) -> click.Command:
    def refuse() -> None:
        raise InputError(
            f"`trainmaster {name}` comes with the platform, which is not installed beside this command; "
            "install it (from a clone: pip install -e .), or log in to a platform elsewhere: trainmaster login -e URL"
        )

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(
        name, callback=refuse, help=PLUGINS[name].help, context_settings=anything, add_help_option=False
    )


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def trainmaster() -> None:
    """Submit training jobs to a Trainmaster platform and follow them.

    JOB is a job's name or its id. Most commands take -o json or -o yaml; json is the platform's own document.
    """


def run(arguments: Sequence[str]) -> int:
    """The exit code of the command with these arguments; everything it has to say is printed."""
    try:
        return _run_command(arguments)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return ExitCode.BROKEN_PIPE
    except TrainmasterError as error:
        return _told(error)
    except Exception as error:
        if os.environ.get("TRAINMASTER_DEBUG"):
            raise
        return _told(TrainmasterError(f"{type(error).__name__}: {error} (TRAINMASTER_DEBUG=1 shows where)"))


def _run_command(arguments: Sequence[str]) -> int:
    try:
        with trainmaster.make_context("trainmaster", list(arguments)) as context:
            return int(trainmaster.invoke(context) or ExitCode.OK)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code


def main() -> None:
    """Run the command of this process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name in any script may not break a terminal that lacks it
    if "_TRAINMASTER_COMPLETE" in os.environ:
        trainmaster.main(prog_name="trainmaster")  # the shell asks for completions; click answers and leaves
    sys.exit(run(sys.argv[1:]))


def _told(error: TrainmasterError) -> int:
    from trainmaster.cli.failures import show  # noqa: PLC0415  # loads what only failures need

    show(error)
    return error.exit_code


def _forget_stdout() -> None:
    """Let the interpreter's last flush of a closed pipe go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
