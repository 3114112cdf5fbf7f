# SPDX-License-Identifier: Apache-2.0
"""What a figure depends on besides the chain: machine, kernel, libraries, noise."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import headrace
from headrace.ground.contract import About, AboutCluster, AboutServer
from headrace.host import hugepages
from headrace.host.server import sysfs
from headrace.record.bundle import now
from headrace.record.environment import Environment, Facts

_CPU = Path("/sys/devices/system/cpu")
_NO_FACTS = {"ok", "pid", "cpus"}
_LIBRARIES = ("MLRsearch", "pydantic", "duckdb", "hdrhistogram", "numpy")


def collect(about: About, memory_note: str) -> Environment:
    """What could not be read is absent, never guessed; of a described server nothing is this
    machine's."""
    if isinstance(about, AboutServer):
        return Environment(
            collected_at=now(),
            hostname=about.name,
            headrace=_present(version=headrace.__version__, commit=_commit()),
            engine={"simulated": about.name, "tsc_hz": about.tsc_hz},
        )
    if isinstance(about, AboutCluster):
        return _of_cluster(about)
    return Environment(
        collected_at=now(),
        hostname=socket.gethostname(),
        headrace=_present(
            version=headrace.__version__,
            commit=_commit(),
            python=platform.python_version(),
            libraries=_libraries(),
        ),
        engine={} if about is None else about.info.model_dump(mode="json", exclude=_NO_FACTS),
        cpu=_cpu(),
        memory=_memory() | {"used": memory_note},
        kernel=_present(
            release=platform.release(),
            cmdline=sysfs.text("/proc/cmdline"),
            lockdown=sysfs.text("/sys/kernel/security/lockdown"),
            isolated=sysfs.text(_CPU / "isolated"),
            nohz_full=sysfs.text(_CPU / "nohz_full"),
            autogroup=sysfs.text("/proc/sys/kernel/sched_autogroup_enabled"),
            engine_shielded=about is not None and about.shielded,
        ),
        mitigations=_mitigations(),
        virtualisation=_virtualisation(),
        noise=_noise(),
        servers={} if about is None else dict(about.servers),
    )


def _of_cluster(about: AboutCluster) -> Environment:
    """Nothing of the lab's machine, which carries none of it."""
    cpus = {str(node.get("cpu")) for node in about.nodes.values()}
    alike = len(cpus) == 1 and (one := next(iter(cpus))).isdigit()
    return Environment(
        collected_at=now(),
        hostname=", ".join(sorted(about.nodes)),
        headrace=_present(
            version=headrace.__version__, commit=_commit(), python=platform.python_version(),
            libraries=_libraries(),
        ),
        engine={} if about.info is None else about.info.model_dump(mode="json", exclude=_NO_FACTS),
        cpu={"cpus": int(one)} if alike else {},
        kubernetes={
            "version": about.version,
            "nodes": {name: dict(facts) for name, facts in about.nodes.items()},
        },
    )  # fmt: skip


def with_noise_after(environment: Environment) -> Environment:
    if environment.simulated or environment.kubernetes:
        return environment
    after = {f"{key}_after": value for key, value in _noise().items()}
    return environment.model_copy(update={"noise": {**environment.noise, **after}})


def _present(**facts: Any) -> Facts:
    return {key: value for key, value in facts.items() if value is not None}


def _commit() -> str | None:
    """Commit of the checkout that this package is part of; None when it is installed elsewhere."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(
            command, capture_output=True, errors="replace", timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _libraries() -> dict[str, str]:
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _cpu() -> Facts:
    facts: dict[str, str] = {}
    for line in (sysfs.text("/proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            facts.setdefault(key.strip(), value.strip())
    flags = facts.get("flags", "").split()
    return _present(
        model=facts.get("model name"),
        microcode=facts.get("microcode"),
        cpus=os.cpu_count(),
        usable=sorted(os.sched_getaffinity(0)),
        mhz=facts.get("cpu MHz"),
        governor=sysfs.text(_CPU / "cpu0/cpufreq/scaling_governor"),
        smt=sysfs.text(_CPU / "smt/control"),
        simd=[flag for flag in ("sse4_2", "avx", "avx2", "avx512f") if flag in flags] or None,
        invariant_tsc=("constant_tsc" in flags and "nonstop_tsc" in flags) if flags else None,
        caches=_caches() or None,
    )


def _caches() -> dict[str, str]:
    sizes = {}
    for index in sorted((_CPU / "cpu0" / "cache").glob("index*")):
        level, kind = sysfs.text(index / "level"), sysfs.text(index / "type")
        size = sysfs.text(index / "size")
        if level and kind and size:
            sizes[f"L{level} {kind}"] = size
    return sizes


def _memory() -> Facts:
    total = None
    for line in (sysfs.text("/proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    pool = hugepages.pool()
    return _present(
        total_bytes=total,
        numa_nodes=len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        hugepages=None
        if pool is None
        else {"page_kb": pool.page_kb, "total": pool.total, "free": pool.free},
        transparent_hugepages=sysfs.text("/sys/kernel/mm/transparent_hugepage/enabled"),
    )


def _mitigations() -> dict[str, str]:
    mitigations = {}
    for file in sorted((_CPU / "vulnerabilities").glob("*")):
        text = sysfs.text(file)
        if text:
            mitigations[file.name] = text
    return mitigations


def _virtualisation() -> Facts:
    flags = " ".join(
        line
        for line in (sysfs.text("/proc/cpuinfo") or "").splitlines()
        if line.startswith("flags")
    )
    return _present(
        hypervisor="hypervisor" in flags.split() if flags else None,
        vendor=sysfs.text("/sys/class/dmi/id/sys_vendor"),
        product=sysfs.text("/sys/class/dmi/id/product_name"),
        container=os.environ.get("container"),  # noqa: SIM112 - systemd and podman write it so
    )


def _noise() -> Facts:
    """Steal and load: on a shared machine the neighbours are part of the figure."""
    load = os.getloadavg()
    steal = None
    for line in (sysfs.text("/proc/stat") or "").splitlines():
        if line.startswith("cpu "):
            steal = int(line.split()[8])  # proc(5): user nice system idle iowait irq softirq steal
    return _present(
        load_average=[round(value, 2) for value in load],
        steal_ticks=steal,
        platform=sys.platform,
    )
