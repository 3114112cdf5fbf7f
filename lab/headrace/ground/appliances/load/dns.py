# SPDX-License-Identifier: Apache-2.0
"""DNS queries by dnsperf."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError
from headrace.ground.appliances.graph import ApplianceGraph
from headrace.ground.appliances.load.reported import GRACE_S, Load, whole_seconds
from headrace.spec.workload import Dns

_NUMBERS = {
    "sent": r"Queries sent:\s+(\d+)",
    "completed": r"Queries completed:\s+(\d+)",
    "seconds": r"Run time \(s\):\s+([\d.]+)",
    "response_bytes": r"response (\d+)",
}


def dns(deployed: ApplianceGraph, workload: Dns, seconds: float) -> Load:
    """dnsperf; it has no percentiles of latency, so no latency is given."""
    queries = f"seq 0 {workload.names - 1} | sed 's/.*/h&.headrace.test A/' > /tmp/queries"
    run = (f"dnsperf -s {deployed.layout.target} -d /tmp/queries -l {whole_seconds(seconds)} "
           f"-c {workload.clients} -q {max(100, workload.clients)}")  # fmt: skip
    text = deployed.client("sh", "-c", f"{queries} && {run}", timeout_s=seconds + GRACE_S)
    matches = {key: re.search(pattern, text) for key, pattern in _NUMBERS.items()}
    if matches["completed"] is None or matches["seconds"] is None:
        raise HeadraceError("dnsperf: ended without a result")
    number = {key: float(match[1]) for key, match in matches.items() if match is not None}
    completed = int(number["completed"])
    return Load(
        duration_s=number["seconds"],
        bytes=int(completed * number.get("response_bytes", 0)),
        requests=completed,
        errors=int(number["sent"]) - completed,
        loss_ratio=1 - completed / max(number["sent"], 1),
    )
