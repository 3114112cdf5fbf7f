# SPDX-License-Identifier: Apache-2.0
"""Containers: started in namespaces that are already plumbed, and asked.

A container is an adversary: what it holds runs by its runtime only, as its user, with its rights.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.host.bounded import Unbounded, run_bounded
from headrace.host.tool import BASE_IMAGE, Tool, printable, tool

_RUN_TIMEOUT_S = 120
# What every container gets: no program in it gains rights by being started (setuid, capabilities of
# a file), and it makes so many processes at most: podman's own number, where docker has none. The
# runtime's own filter of system calls stays.
CONFINED = (
    "--cap-drop", "all", "--security-opt", "no-new-privileges", "--pids-limit", "2048",
)  # fmt: skip

_run_options: list[str] = []


def run_options(probe: str) -> list[str]:
    """What this machine needs for any container at all, found by starting one named `probe`.

    Where resource limits may not be raised, crun refuses to start; runc with lower limits works.
    """
    if not _run_options:
        _run_options.extend(_find_run_options(probe))
    return _run_options


def _find_run_options(probe: str) -> list[str]:
    error = HeadraceError("")
    for number, attempt in enumerate(tool().starts()):
        if number:
            remove([probe], [tool()])  # what could not be started may be there
        trial = ["--rm", "--name", probe, "--network", "none", "--entrypoint", "/bin/true"]
        try:
            tool().call([*attempt, *trial, BASE_IMAGE])
            return attempt
        except HeadraceError as failure:
            error = failure
    raise HeadraceError(f"no container can be started here: {error}")


@dataclass(frozen=True)
class ContainerSpec:
    """One container: what runs, where, with how much."""

    name: str
    image: str
    namespace: str
    environment: Mapping[str, str] = field(default_factory=dict)
    capabilities: Sequence[str] = ()
    devices: Sequence[str] = ()
    cpus: float | None = None
    cpuset: str | None = None
    memory_mb: int | None = None
    command: Sequence[str] = ()


def holder(namespace: str) -> str:
    """The container whose network namespace others join, where none can be entered by path."""
    return f"{namespace}.net"


def hold(namespace: str) -> int:
    """Start the holder of a namespace; its process."""
    name = holder(namespace)
    arguments = [*run_options(name), "--detach", "--name", name, "--network", "none"]
    arguments += [*CONFINED, "--entrypoint", "sleep"]
    tool().call([*arguments, BASE_IMAGE, "infinity"])
    return pids([name])[name]


def start(spec: ContainerSpec) -> None:
    network = tool().network(spec.namespace, holder(spec.namespace))
    arguments = [*run_options(spec.name), "--detach", "--name", spec.name, *CONFINED]
    arguments += ["--network", network, *tool().logging]
    for capability in spec.capabilities:
        arguments += ["--cap-add", capability]
    for device in spec.devices:
        arguments += ["--device", device]
    for name, value in spec.environment.items():
        arguments += ["--env", f"{name}={value}"]
    if spec.cpus is not None:
        arguments += ["--cpus", str(spec.cpus)]
    if spec.cpuset is not None:
        arguments += ["--cpuset-cpus", spec.cpuset]
    if spec.memory_mb is not None:
        arguments += ["--memory", f"{spec.memory_mb}m"]
    tool().call([*arguments, spec.image, *spec.command])


def execute(
    container: str, command: Sequence[str], *, timeout_s: float = _RUN_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """A command as one of the container's: its user, capabilities, filter of system calls and
    limits; charged to it. The caller judges its status."""
    try:
        return run_bounded([tool().path, "exec", container, *command], timeout_s)
    except Unbounded as why:
        raise HeadraceError(f"container {container}: {command[0]} {why}") from None


def running(container: str) -> bool:
    done = tool().ask("container", "inspect", "--format", "{{.State.Running}}", container)
    return done.stdout.strip() == "true"


def pids(containers: Sequence[str]) -> dict[str, int]:
    """The first process of each container; 0: it has ended."""
    text = tool().call(
        ["container", "inspect", "--format", "{{.Name}} {{.State.Pid}}", *containers]
    )
    lines = (line.split() for line in text.splitlines() if line)
    return {name.lstrip("/"): int(pid) for name, pid in lines}


def logs(container: str, lines: int = 5) -> str:
    done = tool().ask("logs", "--tail", str(lines), container)
    return printable(" / ".join((done.stdout + done.stderr).split("\n")).strip(" /"))


def copy_in(file: str, container: str, target: str) -> None:
    tool().call(["cp", file, f"{container}:{target}"])


def remove(containers: Sequence[str], tools: Sequence[Tool]) -> list[str]:
    """Those that are there; all at once, since each call costs a good tenth of a second."""
    removed = []
    for one in tools if containers else ():
        present = set(one.ask("ps", "--all", "--format", "{{.Names}}").stdout.split())
        ours = [name for name in containers if name in present]
        if ours:
            one.ask(*one.removal, *ours, timeout_s=_RUN_TIMEOUT_S)
        removed += ours
    return removed
