# SPDX-License-Identifier: Apache-2.0
"""dpdk-testpmd as the peer: TSC cycles per packet of one forwarding core at full load."""

from __future__ import annotations

import re
import subprocess
import time

from headrace.host.cpu_time import shield


def cycles_per_packet(
    mode: str, devices: list[str], tsc_hz: float, seconds: float, cpus: tuple[int, int]
) -> float:
    """Run testpmd in a forward mode between the devices' ports, on cpus[1]."""
    command = ["dpdk-testpmd", "--no-pci", "--in-memory", "--file-prefix", "hr-bench-peer"]
    command += ["-m", "512", "--lcores", f"0@{cpus[0]},1@{cpus[1]}"]
    command += [part for device in devices for part in ("--vdev", device)]
    command += ["--", f"--forward-mode={mode}", "--nb-cores=1", "--burst=32", "-i"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin and process.stdout
        shield(process.pid)
        process.stdin.write("start\n")
        process.stdin.flush()
        time.sleep(1.0)
        # The first reading starts the interval of the second one's rates.
        process.stdin.write("show port stats all\n")
        process.stdin.flush()
        time.sleep(seconds)
        process.stdin.write("show port stats all\nstop\nquit\n")
        process.stdin.flush()
        text = process.stdout.read()
    rates = [int(rate) for rate in re.findall(r"Rx-pps:\s+(\d+)", text)]
    if len(rates) < 2 * len(devices):
        raise RuntimeError(f"testpmd gave no rates:\n{text}")
    return tsc_hz / sum(rates[-len(devices) :])
