# SPDX-License-Identifier: Apache-2.0
"""What a test inside a guest says: one line for each thing that has to hold."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEADRACE = Path(sys.executable).parent / "headrace"
PF, OTHER = "0000:41:00.0", "0000:81:00.0"  # on node 0 and on node 1; their wires are joined
_PATIENCE_S = 180.0


class Checks:
    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: list[str] = []

    def that(self, name: str, ok: bool, actual: object = "") -> None:
        (self.passed if ok else self.failed).append(name)
        shown = f": {actual}" if actual != "" else ""
        print(f"{'ok    ' if ok else 'FAILED'} {name}{shown}", flush=True)

    def equal(self, name: str, actual: object, expected: object) -> None:
        same = actual == expected
        self.that(name, same, actual if same else f"{actual}, expected {expected}")

    def end(self) -> int:
        print(f"{len(self.passed)} checks hold, {len(self.failed)} do not", flush=True)
        return 1 if self.failed or not self.passed else 0


class Shown(io.StringIO):
    """Kept, and shown as it comes: what a command says while it works."""

    def write(self, text: str) -> int:
        print(text, end="", flush=True, file=sys.__stdout__)
        return super().write(text)


def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this very process: to load Python's modules anew for each takes an emulated
    CPU most of a minute."""
    from headrace.cli import main

    out, errors = io.StringIO(), Shown()
    began, status = time.monotonic(), 0
    sys.argv = ["headrace", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    print(f"headrace {' '.join(arguments)}: {time.monotonic() - began:.0f} s", flush=True)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), errors.getvalue())


def answer(*arguments: str) -> Any:
    """What a command prints with --json; the test ends when there is none."""
    done = headrace(*arguments, "--json")
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"headrace {' '.join(arguments)}: no JSON (status {done.returncode})")


def until(what: str, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.2)
    print(f"waited {_PATIENCE_S:g} s in vain for {what}", flush=True)
    return False


def load(*modules: str) -> None:
    """As udev would when it sees the devices."""
    for module in modules:
        subprocess.run(["modprobe", module], check=True)


def interface(address: str) -> str:
    folder = Path("/sys/bus/pci/devices") / address / "net"
    until(f"an interface of {address}", lambda: any(folder.glob("*")))
    return next(folder.glob("*")).name


def functions(address: str) -> int:
    """How many virtual functions there are."""
    return int((Path("/sys/bus/pci/devices") / address / "sriov_numvfs").read_text())


def is_up(name: str) -> bool:
    return bool(int(Path(f"/sys/class/net/{name}/flags").read_text(), 16) & 1)


def namespaces() -> list[str]:
    return sorted(p.name for p in Path("/run/netns").glob("*"))


def state() -> list[str]:
    """Runs that are written down as going on."""
    return sorted(str(p) for p in Path(os.environ["XDG_RUNTIME_DIR"]).rglob("run-*"))
