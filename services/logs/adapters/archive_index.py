"""What is in the archive, written down in the directory: a file with the index of each segment (`segment_files`).

So nothing has to be asked of the archive to know which logs there are, where in them what is, and which parts cannot
hold what is looked for; while it is away only the text in it cannot be read. The files are made as segments are
archived. A directory that has never seen the archive that it is given, because it is new or was lost, takes its content
down before anything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from services.logs.adapters.disk import make_directories
from services.logs.adapters.layout import Layout
from services.logs.adapters.segment_files import SegmentReader, parse_name, write_placeholder

_KNOWN: Final = "archive-known"


def take_down(layout: Layout, reader: SegmentReader, archive_name: str) -> int:
    """Write down what the archive has, where that was not done before; gives how much. Raises UnavailableError."""
    archive, known = layout.archive, layout.root / _KNOWN
    if archive is None or (known.is_file() and known.read_text() == archive_name):
        return 0
    count = 0
    for key, size in archive.names(""):
        *places, text = key.split("/")
        name = parse_name(text)
        if name is not None and name.stop is not None and _is_place(places):
            directory = Path(layout.root, "store", *places)
            make_directories(directory)
            write_placeholder(directory, name, reader.archived_file(key, size))
            count += 1
    layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    known.write_text(archive_name)
    return count


def _is_place(places: list[str]) -> bool:
    """Whether these are a job, an attempt, a role and an index; a key is not trusted to be what this service wrote."""
    return (
        len(places) == 4
        and all(place and place not in (".", "..") for place in places)
        and places[1].isdecimal()
        and places[3].isdecimal()
    )
