# SPDX-License-Identifier: Apache-2.0
"""The tracer under test: built once if need be, and run around real traffic."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.netns import Lan

REPO = Path(__file__).resolve().parents[2]
PEER = Path(__file__).with_name("peer.py")


@pytest.fixture(scope="session")
def tracer_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HEADRACE_TRACE, the repository's build, or one made here."""
    named = os.environ.get("HEADRACE_TRACE")
    path = Path(named) if named else REPO / "build/trace/headrace-trace"
    if path.is_file():
        return path
    for tool in ("meson", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"{path} is missing, and {tool} to build it is not installed")
    build = tmp_path_factory.mktemp("trace")
    for command in (
        ["meson", "setup", str(build), str(REPO / "trace")],
        ["ninja", "-C", str(build)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode and command[0] == "meson":
            pytest.skip(f"the tracer cannot be configured here: {done.stdout.splitlines()[-3:]}")
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "headrace-trace"


@pytest.fixture(scope="session")
def tracer(tracer_binary: Path) -> Path:
    """A tracer that this kernel and this user let run."""
    done = subprocess.run([tracer_binary, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["tp_btf"]
    if not found["available"]:
        pytest.skip(f"BPF is not permitted here: {found['why']}")
    return tracer_binary


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
        rx = self.peer(namespace, "receive", "--host", address, *receive)
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


@pytest.fixture
def traced(tracer: Path, tmp_path: Path) -> Any:
    made = Traced(tracer, tmp_path)
    yield made
    for p in made.processes:
        if p.poll() is None:
            p.kill()
            p.wait()


@pytest.fixture
def pair(lan: Lan) -> tuple[str, str]:
    """Two namespaces joined by a veth pair: 10.77.0.1 and 10.77.0.2."""
    a, b = lan.namespace("a"), lan.namespace("b")
    lan.veth((a, "va"), (b, "vb"))
    lan.address(a, "va", "10.77.0.1/24")
    lan.address(b, "vb", "10.77.0.2/24")
    lan.inside(a, "ping", "-c", "1", "10.77.0.2")  # what waits for ARP is sent from elsewhere
    return a, b


@pytest.fixture
def routed(lan: Lan) -> tuple[str, str, str]:
    """Sender 10.78.1.1, router, receiver 10.78.2.1."""
    a, r, c = lan.namespace("a"), lan.namespace("r"), lan.namespace("c")
    lan.veth((a, "va"), (r, "ra"))
    lan.veth((r, "rc"), (c, "vc"))
    for namespace, interface, address in (
        (a, "va", "10.78.1.1/24"),
        (r, "ra", "10.78.1.254/24"),
        (r, "rc", "10.78.2.254/24"),
        (c, "vc", "10.78.2.1/24"),
    ):
        lan.address(namespace, interface, address)
    lan.inside(a, "ip", "route", "add", "default", "via", "10.78.1.254")
    lan.inside(c, "ip", "route", "add", "default", "via", "10.78.2.254")
    lan.sysctl(r, "net.ipv4.ip_forward", "1")
    lan.inside(a, "ping", "-c", "1", "10.78.2.1")
    return a, r, c


def stage(result: dict[str, Any], begin: str, end: str, device: str = "") -> dict[str, Any]:
    """The one histogram of a stage pair, on a device if given."""
    found = [
        h
        for h in result["stages"]
        if h["from"] == begin and h["to"] == end and device in ("", h["device"])
    ]
    assert len(found) == 1, [(h["from"], h["to"], h["device"]) for h in result["stages"]]
    return found[0]


def end_to_end(result: dict[str, Any], begin: str, end: str, device: str) -> dict[str, Any]:
    found = [
        h for h in result["end_to_end"] if (h["from"], h["to"], h["device"]) == (begin, end, device)
    ]
    assert len(found) == 1, result["end_to_end"]
    return found[0]


def ends(result: dict[str, Any]) -> int:
    """Where followed packets ended, wherever that was: each exactly once."""
    p = result["packets"]
    known = ("delivered", "consumed", "dropped", "acked", "gro_merged", "reassembled")
    seen = sum(p[k] for k in known) + p["ended_shared"] + p["reuse_detected"] + p["gso_parents"]
    return int(seen + sum(result["unfinished"].values()) + result["lost"]["expired"])


def begun(result: dict[str, Any]) -> int:
    p = result["packets"]
    return int(p["sampled"] + p["gso_segments"] + p["fragmented"])
