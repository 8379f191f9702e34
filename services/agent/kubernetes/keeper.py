"""Keeps a home for every replica whose pod is on this node, and works on all of them in turn.

News of pods come from the loop and are taken in at the next pass, which runs in a thread. What an earlier life of the
agent had laid is taken up at the start; which of those pods are gone is known with the first list.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from pathlib import Path
from typing import Final

from services.agent.kubernetes.pods import Pod
from services.agent.kubernetes.replica_home import Node, ReplicaHome, read_pod
from shared.kubernetes.watch import Changed, Gone, Listed, Told, Unreachable

News = Told[Pod | None]

FAILED_PAUSE_S: Final = 1.0
_log = logging.getLogger(__name__)


class PodKeeper:
    """All homes, by directory."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._news: deque[News] = deque()
        self._homes: dict[Path, ReplicaHome] | None = None
        self._paused: dict[Path, float] = {}
        self._complaints: dict[Path, str] = {}
        self._turn = threading.Lock()
        """A pass may be under way in its thread when the loop has given it up already."""
        self._is_closed = False
        self.is_current = False
        """Whether every pod of the node is known."""

    def tell(self, news: News) -> None:
        """Something is known of pods; taken in at the next pass."""
        self._news.append(news)

    def make_pass(self, now: float, *, look: bool) -> bool:
        """Take in the news and copy a piece of every log; whether there was any. `look`: for new files, too."""
        with self._turn:
            return not self._is_closed and self._pass(now, look=look)

    def _pass(self, now: float, *, look: bool) -> bool:
        homes = self._adopted(now)
        while self._news:
            self._take(homes, self._news.popleft(), now)
        moved = [self._step(home, now, look=look) for home in list(homes.values())]
        for path in [path for path, home in homes.items() if home.is_over]:
            homes.pop(path).remove()
        return any(moved)

    def watched(self) -> set[Path]:
        """Directories in which a change matters."""
        running = [home for home in (self._homes or {}).values() if not home.is_complete]
        return {self._node.pod_logs, *(home.log_directory for home in running)}

    def close(self) -> None:
        """Let go of all files."""
        with self._turn:
            self._is_closed = True
            for home in (self._homes or {}).values():
                home.close()

    def _adopted(self, now: float) -> dict[Path, ReplicaHome]:
        """The homes, with those of an earlier life at first."""
        if self._homes is None:
            directories = self._node.gangs.glob("*/replicas/*")
            pods = [pod for directory in directories if (pod := read_pod(directory)) is not None]
            self._homes = {self._node.directory(pod): ReplicaHome(self._node, pod, now) for pod in pods}
        return self._homes

    def _take(self, homes: dict[Path, ReplicaHome], news: News, now: float) -> None:
        match news:
            case Listed(objects):
                pods = [pod for pod in objects if pod is not None]
                for pod in pods:
                    self._take_pod(homes, pod, now)
                present = {pod.uid for pod in pods}
                for home in (home for home in homes.values() if home.pod.uid not in present):
                    home.gone(now)
                self.is_current = True
            case Changed(Pod() as pod):
                self._take_pod(homes, pod, now)
            case Gone(Pod() as pod):
                home = self._take_pod(homes, pod, now)
                if home.pod.uid == pod.uid:
                    home.gone(now)
            case Unreachable(reason):
                _log.warning("pods are not watched now: %s", reason)
            case _:
                _log.info("pods are watched again")

    def _take_pod(self, homes: dict[Path, ReplicaHome], pod: Pod, now: float) -> ReplicaHome:
        path = self._node.directory(pod)
        home = homes.get(path)
        if home is None:
            home = homes[path] = ReplicaHome(self._node, pod, now)
            _log.info("pod %s/%s is here", pod.namespace, pod.name)
        elif home.pod.uid != pod.uid:
            self._complain(path, f"pod {pod.name} came again as {pod.uid}; the log of {home.pod.uid} is kept")
        home.take(pod, now)
        return home

    def _step(self, home: ReplicaHome, now: float, *, look: bool) -> bool:
        """A home whose files fail rests a moment, and the others go on."""
        if now < self._paused.get(home.path, now):
            return False
        try:
            return home.step(now, look=look)
        except OSError as error:
            self._paused[home.path] = now + FAILED_PAUSE_S
            self._complain(home.path, f"the log cannot be copied: {error}")
            return False

    def _complain(self, path: Path, message: str) -> None:
        """Once for each kind of trouble."""
        if self._complaints.get(path) != message:
            self._complaints[path] = message
            _log.error("%s: %s", path, message)
