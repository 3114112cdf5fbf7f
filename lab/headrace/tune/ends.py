# SPDX-License-Identifier: Apache-2.0
"""Sender and receiver of a run (tune/bulk.py), each a process in its station's namespace."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.host.settings import inside
from headrace.tune import bulk
from headrace.tune.path import ServerPath
from headrace.tune.wish import Protocol

_GRACE_S = 30.0


class LoadEnds:
    """Sending has begun once this is made. Sender on the first core, receiver on the last: the
    softirqs come where the sender is. `close` ends what still runs."""

    def __init__(
        self,
        path: ServerPath,
        protocol: Protocol,
        seconds: float,
        size: int,
        segment: int,
        ready: Path,
        cpus: Sequence[int],
    ) -> None:
        self._ready, self._seconds = ready, seconds
        self._processes: list[subprocess.Popen[str]] = []
        ready.unlink(missing_ok=True)
        common = ["--protocol", protocol, "--host", path.receiver.address, "--bytes", str(size),
                  "--segment", str(segment)]  # fmt: skip
        try:
            self._receiver = self._started(
                path.receiver.namespace, "receive", *common, "--ready", str(ready),
                "--cpu", str(cpus[-1]),
            )  # fmt: skip
            self._wait_until_ready()
            self._sender = self._started(
                path.sender.namespace, "send", *common, "--seconds", str(seconds),
                "--cpu", str(cpus[0]),
            )  # fmt: skip
        except BaseException:
            self.close()
            raise

    def result(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the sender says of itself, and the receiver, when both have ended."""
        sender = _result(self._sender, "sender", self._seconds)
        # A receiver whom nothing has reached would go on waiting for the sender's start.
        self._ready.unlink(missing_ok=True)
        return sender, _result(self._receiver, "receiver", self._seconds)

    def close(self) -> None:
        for process in self._processes:
            _kill(process)

    def _started(self, namespace: str, *arguments: str) -> subprocess.Popen[str]:
        command = inside(namespace, [sys.executable, "-m", bulk.__name__, *arguments])
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace"
        )
        self._processes.append(process)
        return process

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _GRACE_S
        while not self._ready.exists():
            if self._receiver.poll() is not None or time.monotonic() > deadline:
                _kill(self._receiver)
                words = self._receiver.stderr.read() if self._receiver.stderr else ""
                raise HeadraceError(f"the receiver did not start: {_last_line(words)}")
            time.sleep(0.005)


def _result(process: subprocess.Popen[str], role: str, seconds: float) -> dict[str, Any]:
    try:
        out, errors = process.communicate(timeout=seconds + _GRACE_S)
    except subprocess.TimeoutExpired:
        raise HeadraceError(f"the {role} did not end") from None
    if process.returncode:
        raise HeadraceError(f"the {role} failed: {_last_line(errors)}")
    result: dict[str, Any] = json.loads(out)
    return result


def _last_line(text: str) -> str:
    return (text.strip() or "no word").splitlines()[-1]


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
