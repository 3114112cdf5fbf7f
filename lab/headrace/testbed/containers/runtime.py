# SPDX-License-Identifier: Apache-2.0
"""Containers by podman: images built, containers run in namespaces that are already plumbed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.testbed.vnf import CatalogueEntry

BASE_IMAGE = "debian:bookworm-slim"
_BUILD_TIMEOUT_S = 900
_RUN_TIMEOUT_S = 120
_PR_SET_PDEATHSIG = 1  # prctl(2)
_NAMESPACES = Path("/run/netns")
Say = Callable[[str], None]


def podman() -> str:
    path = shutil.which("podman")
    if path is None:
        raise HeadraceError("podman: not found; install it (`apt-get install podman`)")
    return path


def call(arguments: Sequence[str], *, timeout_s: float = _RUN_TIMEOUT_S) -> str:
    """Standard output of a podman command; a HeadraceError with its last words otherwise."""
    try:
        done = subprocess.run(
            [podman(), *arguments],
            capture_output=True, text=True, timeout=timeout_s, check=False,
            preexec_fn=_die_with_parent if "build" in arguments else None,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HeadraceError(f"podman {arguments[0]}: no answer in {timeout_s:.0f} s") from None
    if done.returncode:
        raise HeadraceError(f"podman {' '.join(arguments[:2])}: {last_words(done.stderr)}")
    return done.stdout


def _die_with_parent() -> None:
    """A build must not go on behind the back of a run that was killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "failed without a word"


def has_image(image: str) -> bool:
    done = subprocess.run([podman(), "image", "exists", image], capture_output=True, check=False)
    return done.returncode == 0


_run_options: list[str] = []


def run_options(probe: str) -> list[str]:
    """What this machine needs for any container at all, found by starting one named `probe`.

    Where resource limits may not be raised, crun refuses to start; runc with lower limits works.
    """
    if not _run_options:
        _run_options.extend(_find_run_options(probe))
    return _run_options


def _find_run_options(probe: str) -> list[str]:
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    attempts = [["run"], ["run", *limits]]
    if shutil.which("runc"):
        attempts.append(["--runtime", "runc", "run", *limits])
    error = HeadraceError("")
    for attempt in attempts:
        trial = ["--rm", "--replace", "--name", probe, "--network", "none"]
        try:
            call([*attempt, *trial, "--entrypoint", "/bin/true", BASE_IMAGE])
            return attempt
        except HeadraceError as failure:
            error = failure
    raise HeadraceError(f"no container can be started here: {error}")


# images --------------------------------------------------------------------------------


def ensure_base(say: Say) -> None:
    """Debian's image from a registry, or made here where none can be reached."""
    if has_image(BASE_IMAGE):
        return
    say(f"pulling {BASE_IMAGE}")
    done = subprocess.run(
        [podman(), "pull", "--quiet", BASE_IMAGE],
        capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return
    bootstrap = shutil.which("mmdebstrap")
    if bootstrap is None:
        raise HeadraceError(
            f"{BASE_IMAGE}: no registry answers ({last_words(done.stderr)}) and mmdebstrap, which "
            "could make it, is missing: `apt-get install mmdebstrap`"
        )
    say(f"no registry answers: making {BASE_IMAGE} with mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="headrace-base-") as folder:
        archive = Path(folder) / "base.tar"
        made = subprocess.run(
            [bootstrap, "--variant=minbase", "bookworm", str(archive)],
            capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False,
        )  # fmt: skip
        if made.returncode:
            raise HeadraceError(f"mmdebstrap: {last_words(made.stderr)}")
        call(["import", "--quiet", str(archive), BASE_IMAGE], timeout_s=_BUILD_TIMEOUT_S)


def build(entry: CatalogueEntry, say: Say, *, again: bool = False) -> bool:
    """Build the VNF's image unless it is there; True when it was built."""
    if not again and has_image(entry.image):
        return False
    ensure_base(say)
    say(f"building {entry.definition.name}")
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-build-") as folder:
            entry.fill(Path(folder))
            _build(entry.image, folder)
    except HeadraceError as error:
        name = entry.definition.name
        raise HeadraceError(f"VNF {name}: its image cannot be built: {error}") from None
    return True


def _build(image: str, folder: str) -> None:
    options = ["--quiet", "--tag", image, "--file", f"{folder}/Containerfile", folder]
    try:
        call(["build", *options], timeout_s=_BUILD_TIMEOUT_S)
        return
    except HeadraceError as error:
        first = error
    # Without the right to raise limits, only the chroot isolation can run a build's commands.
    runtime = ["--runtime", "runc"] if shutil.which("runc") else []
    modest = [*runtime, "build", "--isolation=chroot", "--network=host", *options]
    try:
        call(modest, timeout_s=_BUILD_TIMEOUT_S)
    except HeadraceError as error:
        raise HeadraceError(f"{error} (plainly: {first})") from None


# containers ----------------------------------------------------------------------------


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


def start(spec: ContainerSpec) -> None:
    arguments = [*run_options(spec.name), "--detach", "--name", spec.name, "--cap-drop", "all"]
    arguments += ["--network", f"ns:{_NAMESPACES / spec.namespace}", "--log-driver", "k8s-file"]
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
    call([*arguments, spec.image, *spec.command])


def execute(
    container: str, command: Sequence[str], *, timeout_s: float = _RUN_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """A command inside; the caller judges its status."""
    try:
        return subprocess.run(
            [podman(), "exec", container, *command],
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HeadraceError(
            f"container {container}: {command[0]} did not end in {timeout_s:.0f} s"
        ) from None


def running(container: str) -> bool:
    done = subprocess.run(
        [podman(), "container", "inspect", "--format", "{{.State.Running}}", container],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() == "true"


def pids(containers: Sequence[str]) -> dict[str, int]:
    """The first process of each container."""
    text = call(["container", "inspect", "--format", "{{.Name}} {{.State.Pid}}", *containers])
    return {name: int(pid) for name, pid in (line.split() for line in text.splitlines() if line)}


def shield(pid: int) -> None:
    """Let other work on the machine not take a container's CPUs while it is measured.

    Where sched_autogroup is on, each container is a group of its own, and niceness acts between
    groups only when it is given to the group.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("-20")


def cpu_seconds(pid: int) -> float | None:
    """CPU time of the control group that a container's first process is in; v1 or v2."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for file, scale in (
            (f"/sys/fs/cgroup/{controllers}{path}/cpuacct.usage", 1e9),
            (f"/sys/fs/cgroup/cpuacct{path}/cpuacct.usage", 1e9),
            (f"/sys/fs/cgroup{path}/cpu.stat", 1e6),
        ):
            if "cpuacct" in controllers.split(",") or file.endswith("cpu.stat"):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    return int(Path(file).read_text().split()[0 if scale == 1e9 else 1]) / scale
    return None


def busy_seconds() -> float:
    """CPU time that all processes of this machine have used, interrupts and softirqs apart."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def logs(container: str, lines: int = 5) -> str:
    done = subprocess.run(
        [podman(), "logs", "--tail", str(lines), container],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return " / ".join((done.stdout + done.stderr).split("\n")).strip(" /")
