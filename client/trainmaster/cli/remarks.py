"""What is odd about a job that was taken, and no error: told after its submission, at its place in the file."""

from __future__ import annotations

from trainmaster.cli.screen import Screen
from trainmaster.client import Client
from trainmaster.decoding import Fields
from trainmaster.errors import TrainmasterError
from trainmaster.manifests.reader import Manifest


def warn_of_unknown_nodes(client: Client, manifest: Manifest, screen: Screen) -> None:
    """Names in `excludeNodes` that are of no node: most likely misspelt, but nodes come and go."""
    wanted = Fields.of(manifest.document).fields("spec").texts("excludeNodes")
    if not wanted:
        return
    try:
        nodes = [Fields.of(node).fields("metadata") for node in client.list("node")]
    except TrainmasterError:
        return  # the job has been taken, and a remark is worth no error
    known = {node.text(key) for node in nodes for key in ("name", "id")}
    for index, name in enumerate(wanted):
        if name not in known:
            at = manifest.place(f"/spec/excludeNodes/{index}").value
            place = f"{manifest.source.name}:{at.line}:{at.column}"
            screen.say(f"{place}: warning: no node of the pools that you may use is called {name}", "yellow")
