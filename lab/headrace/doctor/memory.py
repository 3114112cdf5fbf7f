# SPDX-License-Identifier: Apache-2.0
"""Hugepages and limits of memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from headrace.doctor.check import CheckGroup, DoctorCheck, root, sudo
from headrace.host import hugepages

GROUP = CheckGroup("memory")
_WANTED_MB = 1024


def checks() -> Iterator[DoctorCheck]:
    yield _hugepages()
    yield _mount()
    if not root():
        yield _locked()


def _hugepages() -> DoctorCheck:
    pool = hugepages.pool()
    if pool is None:
        return GROUP(
            "hugepages",
            "limited",
            "this kernel has none",
            "the engine runs on 4 kB pages: more TLB misses, lower figures",
        )
    free_mb = pool.free * pool.page_kb // 1024
    there = f"{pool.free} of {pool.total} pages of {pool.page_kb} kB free ({free_mb} MB)"
    pages = pool.total + hugepages.lacking(_WANTED_MB, pool)
    if free_mb >= _WANTED_MB:
        return GROUP("hugepages", "ok", there)
    if root():
        return GROUP("hugepages", "ok", f"{there}; runs add what they need and give it back")
    return GROUP(
        "hugepages",
        "limited",
        there,
        "the engine runs on 4 kB pages: more TLB misses, lower figures",
        sudo(f"echo {pages} > {pool.control}"),
    )


def _mount() -> DoctorCheck:
    try:
        with open("/proc/mounts", encoding="utf-8") as f:  # noqa: PTH123
            mounts = [line.split()[1] for line in f if line.split()[2] == "hugetlbfs"]
    except OSError:
        mounts = []
    writable = [m for m in mounts if os.access(m, os.W_OK)]
    if writable:
        return GROUP("hugetlbfs", "ok", f"at {', '.join(writable)}")
    if root():
        return GROUP(
            "hugetlbfs", "ok", "not mounted; the engine's memory needs no mount (in-memory mode)"
        )
    return GROUP(
        "hugetlbfs",
        "limited",
        "no hugetlbfs that this user may write",
        "hugepages are for root only",
        sudo("mkdir -p /dev/hugepages && mount -t hugetlbfs -o mode=1777 none /dev/hugepages"),
    )


def _locked() -> DoctorCheck:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or soft >= _WANTED_MB << 20:
        return GROUP("memlock", "ok", "may lock enough memory")
    return GROUP(
        "memlock",
        "limited",
        f"may lock {soft >> 10} kB",
        "AF_XDP and vfio need more",
        "ulimit -l unlimited (as root, or limits.conf: memlock)",
    )
