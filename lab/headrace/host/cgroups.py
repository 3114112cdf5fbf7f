# SPDX-License-Identifier: Apache-2.0
"""Control groups of a run: its VNFs each in one of its own, with limits (cgroups(7)).

Version 2 where it has the controllers that are needed, version 1 where those hold them; elsewhere
(no root, a container's read-only mount) there are none, and `refusal` says why.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

_PROC = Path("/proc")
_MOUNTS = _PROC / "self/mounts"
_TOP = "headrace"
_NEEDED = ("cpu", "memory")
_V1 = ("cpu", "cpuacct", "memory")
PERIOD_US = 10_000  # of a CPU quota: a longer one would make each pause a longer queue
_SHARES = 1024  # of version 1, that a weight of 100 is
_WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}
EVEN = 100  # the weight that each group has by itself
_WEIGHTS = {-20: 88761, 0: _SHARES}  # of nice values (sched_prio_to_weight, kernel/sched/core.c)
_GONE_S = 5.0
_ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; exec "$@"'


def mounts() -> dict[str, Path]:
    """Controller -> mount point (v1), and "" -> the mount point of v2."""
    roots: dict[str, Path] = {}
    for line in _MOUNTS.read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            roots.setdefault("", Path(point))
        elif kind == "cgroup":
            for option in options.split(","):
                roots.setdefault(option, Path(point))
    return roots


@dataclass(frozen=True)
class Hierarchy:
    version: int
    roots: tuple[Path, ...]  # of v2 one; of v1 one for each controller, unless they are joined


def find() -> Hierarchy | None:
    """None where neither version has the controllers."""
    there = mounts()
    v2 = there.get("")
    if v2 is not None and set(_NEEDED) <= set(_words(v2 / "cgroup.controllers")):
        return Hierarchy(2, (v2,))
    if set(_NEEDED) <= set(there):
        return Hierarchy(1, tuple(dict.fromkeys(there[c] for c in _V1 if c in there)))
    return None


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


@dataclass(frozen=True)
class Cgroup:
    """A group, in each hierarchy that it takes."""

    version: int
    name: str  # below the mount points
    folders: tuple[Path, ...]

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command, in this group from its first instruction on: memory that was charged to
        another group stays there."""
        files = [str(folder / "cgroup.procs") for folder in self.folders]
        return ["sh", "-c", _ENTER, "sh", *files, "--", *command]

    def limit(self, cpus: float | None, memory_mb: int | None) -> None:
        quota = None if cpus is None else int(cpus * PERIOD_US)
        memory = None if memory_mb is None else memory_mb << 20
        if self.version == 2:
            self._set("cpu.max", None if quota is None else f"{quota} {PERIOD_US}")
            self._set("memory.max", memory)
        else:
            self._set("cpu.cfs_period_us", None if quota is None else PERIOD_US)
            self._set("cpu.cfs_quota_us", quota)
            self._set("memory.limit_in_bytes", memory)

    def share(self, nice: int) -> None:
        """Autogroup (sched(7)) has no effect inside of groups: these have weights instead. They act
        among runs: the group that all of them are in has its own, the kernel's default, beside
        others' sessions."""
        if self.version == 2:
            self._set("cpu.weight.nice", nice)
        else:
            self._set("cpu.shares", _WEIGHTS[nice])

    @property
    def out_of_memory(self) -> int:
        """How many processes the limit has killed."""
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        for folder in self.folders:
            words = _words(folder / file)
            if "oom_kill" in words:
                return int(words[words.index("oom_kill") + 1])
        return 0

    def _set(self, file: str, value: object) -> None:
        if value is None:
            return
        for folder in self.folders:
            if (folder / file).exists():  # else it is another controller's
                _put(folder / file, value)


def _put(file: Path, value: object) -> None:
    try:
        file.write_text(str(value))
    except OSError as error:
        raise HeadraceError(f"{file}: {value}: {error.strerror}") from None


def _cpu_group(pid: int, proc: Path = _PROC) -> tuple[int, Path] | None:
    """The group of a process, and its version, in the hierarchy that has the controller cpu."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    there, v2 = mounts(), None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        root = there.get(controllers.split(",")[0])
        if root is None:
            continue
        if "cpu" in controllers.split(","):
            return 1, root / path.lstrip("/")
        if not controllers:
            v2 = 2, root / path.lstrip("/")
    return v2


def throttled_ns(pid: int, proc: Path = _PROC) -> int:
    """How long the quota of a process's own control group has kept it from running."""
    group = _cpu_group(pid, proc)
    if group is None:
        return 0
    words = _words(group[1] / "cpu.stat")
    for key, scale in (("throttled_usec", 1000), ("throttled_time", 1)):
        if key in words:
            return int(words[words.index(key) + 1]) * scale
    return 0


def weigh(pid: int, weight: int) -> None:
    """Gives a process's own control group this weight among those beside it: 100 is what each has
    by default. What was written is read again."""
    group = _cpu_group(pid)
    if group is None or group == _cpu_group(os.getpid()):
        raise HeadraceError(f"process {pid} is in no control group of its own: it has no weight")
    version, folder = group
    file = folder / _WEIGHT[version]
    value = weight if version == 2 else weight * _SHARES // 100
    _put(file, value)
    has = " ".join(_words(file)) or "nothing"
    if has != str(value):
        raise HeadraceError(f"{file}: {value} was written, and {has} is there")


def weight_of(pid: int) -> int | None:
    """The weight of a process's control group, as the kernel says; None: it does not."""
    group = _cpu_group(pid)
    if group is None:
        return None
    version, folder = group
    words = _words(folder / _WEIGHT[version])
    if len(words) != 1 or not words[0].isdigit():
        return None
    return int(words[0]) if version == 2 else round(int(words[0]) * 100 / _SHARES)


def make(run: str) -> Cgroup:
    """The run's own, for the groups of its VNFs."""
    hierarchies = find()
    if hierarchies is None:
        raise HeadraceError("control groups: no mounted hierarchy has the controllers cpu, memory")
    try:
        for root in hierarchies.roots:
            (root / _TOP / run).mkdir(parents=True, exist_ok=True)
            if hierarchies.version == 2:
                for folder in (root, root / _TOP, root / _TOP / run):
                    control = folder / "cgroup.subtree_control"
                    control.write_text(" ".join(f"+{c}" for c in _NEEDED))
    except OSError as error:
        remove(f"{_TOP}/{run}")
        raise HeadraceError(f"control groups: {error.filename}: {error.strerror}") from None
    folders = tuple(root / _TOP / run for root in hierarchies.roots)
    return Cgroup(hierarchies.version, f"{_TOP}/{run}", folders)


def make_inside(run: Cgroup, name: str) -> Cgroup:
    group = Cgroup(run.version, f"{run.name}/{name}", tuple(f / name for f in run.folders))
    try:
        for folder in group.folders:
            folder.mkdir(exist_ok=True)
    except OSError as error:
        raise HeadraceError(f"control groups: {error.filename}: {error.strerror}") from None
    return group


def name_of(run: str) -> str:
    """What a run's group is called: to be written down before it is made."""
    return f"{_TOP}/{run}"


def remove(name: str) -> bool:
    """A run's group and those inside it, once their processes have ended; whether there was one."""
    had_any = False
    for root in dict.fromkeys(mounts().values()):
        folder = root / name
        if folder.is_dir():
            had_any = True
            _remove_folder(folder)
        with contextlib.suppress(OSError):
            (root / _TOP).rmdir()  # another run's groups keep it
    return had_any


def _remove_folder(folder: Path) -> None:
    for inside in folder.iterdir():
        if inside.is_dir():
            _remove_folder(inside)
    deadline = time.monotonic() + _GONE_S
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
