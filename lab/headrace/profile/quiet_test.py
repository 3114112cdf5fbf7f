# SPDX-License-Identifier: Apache-2.0
"""Which slices of a load's delays are the layout's own."""

from __future__ import annotations

from headrace.engine.sliced import SlicesReply
from headrace.profile.quiet import delay_slices, settled
from headrace.record.counters import NfReading, ReplicaReading

HZ = 1_000_000_000
SLICE = HZ // 100


def reply(kept: dict[int, tuple[int, int]]) -> SlicesReply:
    """Twenty slices of one replica and one sink; `kept`: slice -> pauses, microseconds."""
    rows = [[(i + 1) * SLICE, SLICE, *kept.get(i, (0, 3))] for i in range(20)]
    delays = [[i * SLICE + 10, (i + 1) * SLICE - 10, 1000 + i, 2_000, 30_000] for i in range(20)]
    sink = {"columns": ["begin", "end", "packets", "p50_ns", "p99_ns"], "queues": [delays]}
    answer = {
        "ok": True,
        "tsc": 20 * SLICE,
        "additions": 256,
        "tsc_hz": HZ,
        "columns": ["end", "ref", "pauses", "kept_us"],
        "segments": {"chain": [{"cpu": 1, "rows": rows}]},
        "delays": {"meas": sink},
    }
    return SlicesReply.model_validate(answer)


def loud(kept: dict[int, tuple[int, int]]) -> list[int]:
    return [i for i, one in enumerate(delay_slices(reply(kept))) if not one.quiet]


def test_a_pause_is_in_its_slice_and_in_those_that_work_off_its_queue() -> None:
    assert loud({}) == []
    assert loud({4: (200_000, 3)}) == [4, 5, 6, 7, 8, 9]
    assert loud({4: (0, 4_000), 18: (150_000, 3)}) == [4, 5, 6, 7, 8, 9, 18, 19]


def test_figures_are_the_engines() -> None:
    one = delay_slices(reply({}))[3]
    assert (one.packets, one.p50_s, one.p99_s) == (1003, 2e-6, 30e-6)
    assert one.after_s == 0.03


def busy(i: int) -> list[int]:
    """1,000 packets in 500 polls: 90 cycles each for 0.1 s, then 60; slice 15 has a pause."""
    each, pauses = (90 if i < 10 else 60), (SLICE // 2 if i == 15 else 0)
    return [(i + 1) * SLICE, SLICE, pauses, 3, 1_000, 500, 1_000 * each + pauses]


def test_a_load_costs_what_it_does_once_caches_are_warm() -> None:
    whole = reply({})
    columns = ("end", "ref", "pauses", "kept_us", "packets", "found", "ops")
    rows = tuple(tuple(busy(i)) for i in range(20))
    [one] = whole.segments["chain"]
    chain = one.model_copy(update={"rows": rows})
    answer = whole.model_copy(update={"columns": columns, "segments": {"chain": (chain,)}})
    nf = NfReading(type="lb", packets_in=20_000, cycles=40_000, cycles_packets=1_000)
    replica = ReplicaReading(
        segment="chain",
        index=0,
        cpu=1,
        packets_in=20_000,
        polls=30_000,
        idle_polls=22_000,
        ops_cycles=2_000_000,
        rx_cycles=10_000,
        io_packets=1_000,
        nfs={"lb": nf},
    )
    [warm] = settled([replica], answer, 0.1)
    assert warm.ops_cycles / warm.packets_in == 60
    assert warm.mean_burst == 2
    assert warm.rx_cycles == 6_000 and warm.nfs["lb"].cycles == 24_000  # as the whole: by 60 %
    assert settled([replica], answer, 0.18) == (replica,)  # two slices tell nothing
