# SPDX-License-Identifier: Apache-2.0
"""A device under test that is none of headrace's: its commands started, asked, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.host.bounded import Unbounded, run_bounded
from headrace.host.ledger import Ledger
from headrace.host.processes import Process
from headrace.host.tool import printable
from headrace.host.tree import remove_tree
from headrace.spec.testbed import ExternalDut

LOG = "dut.log"  # what it prints, in the run's folder
OWN = "HEADRACE_DUT"  # in its commands' environment: a folder for what they write
_END_S = 10.0
_CONFIGURE_S = 60.0
_READ_S = 10.0
_LOOK_S = 0.02
_LAST = 3  # lines
# Its number is written down before it begins, so that whatever kills the lab, it can be ended.
_NUMBERED = 'echo $$ >"$0"; exec "$@"'


def whole_numbers(text: str) -> dict[str, int] | None:
    """None: it is no JSON object of whole numbers."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or not all(type(n) is int for n in answer.values()):
        return None
    return answer


class Console(Protocol):
    """A device that goes on running is asked by it, instead of by commands."""

    def forwards(self) -> bool:
        """Whether it has begun to."""

    def counters(self) -> dict[str, int]: ...


@dataclass(frozen=True)
class Commands:
    """A device's, and what `read` prints. `place` is where the spec asks for them. `daemon`: the
    device, where it runs already; the ledger ends it."""

    spec: ExternalDut
    place: str = "testbed.dut"
    parse: Callable[[str], dict[str, int] | None] = whole_numbers
    console: Console | None = None
    daemon: Process | None = None


class RunningDevice(Protocol):
    """A device under test that has been started."""

    @property
    def pid(self) -> int | None:
        """The process that forwards; None where nobody knows it, or it is not on this machine."""

    def configure(self) -> None: ...
    def check_alive(self) -> None:
        """HeadraceError where it has ended."""

    def counters(self) -> dict[str, int]:
        """Its own, as its console or `read` says them."""

    def close(self) -> None: ...


class ExternalDevice:
    """It is started when the tester's ports are there."""

    def __init__(self, commands: Commands, run: Path, ledger: Ledger) -> None:
        self._spec = spec = commands.spec
        self._place, self._parse = commands.place, commands.parse
        self._console, self._daemon = commands.console, commands.daemon
        self._log = run / LOG
        self._process: subprocess.Popen[bytes] | None = None
        self._own = run / "dut"
        self._env = {**os.environ, OWN: str(self._own)}
        if not spec.commanded:
            return
        ledger.note("path", str(self._own))
        remove_tree(self._own)
        self._own.mkdir(mode=0o700)
        if spec.start is None:
            return
        pidfile = run / "dut.pid"
        ledger.note("pidfile", str(pidfile))
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    ["sh", "-c", _NUMBERED, str(pidfile), *spec.start],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    env=self._env,
                )  # fmt: skip
            except OSError as error:
                raise HeadraceError(f"{self._place}.start: {error.strerror}") from None

    @property
    def pid(self) -> int | None:
        known = self._process or self._daemon
        return None if known is None else known.pid

    def configure(self) -> None:
        for command in self._spec.configure:
            self._asked("configure", command, _CONFIGURE_S)
        deadline = time.monotonic() + _CONFIGURE_S
        while self._console is not None and not self._console.forwards():
            self.check_alive()
            if time.monotonic() > deadline:
                raise HeadraceError(f"{self._place}: does not forward after {_CONFIGURE_S:g} s")
            time.sleep(_LOOK_S)

    def check_alive(self) -> None:
        if self._daemon is not None and not self._daemon.alive():
            raise HeadraceError(f"{self._place}: ended before the trial did")
        if self._process is None or self._process.poll() is None:
            return
        lines = self._log.read_text(errors="replace").strip().splitlines()[-_LAST:]
        words = printable(" | ".join(lines)) or "it said nothing"
        raise HeadraceError(
            f"{self._place}.start: `{_text(self._spec.start or ())}` ended with status "
            f"{self._process.returncode} before the trial did: {words}"
        )

    def counters(self) -> dict[str, int]:
        if self._console is not None:
            return self._console.counters()
        if self._spec.read is None:
            return {}
        text = self._asked("read", self._spec.read, _READ_S)
        answer = self._parse(text)
        if answer is None:
            raise HeadraceError(
                f"{self._place}.read: `{_text(self._spec.read)}` printed "
                f"{printable(text.strip()[:80]) or 'nothing'}; allowed: a JSON object of "
                "whole numbers"
            )
        return {printable(name): count for name, count in answer.items()}

    def _asked(self, key: str, command: Sequence[str], seconds: float) -> str:
        where = f"{self._place}.{key}: `{_text(command)}`"
        try:
            done = run_bounded(command, seconds, env=self._env)
        except Unbounded as why:
            raise HeadraceError(f"{where} {why}") from None
        except OSError as error:
            raise HeadraceError(f"{where}: {error.strerror}") from None
        if done.returncode:
            words = printable(" | ".join(done.stderr.strip().splitlines()[-_LAST:]))
            raise HeadraceError(f"{where} ended with status {done.returncode}: {words}")
        return done.stdout

    def close(self) -> None:
        """It, what it started, and what its commands left in their folder."""
        if self._process is not None:
            _end(self._process)
        remove_tree(self._own)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            break


def _text(command: Sequence[str]) -> str:
    return printable(" ".join(command))
