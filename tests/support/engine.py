# SPDX-License-Identifier: Apache-2.0
"""Runs the real engine on a plan and talks to its control socket, with nothing in between."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headrace.engine.counts import EngineCounts

_serial = count()
# Times as long as usual that anything may take: an engine with a sanitizer in it is slow.
PATIENCE = float(os.environ.get("HEADRACE_PATIENCE", "1"))


def free_cpus() -> list[int]:
    """The CPUs this process may use."""
    return sorted(os.sched_getaffinity(0))


def memory_engine(**changes: Any) -> dict[str, Any]:
    """The plan's `engine` part for ordinary memory: any user, no hugepages, little of it."""
    return {
        "hugepages": False,
        "memory_mb": 512,
        "file_prefix": f"hrt-{os.getpid()}-{next(_serial)}",
        "mbufs": 16384,
    } | changes


class EngineError(Exception):
    """The engine's answer to a request that it refused."""


class Engine:
    """A running engine; leaving the context ends it and checks that it ended well."""

    def __init__(
        self,
        binary: Path,
        plan: dict[str, Any],
        folder: Path,
        netns: str | None = None,
        patience: float = 1,
    ) -> None:
        """`patience`: times as long as usual it may take to start and to end."""
        self.patience = patience
        self.number = next(_serial)
        self.plan_file = folder / f"plan-{self.number}.json"
        self.socket_path = folder / f"control-{self.number}.sock"
        self.log_file = folder / f"engine-{self.number}.log"
        self.plan_file.write_text(json.dumps(plan, indent=1))
        if prefix := plan.get("engine", {}).get("file_prefix"):  # one that is killed leaves it
            atexit.register(shutil.rmtree, Path("/run/dpdk") / prefix, ignore_errors=True)
        enter = ["ip", "netns", "exec", netns] if netns else []
        self.command = [
            *enter,
            str(binary),
            "--with-parent",
            "--plan",
            str(self.plan_file),
            "--control",
            str(self.socket_path),
        ]

    def __enter__(self) -> Self:
        with self.log_file.open("w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.wait_for(self._connect, "the control socket", 30 * self.patience, pause=0.02)
        self.lines = self.socket.makefile("rw", encoding="utf-8")
        self.call("info")
        return self

    def _connect(self) -> bool:
        if self.process.poll() is not None:
            raise EngineError(f"ended with {self.process.returncode}: {self.log_file.read_text()}")
        try:
            self.socket.connect(str(self.socket_path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(timeout=10 * self.patience * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.socket.close()
        if kind is None:
            assert status == 0, f"engine ended with {status}: {self.log_file.read_text()}"

    def call(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        try:
            self.lines.write(json.dumps({"cmd": cmd, **arguments}) + "\n")
            self.lines.flush()
            line = self.lines.readline()
        except OSError:
            line = ""
        if not line:
            status = self.process.wait(timeout=10)
            raise EngineError(f"{cmd}: engine ended with {status}: {self.log_file.read_text()}")
        reply: dict[str, Any] = json.loads(line)
        if not reply["ok"]:
            raise EngineError(f"{reply['error']['path']}: {reply['error']['msg']}")
        return reply

    def read(self) -> dict[str, Any]:
        """All counters. The lab's form of them has room for each of these, and no other."""
        reply = self.call("read")
        counts = EngineCounts.model_validate(reply)
        assert counts.model_dump(mode="json", by_alias=True, exclude_unset=True) == reply
        return reply

    @staticmethod
    def wait_for(
        done: Callable[[], bool], what: str, seconds: float = 10, pause: float = 0.1
    ) -> None:
        end = time.monotonic() + seconds * PATIENCE
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not there after {seconds * PATIENCE:g} s")
            time.sleep(pause)

    def settle(self, arrived: int, seconds: float = 120) -> dict[str, Any]:
        """Wait until so many packets have come in and every ring is empty again; the last reading.

        By the counters, not by a pause: on a loaded machine a worker may stand still for long.
        """
        readings: list[dict[str, Any]] = []

        def quiet() -> bool:
            readings.append(self.read())
            now = readings[-1]
            rings = (link.get("used", 0) for link in now["links"].values())
            came = max(sum(r["in"] for r in replicas) for replicas in now["segments"].values())
            still = all(packets(now) == packets(before) for before in readings[-4:])
            return came >= arrived and not any(rings) and still and len(readings) > 4

        self.wait_for(quiet, f"{arrived} packets, then standstill", seconds)
        return readings[-1]


def packets(reading: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        (replica["in"], replica["out"])
        for replicas in reading["segments"].values()
        for replica in replicas
    ]


def nf_imbalance(reading: dict[str, Any]) -> dict[str, int]:
    """Packets that each NF cannot account for; conservation holds when all are 0.

    in + created = out + dropped + aborted + consumed + change in held
    """
    balance: dict[str, int] = {}
    for replicas in reading["segments"].values():
        for replica in replicas:
            for name, nf in replica["nfs"].items():
                came = nf["in"] + nf["created"]
                went = (
                    sum(nf["out"].values())
                    + sum(nf["dropped"].values())
                    + nf["aborted"]
                    + nf["consumed"]
                    + nf["held"]
                )
                balance[name] = balance.get(name, 0) + came - went
    return balance
