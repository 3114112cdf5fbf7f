# SPDX-License-Identifier: Apache-2.0
"""Hugepages and limits of memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from headrace.doctor.check import DoctorCheck, root, sudo
from headrace.host import hugepages

GROUP = "memory"
_WANTED_MB = 1024


def checks() -> Iterator[DoctorCheck]:
    yield _hugepages()
    yield _mount()
    if not root():
        yield _locked()


def _hugepages() -> DoctorCheck:
    pool = hugepages.pool()
    if pool is None:
        return DoctorCheck(
            name="hugepages",
            group=GROUP,
            status="limited",
            found="this kernel has none",
            means="the engine runs on 4 kB pages: more TLB misses, lower figures",
        )
    free_mb = pool.free * pool.page_kb // 1024
    there = f"{pool.free} of {pool.total} pages of {pool.page_kb} kB free ({free_mb} MB)"
    pages = pool.total + hugepages.lacking(_WANTED_MB, pool)
    if free_mb >= _WANTED_MB:
        return DoctorCheck(name="hugepages", group=GROUP, status="ok", found=there)
    if root():
        return DoctorCheck(
            name="hugepages",
            group=GROUP,
            status="ok",
            found=f"{there}; runs add what they need and give it back",
        )
    return DoctorCheck(
        name="hugepages",
        group=GROUP,
        status="limited",
        found=there,
        means="the engine runs on 4 kB pages: more TLB misses, lower figures",
        mend=sudo(f"echo {pages} > {pool.control}"),
    )


def _mount() -> DoctorCheck:
    try:
        with open("/proc/mounts", encoding="utf-8") as f:  # noqa: PTH123
            mounts = [line.split()[1] for line in f if line.split()[2] == "hugetlbfs"]
    except OSError:
        mounts = []
    writable = [m for m in mounts if os.access(m, os.W_OK)]
    if writable:
        return DoctorCheck(
            name="hugetlbfs", group=GROUP, status="ok", found=f"at {', '.join(writable)}"
        )
    if root():
        return DoctorCheck(
            name="hugetlbfs",
            group=GROUP,
            status="ok",
            found="not mounted; the engine's memory needs no mount (in-memory mode)",
        )
    return DoctorCheck(
        name="hugetlbfs",
        group=GROUP,
        status="limited",
        found="no hugetlbfs that this user may write",
        means="hugepages are for root only",
        mend=sudo("mkdir -p /dev/hugepages && mount -t hugetlbfs -o mode=1777 none /dev/hugepages"),
    )


def _locked() -> DoctorCheck:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or soft >= _WANTED_MB << 20:
        return DoctorCheck(name="memlock", group=GROUP, status="ok", found="may lock enough memory")
    return DoctorCheck(
        name="memlock",
        group=GROUP,
        status="limited",
        found=f"may lock {soft >> 10} kB",
        means="AF_XDP and vfio need more",
        mend="ulimit -l unlimited (as root, or limits.conf: memlock)",
    )
