# SPDX-License-Identifier: Apache-2.0
"""A VNF as a process: the same engine program, in a session of its own, that comes and goes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.testbed.control import Control
from headrace.testbed.hosting.layout import RUN, Vnf
from headrace.testbed.state import dpdk_directories

_START_S = 120.0
_QUIT_S = 10.0
_LAST_LINES = 3


class VnfProcess:
    """Started and connected in two steps, so that many can start at once."""

    def __init__(self, binary: Path, vnf: Vnf, run: Path, prefix: str) -> None:
        self.vnf = vnf
        self.folder = run / vnf.name
        self.folder.mkdir(exist_ok=True)
        self._binary, self._run = binary, run
        self._prefix = f"{prefix}-{vnf.name}"
        self._socket = run / f"c{vnf.vf}.sock"  # a path of 107 characters at most (unix(7))
        self._stderr = self.folder / "engine.stderr"
        self._process: subprocess.Popen[bytes] | None = None
        self.control: Control | None = None

    def start(self) -> None:
        self._socket.unlink(missing_ok=True)
        engine = {**self.vnf.plan["engine"], "file_prefix": self._prefix}
        text = json.dumps({**self.vnf.plan, "engine": engine}, indent=1)
        plan = self.folder / "plan.json"
        plan.write_text(text.replace(RUN, str(self._run)))
        command = [str(self._binary), "--plan", str(plan), "--control", str(self._socket)]
        with self._stderr.open("wb") as stderr:
            # A session of its own: autogroup then gives each VNF the same share of a CPU.
            self._process = subprocess.Popen(
                [*command, "--with-parent"],
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, start_new_session=True,
            )  # fmt: skip

    def connect(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_S
        while True:
            if self._process.poll() is not None:
                raise self.died()
            try:
                self.control = Control(self._socket)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise HeadraceError(
                        f"{self.vnf.name}: not ready after {_START_S:g} s"
                    ) from None
                time.sleep(0.02)
        if len(self.vnf.lcores) > 1:
            self._float()

    def _float(self) -> None:
        """The scheduler decides: the engine pins each worker to one CPU, and this undoes it."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task.name), self.vnf.lcores)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def died(self) -> HeadraceError:
        status = None if self._process is None else self._process.returncode
        how = f"exit status {status}"
        if status is not None and status < 0:
            how = f"killed by {signal.Signals(-status).name}"
        lines = self._stderr.read_text(errors="replace").strip().splitlines()
        words = " | ".join(lines[-_LAST_LINES:]) or "nothing on stderr"
        return HeadraceError(f"{self.vnf.name}: its engine died ({how}): {words}")

    def kill(self) -> None:
        """As a crash would: nothing is asked. What DPDK leaves behind is removed."""
        if self.control is not None:
            self.control.close()
            self.control = None
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        self._socket.unlink(missing_ok=True)
        for directory in dpdk_directories(self._prefix):
            shutil.rmtree(directory, ignore_errors=True)

    def ask_to_quit(self) -> None:
        if self.control is not None and self.alive:
            with contextlib.suppress(HeadraceError):
                self.control.send("quit")

    def close(self) -> None:
        """After ask_to_quit, so that many end at once."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_S if self.control is not None else 0)
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_S)
        self.kill()

    def read(self) -> dict[str, Any]:
        """The answer to a `read` that has been sent."""
        assert self.control is not None
        return self.control.receive("read")
