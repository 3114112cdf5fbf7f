# SPDX-License-Identifier: Apache-2.0
"""How many packet buffers an engine gets, and how many of them go round (core/setup/pool.h)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from headrace.host.server.sysfs import number, numbered, size
from headrace.spec.study import Experiment
from headrace.spec.workload import Pcap

_HOT_SHARE = 8  # of the last-level cache: tables are to have the rest
_HOT_MIN = 4096  # more than lie in lcores' own pool caches and in bursts under way
_LLC_BYTES = 32 << 20  # where the kernel does not say
# A virtual machine is told its host's whole cache (480 MB were seen, of which it found 11): with
# buffers for all of that, packets of 1518 B cost three times what they do with this.
_LLC_MOST = 64 << 20
_LINE = 64


def buffers(experiment: Experiment, held: int) -> dict[str, int]:
    """`held`: what the rings and the lcores may hold at once."""
    deployment = experiment.study.deployment
    hot = deployment.mbufs_hot
    if hot is None:
        pcap = isinstance(experiment.workload, Pcap)
        hot = hot_mbufs(experiment.captured_bytes if pcap else experiment.frame.mean_bytes)
    sizes = {"mbufs": deployment.mbufs or held, "mbufs_hot": hot}
    if deployment.packets_node is not None:
        sizes["packets_node"] = deployment.packets_node
    return sizes


def hot_mbufs(frame_bytes: float, llc_bytes: int | None = None) -> int:
    """Those whose descriptor (its first line) and frame fit an eighth of the last-level cache."""
    lines = 1 + -(-int(frame_bytes) // _LINE)
    fit = min(llc_bytes or _llc_bytes(), _LLC_MOST) // _HOT_SHARE // (lines * _LINE)
    return max(_HOT_MIN, 1 << max(0, fit.bit_length() - 1))


@cache
def _llc_bytes() -> int:
    sizes = {
        number(index / "level"): size(index / "size")
        for _, index in numbered(Path("/sys/devices/system/cpu/cpu0/cache"), "index")
    }
    return max((s for level, s in sizes.items() if level == 3 and s), default=_LLC_BYTES)
