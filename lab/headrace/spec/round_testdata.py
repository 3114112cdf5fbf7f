# SPDX-License-Identifier: Apache-2.0
"""A described server of round numbers, whose capacities can be added up by hand. For tests."""

from __future__ import annotations

from pathlib import Path

from headrace.spec.described import DescribedServer
from headrace.spec.server_file import read_server

COSTS = "{base: [50, x], rx: [20, x], tx: [10, x], hand_over: [15, x], loop: [5, x], poll: [0, x]}"


def round_server(functions: str) -> str:
    """The description: 1 GHz, eight cores, and these `functions`, a line of YAML each."""
    return f"""
name: round
sources: {{x: {{kind: assumed, text: round numbers}}}}
clock_mhz: [1000, x]
cores_per_socket: 8
levels:
  - {{name: L1, kib: [32, x], cycles: [4, x], gather_cycles: [1, x]}}
  - {{name: memory, cycles: [250, x], gather_cycles: [20, x]}}
functions:
{functions}
traffic: {{source: [30, x], sink: [20, x], hand_over: [10, x], idle: [10, x]}}
"""


def read_round(folder: Path, text: str) -> DescribedServer:
    file = folder / "round.yaml"
    file.write_text(text)
    return read_server(file)[1]
