# SPDX-License-Identifier: Apache-2.0
"""What a deployment made on this machine, written down before it is made.

A line is on the disk before the thing exists, so that whatever a kill -9 leaves behind is in the
ledger. Undoing goes backwards, is idempotent, and touches nothing that is not written here: all
names carry the run's own tag.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from headrace.errors import unwritable
from headrace.host import builds, cgroups, netlink, runtime
from headrace.host.processes import Process, kill
from headrace.host.settings import restore
from headrace.host.tool import installed
from headrace.host.tree import remove_tree

Kind = Literal[
    "container",
    "build",
    "netns",
    "link",
    "process",
    "pidfile",
    "path",
    "setting",
    "moved",
    "address",
    "vf",
    "vf-rate",
    "vfio",
    "vfs",
    "up",
    "led",
    "cgroup",
    "cluster",
]
FILE = "resources.jsonl"
_STARTER_WAIT_S = 20
_ASKED_AT_MOST = 3


class Ledger:
    """Appends to the run's resources.jsonl."""

    def __init__(self, run: Path) -> None:
        self.path = run / FILE

    def note(self, kind: Kind, name: str) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"kind": kind, "name": name}) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from None

    def undo(self) -> list[str]:
        return undo(self.path)


def undo(path: Path) -> list[str]:
    """Remove all that the ledger names, last first; then the ledger. Says what was removed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    entries = [entry for line in lines if (entry := _entry(line)) is not None]
    containers = [name for kind, name in entries if kind == "container"]
    _wait_for_starters(containers)
    done = _remove_containers(containers)
    # A virtual function comes back to us only when the namespace that it was moved into is gone.
    ordered = sorted(reversed(entries), key=lambda entry: _LAST.get(entry[0], 0))
    for kind, name in ordered:
        if kind != "container" and _REMOVERS[kind](name):
            done.append(f"removed {_called(kind, name)}")
    path.unlink(missing_ok=True)
    return done


def _called(kind: str, name: str) -> str:
    return f"namespace {json.loads(name)['namespace']}" if kind == "cluster" else f"{kind} {name}"


def _entry(line: str) -> tuple[str, str] | None:
    try:
        value = json.loads(line)
        kind, name = str(value["kind"]), str(value["name"])
    except (ValueError, KeyError, TypeError):
        return None  # a line torn by a kill: what it names was not made yet
    return (kind, name) if kind in _REMOVERS or kind == "container" else None


def _wait_for_starters(names: list[str]) -> None:
    """A `podman run` that outlived its killed parent would start its container behind our back."""
    wanted = {name.encode() for name in names}
    _wait_until(lambda: not any(wanted & _starting(p) for p in Path("/proc").glob("[0-9]*")))


def _starting(process: Path) -> set[bytes]:
    """The arguments of a process that is a `podman run` or `docker run`."""
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return set()
    ours = arguments[0].endswith((b"podman", b"docker")) and b"run" in arguments
    return set(arguments) if ours else set()


def _remove_containers(names: list[str]) -> list[str]:
    """Removes them by whatever tool they were made. A daemon may be at making one whose asker was
    killed: it is asked until it has none any more."""
    done: list[str] = []
    for one in installed():
        for _ in range(1 if one.name == "podman" else _ASKED_AT_MOST):
            removed = runtime.remove(names, [one])
            done += (name for name in removed if name not in done)
            if not removed:
                break
    _wait_until(lambda: not any(_monitors(p, done) for p in Path("/proc").glob("[0-9]*")))
    return [f"removed container {name}" for name in done]


def _monitors(process: Path, names: list[str]) -> bool:
    """Whether it is conmon, which outlives its container by a moment."""
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return arguments[0].endswith(b"conmon") and any(n.encode() in arguments for n in names)


def _wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _STARTER_WAIT_S
    while not done() and time.monotonic() < deadline:
        time.sleep(0.1)


def _remove_netns(name: str) -> bool:
    if name not in netlink.netns.listnetns():
        return False
    try:
        netlink.netns.remove(name)
    except FileNotFoundError:
        return False
    return True


def _remove_link(name: str) -> bool:
    with netlink.IPRoute() as ip:
        for index in ip.link_lookup(ifname=name):
            try:
                ip.link("del", index=index)
            except netlink.NetlinkError:
                return False  # its peer's end went first
            return True
    return False


def _remove_process(name: str) -> bool:
    pid, _, started = name.partition(":")
    process = Process(int(pid), int(started)) if pid.isdigit() and started.isdigit() else None
    if process is None or not process.alive():
        return False
    kill(process)
    return True


def _remove_pidfile(name: str) -> bool:
    """A daemon that wrote its own number there; noted before it started."""
    try:
        process = Process.of(int(Path(name).read_text().strip()))
    except (OSError, ValueError):
        return False
    if process is None:
        return False
    kill(process)
    return True


def _remove_path(name: str) -> bool:
    path = Path(name)
    if not path.exists() or _holds_mounts(path):
        return False
    return remove_tree(path)


def _holds_mounts(path: Path) -> bool:
    """Whether something is mounted below, which is not ours to empty."""
    lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    return any(line.split(" ")[4].startswith(f"{path}/") for line in lines)


def _later(module: str, undo: str) -> Callable[[str], bool]:
    def remove(name: str) -> bool:
        needing_us = importlib.import_module(f"headrace.host.{module}")
        return bool(getattr(needing_us, undo)(name))

    return remove


_LAST = {"vf": 1, "vfio": 1, "vfs": 2, "cgroup": 3, "up": 3}
_REMOVERS = {
    "build": builds.remove,
    "netns": _remove_netns,
    "link": _remove_link,
    "process": _remove_process,
    "pidfile": _remove_pidfile,
    "path": _remove_path,
    "moved": _later("moved", "bring_back"),
    "address": _later("moved", "restore_address"),
    "vf": _later("sriov", "give_back"),
    "vf-rate": _later("sriov", "restore_rate"),
    "vfio": _later("sriov", "unbind"),
    "vfs": _later("sriov", "remove_functions"),
    "up": _later("sriov", "take_down"),
    "led": _later("traffic_control", "no_lead"),
    "setting": restore,  # its line says what was there before
    "cgroup": cgroups.remove,
    "cluster": _later("cluster_owned", "remove"),
}
