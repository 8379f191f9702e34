"""How a start command is run: by bash where the image has one, else by sh, under a shell that waits for it.

The waiting shell is process 1. The kernel ends everything with it, as on one machine; it collects processes whose
parents are gone; and it hands a TERM on to every process, since process 1 alone would get it and ignore it. After a
TERM it stays until all of them have ended, so that each has the whole grace. The exit code is the command's, or 128 + N
where signal N ended it.

What training code may import of the platform stands behind what the job or the image has in `PYTHONPATH`; only a shell
in the container knows the latter.
"""

from __future__ import annotations

from typing import Final

from services.scheduler.engines.kubernetes.objects.environment import doubled
from shared.environment import ETC_DIR
from shared.replica import PYTHON_DIR

_CHOOSER: Final = """\
shell=sh
command -v bash >/dev/null 2>&1 && shell=bash
exec "$shell" -c "$1" trainmaster "$shell" "$2"
"""
_IMPORTS: Final = f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{ETC_DIR}/{PYTHON_DIR}"\n'
# A shell has what it starts in the background ignore INT, which bash can undo for a shell of its own and sh cannot.
# A wait that a TERM interrupts tells 143, so it is made once more; a shell that has told the end of the command before
# answers that with 127. What the waiting shell itself would say (that a signal ended the command, with a piece of this
# script) is not the command's, and told as the replica's end.
_WAITING: Final = """\
stopping=
finish() { [ -z "$stopping" ] || while kill -0 -1 2>/dev/null; do sleep 1; done; exit "$1"; }
trap 'stopping=1 termed=1; kill -TERM -1 2>/dev/null' TERM
(trap - INT QUIT; exec "$1" -c "$2") </dev/null &
exec 2>/dev/null
main=$! told=
while :; do
  termed=
  wait "$main"
  code=$?
  [ "$code" = 127 ] && [ -n "$told" ] && finish "$told"
  [ -n "$termed" ] || finish "$code"
  told=$code
done
"""
SUPERVISOR: Final = _IMPORTS + _WAITING


def command_line(command: str) -> list[str]:
    """What the container runs."""
    return ["/bin/sh", "-c", *map(doubled, (_CHOOSER, "trainmaster", SUPERVISOR, command))]
