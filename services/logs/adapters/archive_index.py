"""What is in the archive, written down in the directory: a file with the index of each segment (`segment_files`).

So nothing has to be asked of the archive to know which logs there are, where in them what is, and which parts cannot
hold what is looked for; while it is away only the text in it cannot be read. The files are made as segments are
archived. A directory that has never seen the archive that it is given, because it is new or was lost, takes its content
down before anything else, and takes back the event files and samples that were copied there (`mirror`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from services.logs.adapters.disk import make_directories
from services.logs.adapters.layout import Layout, is_loose_folder
from services.logs.adapters.mirror import name_of, take_back
from services.logs.adapters.segment_files import SegmentReader, parse_name, write_placeholder
from shared.logs_wire import is_safe_path

_KNOWN: Final = "archive-known"
_PLACES: Final = 4


def take_down(layout: Layout, reader: SegmentReader, archive_name: str) -> int:
    """Write down what the archive has, where that was not done before; gives how much. Raises UnavailableError."""
    archive, known = layout.archive, layout.root / _KNOWN
    if archive is None or (known.is_file() and known.read_text() == archive_name):
        return 0
    count = 0
    for key, size in archive.names(""):
        places, rest = key.split("/")[:_PLACES], key.split("/")[_PLACES:]
        if not _is_place(places) or not rest:
            continue
        directory, name = Path(layout.root, "store", *places), parse_name(rest[0])
        if len(rest) == 1 and name is not None and name.stop is not None:
            make_directories(directory)
            write_placeholder(directory, name, reader.archived_file(key, size))
            count += 1
        elif is_loose_folder(rest[0]) and is_safe_path(loose := name_of("/".join(rest[1:]))):
            take_back(archive, key, size, directory / rest[0] / loose)
            count += 1
    layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    known.write_text(archive_name)
    return count


def _is_place(places: list[str]) -> bool:
    """Whether these are a job, an attempt, a role and an index; a key is not trusted to be what this service wrote."""
    return (
        len(places) == _PLACES
        and all(place and place not in (".", "..") for place in places)
        and places[1].isdecimal()
        and places[3].isdecimal()
    )
