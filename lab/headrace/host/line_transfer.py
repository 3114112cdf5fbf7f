# SPDX-License-Identifier: Apache-2.0
"""What a cache line costs that another lcore wrote, as it is now.

A hypervisor moves virtual CPUs between cores, and what passes between two lcores is dearer where
they share no last-level cache: on one machine 60 or 340 TSC cycles a line, for seconds to minutes.
Nothing inside a virtual machine names the core, so it is measured (Zheng et al. 2019, figure 2, has
what a pipeline pays for it).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean

from headrace.errors import HeadraceError
from headrace.host.programs import find_tool, run_tool
from headrace.host.server import detect

PROGRAM = "headrace-calibrate"
MOST_CPUS = 4  # each with each other: twelve pairs, two seconds
SECONDS = 0.4  # of two CPUs, on a machine that does nothing else


def line_cycles(cpus: Sequence[int]) -> float | None:
    """TSC cycles of a line that another of `cpus` has just written: the mean over their ordered
    pairs of each pair's median. None: there are fewer than two CPUs, the machine is none that a
    hypervisor moves, or it cannot be measured here."""
    some = sorted(cpus)[:MOST_CPUS]
    if len(some) < 2 or not detect().hypervisor:
        return None
    try:
        tool = find_tool(PROGRAM, "calibrate")
        told = run_tool(tool, ["--cpus", ",".join(map(str, some)), "--only", "transfer"], PROGRAM)
    except HeadraceError:
        return None  # a run on an engine alone, without the tools that are built beside it
    return fmean(pair["modified"]["median"] for pair in json.loads(told)["transfer"])
