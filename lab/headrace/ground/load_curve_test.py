# SPDX-License-Identifier: Apache-2.0
"""A load over time that a stranger's spec names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.ground.load_curve import load_of
from headrace.spec import document
from headrace.spec.study import expand

SPEC = """
name: x
chain: [l2fwd]
deployment: {execution: {model: rtc, elastic: 2}}
workload: {load: {trace: day.csv, times: 1}}
measure: {operate: {policy: headrace, slo: {p99: 100 us}}}
"""


def test_a_trace_has_an_end(tmp_path: Path) -> None:
    """A pipe would block, /dev/zero and a hole of a terabyte take all memory."""
    doc = document.parse(SPEC, tmp_path / "x.yaml")
    [experiment] = expand(doc)
    trace = tmp_path / "day.csv"
    trace.write_text("0,1e6\n60,2e6\n")
    assert load_of(experiment, doc)
    trace.unlink()
    os.mkfifo(trace)
    with pytest.raises(BadInput, match=r"trace: .*is no regular file"):
        load_of(experiment, doc)
    trace.unlink()
    trace.symlink_to("/dev/zero")
    with pytest.raises(BadInput, match=r"trace: .*is no regular file"):
        load_of(experiment, doc)
    trace.unlink()
    with trace.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match=f"trace: .*has {1 << 40} bytes; allowed"):
        load_of(experiment, doc)
