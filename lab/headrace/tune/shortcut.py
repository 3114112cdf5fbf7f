# SPDX-License-Identifier: Apache-2.0
"""headrace-shortcut (trace/) while a run lasts: packets between stations bypass the bridge."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from headrace.errors import HeadraceError
from headrace.host.settings import inside
from headrace.tune.advice import Way
from headrace.tune.path import ServerPath
from headrace.tune.program import find_shortcut

_READY_S, _STOP_S = 20.0, 10.0


class Shortcut:
    """A context; the kernel detaches what the program attached however this ends."""

    def __init__(self, path: ServerPath, way: Way) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-shortcut-")
        self._ready = Path(self._folder.name) / "ready"
        ports = [f"{s.port}={s.mac}" for s in path.stations]
        ours = ["--with-parent", "--ready-file", str(self._ready)]
        command = [str(find_shortcut()), "--way", way, *ours, *ports]
        self._process = subprocess.Popen(
            inside(path.namespace, command),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace", process_group=0,
        )  # fmt: skip
        self.redirected = self.dropped = 0

    def __enter__(self) -> Shortcut:
        end = time.monotonic() + _READY_S
        while not self._ready.exists():
            if self._process.poll() is not None:
                _, errors = self._process.communicate()
                self._folder.cleanup()
                raise HeadraceError(errors.strip() or "headrace-shortcut: ended at once")
            if time.monotonic() > end:
                self._stop()
                raise HeadraceError(f"headrace-shortcut: not ready after {_READY_S:.0f} s")
            time.sleep(0.01)
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
        self._folder.cleanup()
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
