"""`make demo`: a real training job through the whole platform, driven by the commands that a user would type.

Starts a platform in a folder of its own, submits digits-ddp, follows both replicas, shows what the platform knows of
the job, and stops the platform. Everything is asked of the `trainmaster` command; its exit codes and the job's own log
decide. Ends with 0 where the job succeeded with the accuracy that it is to reach and no process was left.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trainmaster.documents import Curve, ScalarPoint
from trainmaster.rendering.curves import curves

EXAMPLES = Path(__file__).resolve().parent
JOB = "digits-ddp"
FOLDER_IN_DOCUMENTS = Path("/var/tmp")  # noqa: S108  # what the example's documents name
ACCURACY_MIN = 95.0
EPOCH_LINE = re.compile(r"rank 0: epoch (\d+)/\d+ .*validation loss ([\d.]+)  accuracy ([\d.]+) %")
LEAVING_S = 5.0


class DemoError(Exception):
    """The demo cannot go on, or did not do what it is to do."""


class Command:
    """The `trainmaster` command of this environment, with a login of the demo's own."""

    def __init__(self, credentials: Path) -> None:
        self._program = str(Path(sys.executable).parent / "trainmaster")
        others = {name: value for name, value in os.environ.items() if not name.startswith("TRAINMASTER_")}
        self._environment = others | {"TRAINMASTER_CONFIG": str(credentials)}

    def show(self, *arguments: str) -> None:
        """Run a command with its output on the terminal."""
        print(f"\n$ trainmaster {shlex.join(arguments)}", flush=True)
        done = subprocess.run([self._program, *arguments], env=self._environment, check=False)
        if done.returncode != 0:
            raise DemoError(f"trainmaster {arguments[0]} ended with {done.returncode}")

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command and keep what it says."""
        return subprocess.run(
            [self._program, *arguments], env=self._environment, check=False, capture_output=True, text=True
        )

    def answer(self, *arguments: str) -> str:
        """What a command says that must work."""
        done = self.ask(*arguments)
        if done.returncode != 0:
            raise DemoError(f"trainmaster {shlex.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout


class Demo:
    """One run, in a folder that it clears first: the platform's home and what the job writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = folder / "platform"
        self.data = folder / "data"
        self._command = Command(folder / "credentials.json")

    def run(self) -> None:
        """All of it; raises DemoError."""
        self._clear()
        try:
            self._command.show("up", "--home", str(self._home), "--port", "0", "--nodes", "2", "--detach")
            job_id = self._train()
            self._command.show("down", "--home", str(self._home))
            self._check_nothing_is_left(job_id)
        finally:
            self._command.ask("down", "--home", str(self._home), "--replicas")  # after a failure; else it is down

    def _clear(self) -> None:
        """Stop and remove what an earlier demo left that was interrupted."""
        if self._home.exists():
            self._command.ask("down", "--home", str(self._home), "--replicas")
            shutil.rmtree(self._folder)
        self.data.mkdir(parents=True)

    def _train(self) -> str:
        """One job from start to end, and what the platform tells of it; gives the job's id."""
        mounted = self._submit()
        self._command.show("logs", JOB, "--follow")
        job_id = self._succeeded_job()
        self._command.show("events", JOB)
        self._command.show("describe", JOB)
        self._show_bill()
        loss, accuracy = self._curves_of_log()
        if mounted:
            self._command.show("metrics", JOB, "--tag", accuracy.tag, "--tag", loss.tag)
        else:
            print("\nfrom the log of worker-0:", *curves((accuracy, loss)), sep="\n\n")
        reached = accuracy.points[-1].value
        if reached < ACCURACY_MIN:
            raise DemoError(f"{reached:.2f} % of the held-out digits are read right; {ACCURACY_MIN} % are to be")
        print(f"\n{JOB} succeeded: {reached:.2f} % of the held-out digits are read right")
        return job_id

    def _show_bill(self) -> None:
        """The bill, once the last record is in it: it comes a moment after the end."""
        deadline = time.monotonic() + LEAVING_S
        while json.loads(self._command.answer("usage", JOB, "-o", "json"))["accrued"]["replicaMs"]:
            if time.monotonic() > deadline:
                raise DemoError(f"the bill is not complete {LEAVING_S:g} s after the end of the job")
            time.sleep(0.1)
        self._command.show("usage", JOB)

    def _submit(self) -> bool:
        """Submit the job; gives whether it has mounts, which need bubblewrap."""
        path = self._laid_out("job.yaml")
        print(f"\n$ trainmaster apply -f {path}", flush=True)
        done = self._command.ask("apply", "-f", str(path))
        print(done.stdout + done.stderr, end="", flush=True)
        if done.returncode == 0:
            return True
        if "mounts-unavailable" not in done.stderr:
            raise DemoError("the job was refused")
        print("\nWithout mounts the demo goes on with real folders, MASTER_ADDR=127.0.0.1, and no TensorBoard records.")
        self._command.show("apply", "-f", str(self._laid_out("job.nosandbox.yaml")))
        return False

    def _laid_out(self, name: str) -> Path:
        """The example's document with a folder of this demo in place of the one that it names, as a file."""
        text = (EXAMPLES / JOB / name).read_text()
        text = text.replace(FOLDER_IN_DOCUMENTS.as_uri(), self.data.as_uri())
        text = text.replace(str(FOLDER_IN_DOCUMENTS), shlex.quote(str(self.data)))
        target = self._folder / name
        target.write_text(text.replace("upload: .", f"upload: {json.dumps(str(EXAMPLES / JOB))}"))
        return target

    def _succeeded_job(self) -> str:
        """The job's id."""
        job = json.loads(self._command.answer("get", "job", JOB, "-o", "json"))
        status = job["status"]
        if status["state"] != "Succeeded":
            raise DemoError(f"the job ended {status['state']}: {status.get('message') or status.get('reason')}")
        return str(job["metadata"]["id"])

    def _curves_of_log(self) -> tuple[Curve, Curve]:
        """Validation loss and accuracy as rank 0 told them in its log."""
        log = self._command.answer("logs", JOB, "--role", "worker", "--index", "0")
        epochs = [(int(step), float(loss), float(accuracy)) for step, loss, accuracy in EPOCH_LINE.findall(log)]
        if not epochs:
            raise DemoError("the log of worker-0 tells of no epoch")
        losses = tuple(ScalarPoint(step, loss) for step, loss, _ in epochs)
        accuracies = tuple(ScalarPoint(step, accuracy) for step, _, accuracy in epochs)
        return Curve("Loss/validation", losses, {}), Curve("Accuracy/validation", accuracies, {})

    def _check_nothing_is_left(self, job_id: str) -> None:
        deadline = time.monotonic() + LEAVING_S
        while left := list(self._processes(job_id)):
            if time.monotonic() > deadline:
                raise DemoError("processes are left:\n" + "\n".join(left))
            time.sleep(0.1)
        print("no process is left")

    def _processes(self, job_id: str) -> Iterator[str]:
        """Processes of this demo: the platform, its children, and replicas with all that they started."""
        home = str(self._home).encode()
        marks = (f"TRAINMASTER_HOME={self._home}\0".encode(), f"TM_JOB_ID={job_id}\0".encode())
        for process in Path("/proc").glob("[0-9]*"):
            try:
                arguments, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            except OSError:  # it has ended, or is somebody else's
                continue
            if home in arguments or any(mark in environment for mark in marks):
                yield f"{process.name} {arguments.replace(bytes(1), b' ').decode(errors='replace')}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=EXAMPLES.parent / ".demo", help="is cleared first")
    demo = Demo(parser.parse_args().folder.absolute())
    try:
        demo.run()
    except (DemoError, KeyboardInterrupt) as error:
        print(f"\nthe demo failed: {str(error) or 'interrupted'}", file=sys.stderr)
        return 1
    print(f"checkpoint and TensorBoard records: {demo.data}")
    print(f"your own platform: make up; the job: examples/{JOB}/job.yaml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
