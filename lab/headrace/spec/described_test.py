# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.host.programs import shipped
from headrace.spec.server_file import read_server, with_costs

SERVERS = sorted(shipped("servers").glob("*.yaml"))


@pytest.mark.parametrize("file", SERVERS, ids=lambda file: file.stem)
def test_a_server_of_headraces_own_can_be_predicted_for(file: Path) -> None:
    server, home = with_costs(file)
    assert server.name == file.stem
    assert {"acl", "lb", "l3fwd", "l2fwd"} <= set(home.functions) and home.traffic is not None
    sizes = [level.kib.value for level in server.levels if level.kib is not None]
    assert sizes == sorted(sizes)
    delays = [level.cycles.value for level in server.levels]
    assert delays == sorted(delays)


@pytest.mark.parametrize("clock", ["0", "-3400", "1e300", ".inf", "200000"])
def test_a_clock_is_one_that_a_processor_can_have(tmp_path: Path, clock: str) -> None:
    text = shipped("servers").joinpath("reference.yaml").read_text()
    line = next(one for one in text.splitlines() if one.startswith("clock_mhz:"))
    source = line.partition(",")[2]
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(line, f"clock_mhz: [{clock},{source}"))
    with pytest.raises(BadInput, match=r"mine.yaml:\d+: clock_mhz"):
        with_costs(file)


SMALL = """
name: small
sources: {x: {kind: assumed, text: round numbers}}
clock_mhz: [1000, x]
cores_per_socket: 12
threads_per_core: 2
levels:
  - {name: L1, kib: [32, x], cycles: [4, x], gather_cycles: [1, x]}
  - {name: L3, kib: [16384, x], shared_by: 12, cycles: [50, x], gather_cycles: [5, x]}
  - {name: memory, cycles: [250, x], gather_cycles: [20, x]}
transfer_cycles: [60, x]
remote_cycles: [120, x]
thread_speed: [0.6, x]
power: {idle_watts: [90, x], busy_watts: [200, x]}
scheduler: {latency_us: [24000, x], least_us: [3000, x]}
ports: [{gbps: [10, x]}]
"""


def test_a_description_that_holds_together(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    assert read_server(file)[1].name == "small"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("shared_by: 12", "shared_by: 5"),
         r":9: levels\[1\].shared_by: 5 cores share one L3, which do not add up to the 12 of a "
         "socket; allowed: 1, 2, 3, 4, 6, 12"),
        (("shared_by: 12", "shared_by: 24"), r":9: levels\[1\].shared_by: 24 .* 12 of a socket"),
        (("{name: memory,", "{name: memory, kib: [1e6, x],"),
         r":10: levels\[2\]: .* a node has no memory; allowed"),
        (("kib: [32, x], cycles: [4", "cycles: [4"), r":8: levels\[0\]: L1 has no `kib`"),
        (("kib: [16384, x]", "kib: [16, x]"), r":9: levels\[1\].kib: .*allowed: more than L1"),
        (("cycles: [250", "cycles: [25"), r":10: levels\[2\].cycles: .*allowed: at least L3's 50"),
        (("clock_mhz: [1000", "clock_mhz: [0"), r":4: clock_mhz: .*0 MHz; allowed: 1 to 100000"),
        (("clock_mhz: [1000", "clock_mhz: [1e12"), r":4: clock_mhz: .*allowed: 1 to 100000"),
        (("gbps: [10, x]", "gbps: [10, x], socket: 1"), r"ports\[0\].socket: 1; allowed: 0..0"),
        (("gbps: [10, x]", "gbps: [0, x]"), r"ports\[0\].gbps: 0; allowed: more than 0"),
        (("remote_cycles: [120", "remote_cycles: [12"), r"remote_cycles: 12 .*allowed: at least"),
        (("transfer_cycles: [60", "transfer_cycles: [0"), r"transfer_cycles: 0; allowed: more"),
        (("thread_speed: [0.6", "thread_speed: [1.6"), r"thread_speed: 1.6; allowed: at most 1"),
        (("threads_per_core: 2", "threads_per_core: 1"), r"thread_speed: cores have one thread"),
        (("idle_watts: [90", "idle_watts: [900"), r"power.idle_watts: allowed: at most busy_watts"),
        (("least_us: [3000", "least_us: [30000"), r"scheduler.least_us: 30000; allowed: at most"),
        (("kind: assumed", "kind: fitted"), r":3: sources.x: fitted; allowed: with `to`"),
        (("round numbers", "round, to: ten points"), r"sources.x.to: assumed; allowed: where"),
        (("ports:", "pauses: {per_s: [1000, x], us: [2000]}\nports:"), r"pauses: .* 2 of all time"),
        (("ports:", "costs: reference.yaml\ntraffic: {source: [1, x], sink: [1, x], "
          "hand_over: [1, x], idle: [1, x]}\nports:"), r"traffic: they are taken from `costs`"),
        (("ports: [{gbps: [10, x]}]", "tester: outside"), r"tester: outside; allowed: with"),
    ],
)  # fmt: skip
def test_what_cannot_be_true_together_is_one_line(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    file = tmp_path / "small.yaml"
    text = SMALL.replace(*change)
    assert text != SMALL
    file.write_text(text)
    with pytest.raises(BadInput, match=words) as caught:
        read_server(file)
    assert "\n" not in str(caught.value)
