# SPDX-License-Identifier: Apache-2.0
"""What the build of an image leaves when its run is killed: processes, and working containers.

podman's builder names its working containers after their base image, and what runs in them knows
nothing of who asked for it. So each build gets an argument of its own, which no Containerfile uses
and which podman keeps with the working container. docker's daemon ends a build, and removes what
it made, by itself when its client goes.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from headrace.host.tool import Tool, installed

ARGUMENT = "HEADRACE_BUILD"
_GONE_WITHIN_S = 10.0


def remove(tag: str) -> bool:
    """End the build of this tag, if it goes on, and remove what it left; whether there was any."""
    mark = f"{ARGUMENT}={tag}".encode()
    asked = _kill(lambda process: mark in _arguments(process))
    podman = next((one for one in installed() if one.name == "podman"), None)
    working = _working(podman, tag) if podman is not None else {}
    for layer in working.values():
        _kill(partial(_stands_on, layer))
    if podman is not None and working:
        podman.ask("rm", "--force", *working)
    return asked or bool(working)


def _working(podman: Tool, tag: str) -> dict[str, str]:
    """Working containers of a build, each with the layer that is its root."""
    store = podman.ask("info", "--format", "{{.Store.GraphRoot}}").stdout.strip()
    containers = {}
    for file in Path(store).glob("*-containers/*/userdata/buildah.json") if store else ():
        try:
            description = json.loads(file.read_text(encoding="utf-8"))
            ours = description["Args"][ARGUMENT] == tag
            container, mounted = str(description["container-id"]), Path(description["mountpoint"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # somebody else's, or gone meanwhile
        if ours:
            # .../overlay/LAYER/merged, .../vfs/dir/LAYER
            containers[container] = (
                mounted.parent.name if mounted.name == "merged" else mounted.name
            )
    return containers


def _stands_on(layer: str, process: Path) -> bool:
    """Whether a process has the layer as its root directory (proc(5), mountinfo)."""
    try:
        lines = (process / "mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.split(" ")[4] == "/" and layer in line for line in lines)


def _arguments(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _kill(wanted: Callable[[Path], bool]) -> bool:
    """All such processes, and those that they make meanwhile; whether there were any."""
    deadline, some = time.monotonic() + _GONE_WITHIN_S, False
    while processes := [p for p in Path("/proc").glob("[0-9]*") if wanted(p)]:
        some = True
        for process in processes:
            try:
                os.kill(int(process.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return some
