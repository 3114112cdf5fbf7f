# SPDX-License-Identifier: Apache-2.0
"""Runs headrace-trace beside something else and reads what it says."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from pydantic import ValidationError

from headrace.collect.stack.result import StackTrace
from headrace.errors import BadInput, HeadraceError
from headrace.host import programs
from headrace.host.ready import ReadyProgram

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
        command = [str(programs.find_tracer()), *options]
        # A file without a name: the result is longer than a pipe, and read when it has ended.
        self._out = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._program = ReadyProgram("headrace-trace", command, self._out)
        self._process = self._program.process

    def __enter__(self) -> Tracer:
        if not self._program.ready(_READY_SECONDS):
            self._fail()
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
            self._out.seek(0)
            return StackTrace.model_validate_json(self._out.read())
        except ValidationError as error:
            raise HeadraceError(
                f"headrace-trace: its output is not what this version reads: {error.errors()[0]}"
            ) from None

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._program.kill()
        self._out.close()


@contextmanager
def tracing(options: Sequence[str]) -> Iterator[Tracer]:
    with Tracer(options) as tracer:
        yield tracer
