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
from headrace.host.processes import ENDED_FIRST
from headrace.host.tool import BASE_IMAGE, Tool, printable, tool

_RUN_TIMEOUT_S = 120
# What every container gets: no program in it gains rights by being started (setuid, capabilities of
# a file), and it makes so many processes at most: podman's own number, where docker has none. Where
# memory runs out its processes are ended first, however small each of them is: a host's engine is
# larger. The runtime's own filter of system calls stays.
CONFINED = (
    "--cap-drop", "all", "--security-opt", "no-new-privileges", "--pids-limit", "2048",
    "--oom-score-adj", str(ENDED_FIRST),
)  # fmt: skip

# Users and groups of a container that has a user namespace: no file's and no process' of the host,
# nor of an engine (core/rights has 0x78000000 and on). All have the same, as some kernels need a
# copy of an image for each other numbering; none sees another's processes or files.
_USERS = tuple(
    word for option in ("--uidmap", "--gidmap") for word in (option, f"0:{0x77000000}:65536")
)


@dataclass(frozen=True)
class ContainerStart:
    """How containers are started here."""

    options: list[str]
    without_users: str  # why none can have a user namespace; nothing: they can


_ways: list[ContainerStart] = []  # what was found, once


def way(probe: str) -> ContainerStart:
    """What this machine needs for any container at all, found by starting one named `probe`.

    Where resource limits may not be raised, crun refuses to start; runc with lower limits works.
    """
    if not _ways:
        _ways.append(_find_way(probe))
    return _ways[0]


def _find_way(probe: str) -> ContainerStart:
    trial = ["--rm", "--name", probe, "--network", "none", "--entrypoint", "/bin/true", BASE_IMAGE]
    without = "" if tool().enters else "docker has one for all of its daemon's (userns-remap)"
    error = HeadraceError("")
    for attempt in tool().starts():
        for users in ((),) if without else (_USERS, ()):
            try:
                tool().call([*attempt, *users, *trial])
                return ContainerStart(attempt, "" if users else without or str(error))
            except HeadraceError as failure:
                error = failure
                remove([probe], [tool()])  # what could not be started may be there
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
    arguments = [*way(name).options, "--detach", "--name", name, "--network", "none"]
    arguments += [*CONFINED, "--entrypoint", "sleep"]
    tool().call([*arguments, BASE_IMAGE, "infinity"])
    return pids([name])[name]


def start(spec: ContainerSpec) -> None:
    network = tool().network(spec.namespace, holder(spec.namespace))
    run = [*way(spec.name).options, "--detach"]
    tool().call([*run, "--network", network, *_arguments(spec)])


def prepare(spec: ContainerSpec) -> int:
    """A container with users and a network of its own, in which nothing runs yet (`begin`); its
    process. The user namespace owns the network namespace, as both are made at once: capabilities
    mean something in there only."""
    create = ["create" if word == "run" else word for word in way(spec.name).options]
    tool().call([*create, *_USERS, "--network", "none", *_arguments(spec)])
    tool().call(["init", spec.name])
    return pids([spec.name])[spec.name]


def begin(container: str) -> None:
    tool().call(["start", container])


def _arguments(spec: ContainerSpec) -> list[str]:
    arguments = ["--name", spec.name, *CONFINED, *tool().logging]
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
    return [*arguments, spec.image, *spec.command]


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
