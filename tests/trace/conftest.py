# SPDX-License-Identifier: Apache-2.0
"""The tracer under test: built once if need be, and run around real traffic."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from traced import Traced

from support.netns import Lan

REPO = Path(__file__).resolve().parents[2]


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
    backend = json.loads(done.stdout)["tp_btf"]
    if not backend["available"]:
        pytest.skip(f"BPF is not permitted here: {backend['why']}")
    return tracer_binary


@pytest.fixture
def traced(tracer: Path, tmp_path: Path) -> Any:
    own = Traced(tracer, tmp_path)
    yield own
    for p in own.processes:
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
