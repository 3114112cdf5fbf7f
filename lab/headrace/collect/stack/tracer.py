# SPDX-License-Identifier: Apache-2.0
"""Runs headrace-trace beside something else and reads what it says."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from headrace.collect.stack.result import StackTrace
from headrace.errors import BadInput, HeadraceError
from headrace.host import programs

_READY_SECONDS = 60  # verifying the programs takes one or two
_STOP_SECONDS = 60


def why_not() -> str | None:
    """Why packets cannot be traced here; None when they can."""
    try:
        binary = programs.find_tracer()
    except HeadraceError as error:
        return str(error)
    done = subprocess.run([binary, "--check"], capture_output=True, errors="replace", check=False)
    if done.returncode:
        return done.stderr.strip()
    answer = json.loads(done.stdout)["tp_btf"]
    return None if answer["available"] else str(answer["why"])


class Tracer:
    """A tracer that runs from entering the context until `stop`."""

    def __init__(self, options: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-trace-")
        self._ready = Path(self._folder.name) / "ready"
        self._out = Path(self._folder.name) / "out.json"
        ours = ["--with-parent", "--ready-file", str(self._ready)]
        command = [str(programs.find_tracer()), *ours, *options]
        with self._out.open("w") as out:
            # Its own process group: Ctrl-C reaches the lab alone, which then asks for the result.
            self._process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.PIPE, errors="replace", process_group=0
            )

    def __enter__(self) -> Tracer:
        end = time.monotonic() + _READY_SECONDS
        while not self._ready.exists():
            if self._process.poll() is not None:
                self._fail()
            if time.monotonic() > end:
                self.__exit__(None, None, None)
                raise HeadraceError(f"headrace-trace: not ready after {_READY_SECONDS} s")
            time.sleep(0.02)
        return self

    def _fail(self) -> None:
        _, errors = self._process.communicate()
        text = errors.strip() or f"ended with status {self._process.returncode}"
        kind = BadInput if self._process.returncode == BadInput.exit_status else HeadraceError
        raise kind(text)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> StackTrace:
        if self.running:
            self._process.send_signal(signal.SIGINT)
        _, errors = self._process.communicate(timeout=_STOP_SECONDS)
        if self._process.returncode:
            raise HeadraceError(errors.strip() or "headrace-trace: ended without a result")
        try:
            return StackTrace.model_validate_json(self._out.read_text())
        except ValidationError as error:
            raise HeadraceError(
                f"headrace-trace: its output is not what this version reads: {error.errors()[0]}"
            ) from None

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self.running:
            self._process.kill()
            self._process.communicate()
        self._folder.cleanup()


@contextmanager
def tracing(options: Sequence[str]) -> Iterator[Tracer]:
    with Tracer(options) as tracer:
        yield tracer
