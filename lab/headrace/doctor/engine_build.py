# SPDX-License-Identifier: Apache-2.0
"""The engine and what it was built with."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headrace.doctor.check import CheckGroup, DoctorCheck, apt, run
from headrace.errors import HeadraceError
from headrace.ground.engine_check import check_age
from headrace.host import programs
from headrace.host.server import sysfs
from headrace.profile import bench_fib, calibrate

GROUP = CheckGroup("software")
_DPDK_MIN = (22, 11)
# What setting up, running and testing headrace takes, as Debian and Ubuntu name it.
BUILD = (
    "gcc", "meson", "ninja-build", "pkg-config", "libdpdk-dev", "libjansson-dev", "libseccomp-dev",
)  # fmt: skip
_TOOLS: dict[str, Callable[[], Path]] = {
    "bench": bench_fib.find_program,
    "server and profile": calibrate.find_program,
    "trace": programs.find_tracer,
}
EXTRAS = {
    "iproute2": "links through network namespaces",
    "ethtool": "NIC facts in the environment",
    "podman": "VNFs in containers",
    "qemu-system-x86": "VNFs in virtual machines",
    "bpftool": "kernel tracing",
    "dpdk-dev": "comparison with testpmd in `make bench`",
}


def checks(engine: Path | None, how_to_build: str) -> Iterator[DoctorCheck]:
    yield _engine(engine, how_to_build)
    yield _tools(how_to_build)
    if not programs.installed():
        yield _dpdk()
    if _debian():
        yield from _packages()


def _engine(engine: Path | None, how_to_build: str) -> DoctorCheck:
    done = run([str(engine), "--version"]) if engine is not None else None
    if done is None or done.returncode != 0:
        why = "not built" if engine is None else f"{engine} does not start"
        words = (done.stderr.strip().splitlines() or [""])[-1] if done is not None else ""
        return GROUP(
            "engine",
            "missing",
            f"{why}{': ' + words if words else ''}",
            "nothing can be measured",
            how_to_build,
            required=True,
        )
    lines = done.stdout.strip().splitlines() or ["no version"]
    try:
        assert engine is not None
        check_age(engine)
    except HeadraceError as why:
        problem = "nothing can be measured"
        return GROUP("engine", "missing", str(why), problem, how_to_build, required=True)
    return GROUP("engine", "ok", lines[0], required=True)


def _tools(how_to_build: str) -> DoctorCheck:
    """`make demo` builds the engine alone."""
    lacking = []
    for command, find in _TOOLS.items():
        try:
            find()
        except HeadraceError:
            lacking.append(command)
    if not lacking:
        return GROUP("tools", "ok", f"for {', '.join(_TOOLS)}")
    return GROUP(
        "tools",
        "missing",
        f"not built for {', '.join(lacking)}",
        "these commands do not run",
        how_to_build,
    )


def _dpdk() -> DoctorCheck:
    done = run(["pkg-config", "--modversion", "libdpdk"])
    version = done.stdout.strip() if done is not None and done.returncode == 0 else ""
    if not version:
        return GROUP(
            "dpdk",
            "missing",
            "pkg-config finds no libdpdk",
            "the engine cannot be built",
            apt("libdpdk-dev", "pkg-config"),
        )
    numbers = tuple(int(n) for n in version.split(".")[:2] if n.isdigit())
    if numbers < _DPDK_MIN:
        return GROUP(
            "dpdk",
            "missing",
            f"DPDK {version}",
            f"the engine needs {_DPDK_MIN[0]}.{_DPDK_MIN[1]} or newer",
        )
    return GROUP("dpdk", "ok", f"DPDK {version}")


def _debian() -> bool:
    text = sysfs.text("/etc/os-release") or ""
    return any(
        "debian" in line for line in text.splitlines() if line.startswith(("ID=", "ID_LIKE="))
    )


def missing_packages(names: Sequence[str]) -> list[str]:
    done = run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names])
    if done is None:
        return []
    there = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in there]


def _packages() -> Iterator[DoctorCheck]:
    if not programs.installed():
        yield _packages_to_build()
    extra = missing_packages(list(EXTRAS))
    uses = "; ".join(f"{name} ({EXTRAS[name]})" for name in extra)
    yield GROUP(
        "packages-optional",
        "limited" if extra else "ok",
        f"not installed: {uses}" if extra else "all optional packages",
        "only what is named in brackets needs them" if extra else None,
        apt(*extra) if extra else None,
    )


def _packages_to_build() -> DoctorCheck:
    lacking = missing_packages(BUILD)
    return GROUP(
        "packages",
        "missing" if lacking else "ok",
        f"not installed: {', '.join(lacking)}" if lacking else "all that building takes",
        "the engine cannot be built" if lacking else None,
        apt(*lacking) if lacking else None,
    )


def kernel() -> DoctorCheck:
    lockdown = sysfs.text("/sys/kernel/security/lockdown")
    mode, text = "none", "no lockdown"
    if lockdown and "[" in lockdown:
        mode = lockdown.split("[")[1].split("]")[0]
        text = f"lockdown {mode}"
    return CheckGroup("kernel")(
        "lockdown",
        "ok" if mode == "none" else "limited",
        f"Linux {platform.release()}, {text}",
        None if mode == "none" else "kprobes and raw access to devices may be refused",
    )
