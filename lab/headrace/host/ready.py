# SPDX-License-Identifier: Apache-2.0
"""A program of ours that runs beside something else says when it has begun."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Sequence
from typing import IO

from headrace.errors import HeadraceError


class ReadyProgram:
    """A program with `--ready-file`, which here is a pipe: a file would stay behind a lab that is
    killed. It is in a process group of its own: Ctrl-C reaches the lab alone, which then asks for
    the result."""

    def __init__(self, called: str, command: Sequence[str], stdout: int | IO[str]) -> None:
        """`called`: what it is named in errors, as it may be run by another program."""
        self._called = called
        reading, writing = os.pipe()
        self._told = os.fdopen(reading, "rb", buffering=0)
        with os.fdopen(writing, "wb", buffering=0):
            self.process = subprocess.Popen(
                [*command, "--with-parent", "--ready-file", f"/dev/fd/{writing}"],
                stdout=stdout, stderr=subprocess.PIPE, errors="replace", process_group=0,
                pass_fds=(writing,),
            )  # fmt: skip

    def ready(self, seconds: float) -> bool:
        """Waits until it has begun; False: it has ended instead."""
        waiting = select.poll()
        waiting.register(self._told, select.POLLIN)
        with self._told:
            if not waiting.poll(seconds * 1000):
                self.kill()
                raise HeadraceError(f"{self._called}: not ready after {seconds:g} s")
            return self._told.read(1) == b"\n"

    def kill(self) -> None:
        """It ends with nothing more to say, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
