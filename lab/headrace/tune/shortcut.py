# SPDX-License-Identifier: Apache-2.0
"""headrace-shortcut (trace/) while a run lasts: packets between stations bypass the bridge."""

from __future__ import annotations

import json
import signal
import subprocess
from types import TracebackType

from headrace.errors import HeadraceError
from headrace.host.ready import ReadyProgram
from headrace.host.settings import inside
from headrace.tune.advice import Way
from headrace.tune.path import ServerPath
from headrace.tune.program import find_shortcut

_READY_S, _STOP_S = 20.0, 10.0


class Shortcut:
    """A context; the kernel detaches what the program attached however this ends."""

    def __init__(self, path: ServerPath, way: Way) -> None:
        ports = [f"{s.port}={s.mac}" for s in path.stations]
        command = inside(path.namespace, [str(find_shortcut()), "--way", way, *ports])
        self._program = ReadyProgram("headrace-shortcut", command, subprocess.PIPE)
        self._process = self._program.process
        self.redirected = self.dropped = 0

    def __enter__(self) -> Shortcut:
        if not self._program.ready(_READY_S):
            _, errors = self._process.communicate()
            raise HeadraceError(errors.strip() or "headrace-shortcut: ended at once")
        return self

    def _stop(self) -> str:
        """nsenter and its shell have become the program itself: there is one process to end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            out, _ = self._process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, _ = self._process.communicate()
        return out

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        out = self._stop()
        if kind is None:
            try:
                result = json.loads(out)
                self.redirected, self.dropped = int(result["redirected"]), int(result["dropped"])
            except (ValueError, KeyError):
                raise HeadraceError("headrace-shortcut: ended without a result") from None
