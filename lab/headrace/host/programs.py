# SPDX-License-Identifier: Apache-2.0
"""What headrace has beside its Python, where each is: programs, VNF definitions, studies; and what
a run of one of its tools says.

An installed package brings them (packaging/); a checkout has them where they are written or built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.host.processes import Process
from headrace.host.state import RunState, dpdk_in, short_run

VSWITCHD = "ovs-vswitchd"  # the process that forwards where the kernel does not
PACKAGE = Path(str(resources.files("headrace"))).resolve()
INSTALLED = PACKAGE / "installed"  # in a package only
LIBRARIES = (
    PACKAGE.parent / "headrace.libs"
)  # of its programs, which look for it beside the package
REPO = PACKAGE.parents[1]
BUILT = REPO / "build"


def installed() -> bool:
    """Whether this is a package; otherwise it is a checkout."""
    return INSTALLED.is_dir()


def shipped(folder: str) -> Path:
    """A folder of definitions: `vnfs`, `studies` or `servers`."""
    return (INSTALLED if installed() else REPO) / folder


def find(name: str, built: Iterable[Path], advice: str, variable: str | None = None) -> Path:
    """What the environment's `variable` names, then the package's own, then the first of `built`
    that can be run, then PATH's. `advice` is what to do when there is none of them."""
    named = os.environ.get(variable) if variable else None
    if variable and named:
        if not os.access(named, os.X_OK):
            raise bad_value(variable, named, allowed=f"an executable {name}")
        return Path(named)
    for file in (INSTALLED / "bin" / name, *built):
        if os.access(file, os.X_OK):
            return file
    path = shutil.which(name)
    if path:
        return Path(path)
    raise HeadraceError(f"{name}: not found{advice}")


def find_engine() -> Path:
    """$HEADRACE_ENGINE, then the package's, then the checkout's, then PATH's."""
    return find(
        "headrace-engine",
        [BUILT / "engine" / "headrace-engine"],
        "; build it with `make setup`, put it on PATH, or name it in HEADRACE_ENGINE",
        variable="HEADRACE_ENGINE",
    )


def find_tracer() -> Path:
    """$HEADRACE_TRACE, then the package's, then the checkout's, then PATH's."""
    return find(
        "headrace-trace",
        [BUILT / "trace" / "headrace-trace"],
        "; build it with `make setup`, put it on PATH, or name it in HEADRACE_TRACE",
        variable="HEADRACE_TRACE",
    )


def find_vpp() -> Path:
    """$HEADRACE_VPP, then PATH's: nobody packages it with headrace."""
    advice = "; name its program in deployment.vpp.path or HEADRACE_VPP, or put it on PATH"
    return find("vpp", [], advice, variable="HEADRACE_VPP")


def find_beside_tracer(name: str) -> Path:
    """A program that is built with the tracer: beside it, or on PATH."""
    tracer = find_tracer()
    return find(name, [tracer.parent / name], f" beside {tracer}; build it with `make setup`")


def find_tool(name: str, folder: str) -> Path:
    """A program that is built with the engine: in its `folder` of the build directory, beside the
    engine where it is installed, or on PATH."""
    engine = find_engine()
    return find(
        name,
        [engine.parent / folder / name, engine.parent / name],
        f" beside {engine}; build it with `make setup`",
    )


def ask(
    command: Sequence[str], state: RunState, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """What a program of DPDK's answers. It is the run's engine, so that none goes on behind a kill;
    subprocess.TimeoutExpired as of `subprocess.run`."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        env=dpdk_in(state.path),
    ) as process:  # fmt: skip
        try:
            state.note("engine", Process.of(process.pid))
            out, words = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, words)


def run_tool(tool: Path, arguments: Sequence[str], called: str) -> str:
    """Its output; the last line on its standard error becomes the error, bad input by its status 2.
    `called` is what users know it as."""
    with short_run() as state:
        done = ask([str(tool), *arguments], state)
    if done.returncode == 0:
        return done.stdout
    lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
    message = lines[-1].removeprefix(f"{tool.name}: ")
    raise BadInput(message) if done.returncode == 2 else HeadraceError(f"{called}: {message}")
