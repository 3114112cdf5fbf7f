# SPDX-License-Identifier: Apache-2.0
"""What a plan has of a link at whose other end is somebody who means harm."""

from __future__ import annotations

from typing import Any

from support.engine import memory_engine


def attacked_plan(cpu: int, vf: dict[str, Any], **source: Any) -> dict[str, Any]:
    """The attacked link, `vf`, and a neighbour, whose packets come back, on one lcore. `source`:
    further parameters of both sources."""
    params = {"frame_bytes": [64], "flows": 16} | source
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": params},
            "vf": vf,
            "meas": {"type": "sink", "params": {}},
            "gen2": {"type": "source", "params": params},
            "meas2": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": "out", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:vf"}]},
            {"name": "in", "cpus": [cpu], "inputs": [{"link": "vf", "to": "link:meas"}]},
            {"name": "next", "cpus": [cpu], "inputs": [{"link": "gen2", "to": "link:meas2"}]},
        ],
    }
