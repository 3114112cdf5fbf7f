# SPDX-License-Identifier: Apache-2.0
"""Real traffic while the tracer runs, and how to read what the tracer says of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PEER = Path(__file__).with_name("peer.py")


class Traced:
    """Traffic while the tracer runs, and what both said."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.processes: list[subprocess.Popen[str]] = []
        self.count = 0

    def ready_file(self) -> Path:
        self.count += 1
        return self.folder / f"ready{self.count}"

    def begin(self, *options: str) -> subprocess.Popen[str]:
        ready = self.ready_file()
        p = subprocess.Popen(
            [self.binary, "--ready-file", ready, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(p)
        wait_for(ready, p)
        return p

    def end(self, p: subprocess.Popen[str]) -> dict[str, Any]:
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
        result: dict[str, Any] = json.loads(out)
        return result

    def peer(self, namespace: str, *arguments: str) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", namespace, sys.executable, str(PEER), *arguments]
        listens = arguments[0] in ("receive", "accept", "answer")
        ready = self.ready_file()
        if listens:
            command += ["--ready", str(ready)]
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(p)
        if listens:
            wait_for(ready, p)
        return p

    def said(self, p: subprocess.Popen[str]) -> dict[str, float]:
        out, err = p.communicate(timeout=120)
        assert p.returncode == 0, err
        result: dict[str, float] = json.loads(out)
        return result

    def exchange(
        self, receiver: tuple[str, str], sender: str, receive: list[str], send: list[str]
    ) -> dict[str, float]:
        """UDP from namespace `sender` to (namespace, address): what both counted and timed."""
        namespace, address = receiver
        count = send[send.index("--count") :][:2]
        rx = self.peer(namespace, "receive", "--host", address, *count, *receive)
        tx = self.peer(sender, "send", "--host", address, *send)
        return {**self.said(tx), **self.said(rx)}

    def talk(
        self, receiver: tuple[str, str], sender: str, count: int, delay_ms: float
    ) -> dict[str, float]:
        """TCP messages one at a time, each read `delay_ms` after it came."""
        namespace, address = receiver
        rx = self.peer(namespace, "answer", "--host", address, "--delay-ms", str(delay_ms))
        tx = self.peer(sender, "ask", "--host", address, "--count", str(count))
        return {**self.said(tx), **self.said(rx)}

    def tcp(self, receiver: tuple[str, str], sender: str, *send: str) -> dict[str, float]:
        namespace, address = receiver
        rx = self.peer(namespace, "accept", "--host", address)
        tx = self.peer(sender, "stream", "--host", address, "--bytes", "262144", *send)
        return {**self.said(tx), **self.said(rx)}


def wait_for(path: Path, p: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert p.poll() is None, p.stderr.read() if p.stderr else ""
        assert time.monotonic() < end, f"{p.args}: not ready in 30 s"
        time.sleep(0.02)


def stage(result: dict[str, Any], begin: str, end: str, device: str = "") -> dict[str, Any]:
    """The one histogram of a stage pair, on a device if given."""
    matching = [
        h
        for h in result["stages"]
        if h["from"] == begin and h["to"] == end and device in ("", h["device"])
    ]
    assert len(matching) == 1, [(h["from"], h["to"], h["device"]) for h in result["stages"]]
    return matching[0]


def end_to_end(result: dict[str, Any], begin: str, end: str, device: str) -> dict[str, Any]:
    matching = [
        h for h in result["end_to_end"] if (h["from"], h["to"], h["device"]) == (begin, end, device)
    ]
    assert len(matching) == 1, result["end_to_end"]
    return matching[0]


def ends(result: dict[str, Any]) -> int:
    """Where followed packets ended, wherever that was: each exactly once."""
    way = result["whole_way"]
    return sum(way["seen"].values()) + sum(way["left_out"].values())


def begun(result: dict[str, Any]) -> int:
    return int(result["whole_way"]["begun"])
