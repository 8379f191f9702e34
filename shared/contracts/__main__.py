"""`python -m shared.contracts DIR`: write the documents, refusing a change that would break readers.

`--check` writes nothing and fails where the files differ from what the code says.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from shared.contracts.compatibility import breaking_changes
from shared.contracts.documents import Document, async_api, event_schema, file_name
from shared.events import PAYLOADS

API_VERSION = "1.0.0"


def generated() -> dict[Path, Document]:
    """Every document by its path below the target directory."""
    schemas = {Path("events") / file_name(payload): event_schema(payload) for payload in PAYLOADS}
    return {**schemas, Path("asyncapi.json"): async_api(API_VERSION)}


def broken(directory: Path) -> list[str]:
    """What the code's schemas break of the files in the directory; a file without a payload class counts too."""
    new = generated()
    found = []
    for file in sorted((directory / "events").glob("*.json")):
        name = Path("events") / file.name
        if name not in new:
            found.append(f"{file.name}: the event type was removed")
            continue
        found += [f"{file.name} {change}" for change in breaking_changes(json.loads(file.read_text()), new[name])]
    return found


def stale(directory: Path) -> list[str]:
    """Files that differ from what the code says."""
    return [str(path) for path, document in generated().items() if _text(document) != _read(directory / path)]


def main(arguments: list[str] | None = None) -> int:
    """Write or check the documents; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    problems = broken(options.directory) or (stale(options.directory) if options.check else [])
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if problems:
        return 1
    if not options.check:
        _write(options.directory)
    return 0


def _write(directory: Path) -> None:
    for path, document in generated().items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_text(document))


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _text(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
