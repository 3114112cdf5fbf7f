# SPDX-License-Identifier: Apache-2.0
"""From two reads of the control socket to a record: pure, on readings in the contract's form."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram

from headrace.engine.counters import Sending
from headrace.engine.counts_testdata import counts
from headrace.engine.figures import UNINTENDED, Context, observations
from headrace.engine.plan_compiler import Path as Way
from headrace.engine.plan_document import Plan, PlanEngine, ring
from headrace.engine.reading import Reading
from headrace.engine.verify import ended_as_told, stood_still
from headrace.ground.contract import Deployed, Offer, Point
from headrace.measure.doubts import unrefused
from headrace.measure.trial import trial
from headrace.record.facts import Observation
from headrace.record.figures import LatencyFloor
from headrace.record.rows import Trial

Json = dict[str, Any]
WAY, BACK = Way("forward"), Way("reverse")


def histogram(values: list[int]) -> Json:
    recorded = HdrHistogram(1, 3_600_000_000_000, 3)
    for value in values:
        recorded.record_value(value)
    return {
        "hdr": recorded.encode().decode(),
        "count": len(values),
        "min_ns": min(values),
        "mean_ns": sum(values) / len(values),
        "max_ns": max(values),
    }


def source(intended: int = 1000, sent: int = 1000, **more: Any) -> Json:
    return {
        "type": "source",
        "state": "done",
        "intended": intended,
        "sent": sent,
        "sent_bytes": sent * 64,
        "sizes": {"64": sent},
        "unsent": intended - sent,
        "behind_max_ns": 1000,
        "duration_ns": 1_000_000_000,
        "intended_duration_ns": 1_000_000_000,
        **more,
    }


def sink(received: int = 990, own: int | None = None, **more: Any) -> Json:
    """`own`: of what came, what the source sent, each once."""
    own = received - more.get("duplicated", 0) if own is None else own
    return {
        "type": "sink",
        "received": received,
        "stamped": received,
        "matched": 0,
        "unknown": 0,
        "created": 0,
        "undecided": 0,
        "own": {"packets": own, "bytes": own * 64, "sizes": {"64": own}},
        "within": {"own_packets": own, "own_bytes": own * 64},
        "lost": 0,
        "reordered": 0,
        "duplicated": 0,
        "flows": 5,
        "late": 0,
        "latency": histogram([1000] * 50 + [2000] * 49 + [9000]),
        "ipdv_ns_mean": 3.0,
        "ipdv_count": 10,
        "duration_ns": 1,
        **more,
    }


def nf(packets: int, dropped: int = 0, **more: Any) -> Json:
    return {
        "type": "acl",
        "in": packets,
        "created": 0,
        "out": {"pass": packets - dropped},
        "dropped": {"denied": dropped},
        "ended": {"denied": {"forward": {"64": dropped}}},
        "consumed": 0,
        "aborted": 0,
        "held": 0,
        "batches": 1,
        "cycles": 50 * packets,
        "cycles_packets": packets,
        "counters": {},
        **more,
    }


def read(packets: int, dropped: int, links: Json, **more: Any) -> Json:
    replica = {
        "cpu": 1,
        "in": packets,
        "out": packets - dropped,
        "polls": 5,
        "idle_polls": 1,
        "ops_cycles": 10,
        "io": {"rx_cycles": 1, "headers_cycles": 1, "tx_cycles": 1, "packets": packets},
        "inputs": {"wire-forward": {"packets": packets, "cycles": 1}},
        "outputs": {"back-forward": {"packets": packets - dropped, "full": 0}},
        "nfs": {"acl": nf(packets, dropped, **more)},
    }
    return {
        "ok": True,
        "tsc_hz": 1_000_000_000,
        "workers": {"1": {"ref_cycles": 2 * packets, "ops_cycles": packets, "segments": ["c.0"]}},
        "segments": {"chain": [replica]},
        "links": {"wire-forward": {"type": "ring", "full": 0, "size": 4096, "used": 0}, **links},
    }


RINGS = {"wire-forward": ring(4096, "drop"), "back-forward": ring(4096)}
PLAN = Plan(engine=PlanEngine(), links=RINGS, nfs={}, segments=())


def reading(before: Json, after: Json, **more: Any) -> Reading:
    fields: Json = {"load_pps": 1000.0, "duration_s": 1.0, "waited_ns": {1: 0}}
    fields |= {"watched_s": 1.0, "read_s": 1.0}
    return Reading(before=counts(before), after=counts(after), **{**fields, **more})


@dataclass
class Ready:
    """A deployed point whose trial is over: it was read already."""

    context: Context
    taken: Reading
    chain: str = "c"
    execution: str = "rtc"

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        assert (load_pps, seconds) == (self.taken.load_pps, self.taken.duration_s)

    def wait(self) -> None:
        pass

    def read(self) -> list[Observation]:
        return observations(self.context, self.taken)


def records(
    taken: Reading,
    ways: tuple[Way, ...] = (WAY,),
    policy: dict[str, frozenset[str]] | None = None,
    floor_ns: float | None = None,
) -> list[Trial]:
    context = Context(
        frame_bytes_mean=64,
        plan=PLAN,
        ways=ways,
        labels=(UNINTENDED,) if policy else (),
        calibration=None if floor_ns is None else LatencyFloor(floor_ns=floor_ns),
        policy=policy or {},
    )
    ready = Ready(context, taken)
    return trial(
        cast(Deployed, ready), cast(Point, ready), Offer("64B", None), taken.load_pps,
        taken.duration_s, phase="fixed", repetition=1, number=7,
    )  # fmt: skip


def simple(links: Json, dropped: int = 10, **more: Any) -> Trial:
    before = read(500, 5, links)
    after = read(1500, 5 + dropped, links)
    return records(reading(before, after, **more))[0]


LINKS: Json = {"gen-forward": source(), "sink-forward": sink()}


def test_utilisation_is_of_the_time_of_sending() -> None:
    """A quarter of a second before the first packet; one of sending, of which a quarter was busy
    when last looked at; and half a second in which a queue is worked off."""
    before, at, after = (read(500, 5, LINKS) for _ in range(3))
    before["workers"] = {"1": {"ref_cycles": 7, "ops_cycles": 3}}
    at["workers"] = {"1": {"ref_cycles": 1_050_000_007, "ops_cycles": 200_000_003}}
    after["workers"] = {"1": {"ref_cycles": 1_750_000_007, "ops_cycles": 700_000_003}}
    taken = reading(before, after)
    told = replace(taken, sending=Sending(counts(at), unsent_cycles=250_000_000))
    assert records(told)[0].utilisation == {"1": 0.25}
    # Where nobody looked meanwhile, all of it counts.
    assert records(taken)[0].utilisation == {"1": 0.4}


def test_busy_for_longer_than_there_was_time_is_not_cut_off() -> None:
    before, after = read(500, 5, LINKS), read(1500, 15, LINKS)
    before["workers"] = {"1": {"ref_cycles": 0, "ops_cycles": 0}}
    after["workers"] = {"1": {"ref_cycles": 1_000_000_000, "ops_cycles": 1_960_000_000}}
    [trial] = records(reading(before, after))
    assert trial.utilisation == {"1": 1.96}
    assert trial.audit.verdict == "invalid"
    assert any(f.check == "time" and not f.ok for f in trial.audit.findings)


def test_policy_drops_are_no_loss_where_the_spec_says_so() -> None:
    """Ten packets denied and ten lost elsewhere: half of the loss is what was asked for."""
    links: Json = {"gen-forward": source(), "sink-forward": sink(received=980)}
    after = read(1500, 15, links)
    after["segments"]["chain"][0]["outputs"]["back-forward"]["ended"] = {"forward": {"64": 10}}
    taken = reading(read(500, 5, links), after)
    everything = records(taken)[0]
    assert (everything.lost, everything.policy_dropped, everything.loss_ratio) == (20, 0, 0.02)
    assert everything.drops == {"acl/denied": 10, "back-forward/full": 10}
    unintended = records(taken, policy={"acl": frozenset({"denied"})})[0]
    assert (unintended.lost, unintended.policy_dropped, unintended.loss_ratio) == (10, 10, 0.01)
    assert unintended.throughput_pps == 980
    assert unintended.labels == (UNINTENDED,)
    other = records(taken, policy={"acl": frozenset({"queue-full"})})[0]
    assert (other.lost, other.policy_dropped) == (20, 0)


def test_policy_drops_are_each_directions_own() -> None:
    """Eight of ten denials were reverse traffic's."""
    links: Json = {
        "gen-forward": source(), "sink-forward": sink(998),
        "gen-reverse": source(), "sink-reverse": sink(992),
    }  # fmt: skip
    before, after = read(0, 0, links), read(1000, 10, links)
    denied = {"forward": {"64": 2}, "reverse": {"64": 8}}
    after["segments"]["chain"][0]["nfs"]["acl"]["ended"] = {"denied": denied}
    trials = records(reading(before, after), (WAY, BACK), {"acl": frozenset({"denied"})})
    assert [(t.lost, t.policy_dropped) for t in trials] == [(0, 2), (0, 8), (0, 10)]
    assert [t.drops for t in trials] == [{"acl/denied": n} for n in (2, 8, 10)]
    assert [t.audit.verdict for t in trials] == ["ok"] * 3


def test_copies_that_are_dropped_hide_no_loss() -> None:
    """A mirror port's copies are denied; 40 packets themselves were lost at a full ring."""
    links: Json = {"gen-forward": source(), "sink-forward": sink(1260, own=960, created=300)}
    before, after = read(0, 0, links), read(1500, 0, links)
    chain = after["segments"]["chain"][0]
    chain["nfs"]["acl"]["ended"] = {"denied": {"created": {"64": 200}}}
    chain["nfs"]["tee"] = nf(1000, created=500, out={"out": 1000, "copy": 500}, ended={})
    chain["outputs"]["back-forward"]["ended"] = {"forward": {"64": 40}}
    [trial] = records(reading(before, after), policy={"acl": frozenset({"denied"})})
    assert (trial.lost, trial.policy_dropped, trial.loss_ratio) == (40, 0, 0.04)
    assert trial.drops == {"back-forward/full": 40}
    assert trial.created is not None
    assert (trial.created.sent, trial.created.received, trial.created.unknown) == (500, 300, 0)
    assert trial.created.dropped == {"acl/denied": 200}


def test_a_loss_that_nobody_knows_of_is_no_measurement() -> None:
    links: Json = {"gen-forward": source(), "sink-forward": sink(985)}
    [trial] = records(reading(read(0, 0, links), read(1000, 10, links)))
    assert trial.audit.verdict == "invalid"
    [account] = trial.accounts
    assert (account.sent, account.received, account.unknown) == (1000, 985, 5)
    [finding] = trial.audit.failed
    assert finding.check == "accounting" and "5 unknown" in finding.text


def test_each_size_class_has_an_account() -> None:
    sizes = {"64": 700, "1024-1518": 300}
    links: Json = {"gen-forward": source(sizes=sizes), "sink-forward": sink(800)}
    links["sink-forward"]["own"]["sizes"] = {"64": 700, "1024-1518": 100}
    before, after = read(0, 0, links), read(1000, 0, links)
    dropped = {"too-long": {"forward": {"1024-1518": 200}}}
    after["links"]["vf1"] = {"type": "shm", "too_long": 200, "ended": dropped}
    [trial] = records(reading(before, after))
    assert trial.drops == {"vf1/too-long": 200}
    assert [(a.size, a.sent, a.received, a.unknown) for a in trial.accounts] == [
        ("all", 1000, 800, 0), ("64", 700, 700, 0), ("1024-1518", 300, 100, 0),
    ]  # fmt: skip
    assert trial.audit.verdict == "ok"


def port(rx: int, tx: int, given: int, taken: int, **more: int) -> Json:
    """A port's own counts, and those of the kernel's switch that it is at."""
    device = {"rx_packets": given, "tx_packets": taken}
    return {"type": "port", "rx_packets": rx, "tx_packets": tx, "device": device, **more}


def test_what_a_port_did_not_get_of_the_kernel_is_lost_there() -> None:
    links: Json = {"gen-forward": source(), "sink-forward": sink(900)}
    before, after = read(0, 0, links), read(900, 0, links)
    before["links"]["vf"] = port(5, 5, 5, 5)
    after["links"]["vf"] = port(905, 905, 1008, 905, rx_no_mbuf=7)
    [trial] = records(reading(before, after))
    assert trial.drops == {"vf/not-received": 100}  # three more were the kernel's own
    assert trial.accounts[0].unknown == 0 and trial.audit.verdict == "ok"


def test_what_an_appliance_kept_is_lost_inside() -> None:
    links: Json = {"gen-forward": source(), "sink-forward": sink(900)}
    before, after = read(0, 0, links), read(1000, 0, links)
    after["links"]["vf1"] = {"type": "port"}
    chain = after["segments"]["chain"][0]
    chain["outputs"] = {"vf1": {"packets": 1000, "full": 0}}
    chain["inputs"]["vf1"] = {"packets": 900}
    opaque = {"opaque": True, "links": ["vf1"], "cpus": [1], "run_queue": {}, "workers": {}}
    after["vnfs"] = {"vnf1.1": opaque}
    [trial] = records(reading(before, after))
    assert trial.drops == {"vnf1.1/inside": 100}
    assert trial.audit.verdict == "ok"


def test_what_is_held_is_not_lost_without_a_place() -> None:
    links: Json = {"gen-forward": source(), "sink-forward": sink(900)}
    before, after = read(0, 0, links), read(1000, 0, links, held=90)
    chain = after["segments"]["chain"][0]
    chain["nfs"]["acl"]["ended"] = {"held": {"forward": {"64": 90}}}
    chain["nfs"]["acl"]["out"] = {"pass": 910}
    after["links"]["wire-forward"] = {**after["links"]["wire-forward"], "used": 10}
    [trial] = records(reading(before, after))
    assert (trial.accounts[0].held, trial.accounts[0].unknown) == (100, 0)
    assert trial.audit.verdict == "ok"


def test_a_trial_is_the_difference_of_two_reads() -> None:
    trial = simple(LINKS)
    assert (trial.sent, trial.received, trial.lost) == (1000, 990, 10)
    assert trial.loss_ratio == 0.01 and trial.throughput_pps == 990
    assert trial.throughput_gbps_l1 == pytest.approx(990 * 84 * 8 / 1e9)
    assert trial.nf_cycles == {"acl": 50.0} and trial.utilisation == {"1": 0.5}
    assert trial.drops == {"acl/denied": 10}
    assert trial.audit.verdict == "ok"
    assert trial.latency_ns is not None and trial.pdv_ns is not None
    assert trial.latency_ns.p50 == pytest.approx(1000, rel=0.001)
    assert trial.latency_ns.max == 9000
    assert trial.pdv_ns.p99 == pytest.approx(1000, rel=0.002)


def test_what_a_queue_held_at_the_end_is_received_and_no_throughput() -> None:
    within = {"own_packets": 800, "own_bytes": 800 * 100}
    trial = simple({**LINKS, "sink-forward": sink(1000, duplicated=10, within=within)})
    assert trial.throughput_pps == 800
    assert (trial.received, trial.received_pps, trial.lost) == (990, 990, 10)
    # Of what came, not of the mean of what was sent.
    assert trial.throughput_gbps_l2 == pytest.approx(800 * 100 * 8 / 1e9)
    assert trial.throughput_gbps_l1 == pytest.approx(800 * 120 * 8 / 1e9)


def test_a_lone_packet_takes_the_whole_trial() -> None:
    """Sent at once: a rate over the time until the last packet would be millions."""
    links = {"gen-forward": source(1, 1, duration_ns=200), "sink-forward": sink(1)}
    trial = simple(links, 0, load_pps=1.0)
    assert trial.sent_pps == trial.offered_pps == trial.throughput_pps == 1
    assert trial.duration_s == 1


def test_what_a_function_made_itself_hides_no_loss() -> None:
    """An ICMP error reaches the sink unstamped; it is not one of the source's packets."""
    trial = simple({**LINKS, "sink-forward": sink(1000, own=990, unknown=10)})
    assert trial.received == 990 and trial.unstamped == 10
    trial = simple({**LINKS, "sink-forward": sink(1000, duplicated=10)})
    assert trial.received == 990


def test_unsent_is_never_loss() -> None:
    trial = simple({**LINKS, "gen-forward": source(1000, 900), "sink-forward": sink(900)}, 0)
    assert trial.loss_ratio == 0 and trial.lost == 0 and trial.intended == 1000
    assert trial.audit.verdict == "generator-bound" and trial.audit.unsent == 100


@pytest.mark.parametrize(
    ("links", "more", "check", "verdict"),
    [
        ({"gen-forward": source(duration_ns=1_100_000_000)}, {}, "stretched", "generator-bound"),
        ({"gen-forward": source(behind_max_ns=10**10)}, {}, "stall", "suspect"),
        ({}, {"waited_ns": {1: 50_000_000}}, "preemption", "suspect"),
        (
            {"back-forward": {"type": "ring", "full": 9, "size": 4096, "used": 0}},
            {},
            "sink",
            "suspect",
        ),
    ],
)
def test_audit_names_its_reason(links: Json, more: Json, check: str, verdict: str) -> None:
    before, after = read(0, 0, LINKS), read(1000, 10, {**LINKS, **links})
    trial = records(reading(before, after, **more))[0]
    assert [f.check for f in trial.audit.findings if not f.ok] == [check]
    assert trial.audit.verdict == verdict


@pytest.mark.parametrize(("cycles", "verdict"), [(700, "ok"), (2100, "suspect")])
def test_a_core_below_its_base_frequency_is_told(cycles: int, verdict: str) -> None:
    before, after = read(0, 0, LINKS), read(1000, 10, LINKS)
    before["workers"]["1"]["pace"] = {"additions": 256, "cycles": 256}
    after["workers"]["1"]["pace"] = {"additions": 1256, "cycles": 256 + cycles}
    trial = records(reading(before, after))[0]
    assert trial.counters is not None and trial.counters.workers[0].pace == cycles / 1000
    assert trial.audit.verdict == verdict
    [finding] = [f for f in trial.audit.findings if f.check == "pace"]
    assert f"{1000 * 1000 / cycles:.0f} MHz" in finding.text


@pytest.mark.parametrize(("wide", "verdict"), [(760, "ok"), (1400, "suspect")])
def test_a_shared_core_is_told(wide: int, verdict: str) -> None:
    before, after = read(0, 0, LINKS), read(1000, 10, LINKS)
    after["workers"]["1"]["pace"] = {"additions": 1000, "cycles": 700, "wide_cycles": wide}
    trial = records(reading(before, after))[0]
    assert trial.audit.verdict == verdict
    assert [f.check for f in trial.audit.findings if not f.ok] == ["alone"] * (wide > 1000)


@pytest.mark.parametrize(("waited", "verdict"), [(60_000_000, "ok"), (0, "suspect")])
def test_pauses_that_the_kernel_does_not_know_of(waited: int, verdict: str) -> None:
    lossless = {**LINKS, "sink-forward": sink(1000)}
    before, after = read(0, 0, lossless), read(1000, 0, lossless)
    after["workers"]["1"]["pace"] = {"standstill_cycles": 70_000_000}
    trial = records(reading(before, after, waited_ns={1: waited}))[0]
    passed = {f.check: f.ok for f in trial.audit.findings}
    assert passed["standstill"] == (verdict == "ok")


def test_preemption_without_loss_is_no_doubt_until_it_makes_the_latency() -> None:
    lossless = {**LINKS, "sink-forward": sink(1000)}
    assert simple(lossless, 0, waited_ns={1: 40_000_000}).audit.verdict == "ok"
    assert simple(lossless, 0, waited_ns={1: 60_000_000}).audit.verdict == "suspect"


def test_shares_are_of_the_time_that_was_watched() -> None:
    """A late source stretches a trial of 1 s to 4 s, and in 2 s of these an lcore did not run."""
    before, after = read(0, 0, LINKS), read(1000, 10, LINKS)
    after["workers"]["1"]["pace"] = {"standstill_cycles": 3_000_000_000}
    taken = reading(before, after, waited_ns={1: 2_000_000_000}, watched_s=4.0, read_s=5.0)
    values = {f.check: f.value for f in records(taken)[0].audit.findings}
    assert (values["preemption"], values["standstill"]) == (0.5, 0.2)
    taken = reading(before, after, waited_ns={1: 1_010_000_000})
    values = {f.check: f.value for f in records(taken)[0].audit.findings}
    assert (values["preemption"], values["standstill"]) == (1.0, 1.0)


def test_what_an_lcore_waited_is_recorded_with_its_cycles() -> None:
    before, after = read(0, 0, LINKS), read(1000, 10, LINKS)
    counters = records(reading(before, after, waited_ns={1: 4_000_000}))[0].counters
    assert counters is not None and counters.workers[0].waited_ns == 4_000_000
    taken = reading(before, after, waited_ns={1: 0}, vnfs_waited_ns={1: 600_000_000})
    trial = records(taken)[0]
    assert trial.counters is not None and trial.counters.workers[0].waited_ns == 600_000_000
    # Of VNFs the audit does not judge: their waiting is a subject of hosting studies.
    assert {f.check: f.ok for f in trial.audit.findings}["preemption"]


def test_a_latency_below_the_floor_is_labelled() -> None:
    taken = reading(read(0, 0, LINKS), read(1000, 10, LINKS))
    assert records(taken, floor_ns=900)[0].labels == ()
    assert records(taken, floor_ns=87.7e6)[0].labels == ("below-floor",)


def test_counters_that_do_not_add_up_are_no_measurement() -> None:
    before, after = read(0, 0, LINKS), read(1000, 10, LINKS, consumed=5)
    trial = records(reading(before, after))[0]
    assert trial.audit.verdict == "invalid"


def test_two_directions_and_their_sum() -> None:
    links = {**LINKS, "gen-reverse": source(500, 500), "sink-reverse": sink(500)}
    before, after = read(0, 0, links), read(1500, 10, links)
    forward, reverse, both = records(reading(before, after), (WAY, BACK))
    assert [t.direction for t in (forward, reverse, both)] == ["forward", "reverse", "both"]
    assert both.sent == 1500 and both.received == 1490
    assert both.throughput_pps == forward.throughput_pps + reverse.throughput_pps
    assert both.latency_ns is not None and both.latency_ns.max == 9000


def test_maximum_rate_without_loss_is_the_generators() -> None:
    lossless = simple({**LINKS, "sink-forward": sink(1000)}, 0, load_pps=0.0)
    assert unrefused(lossless.audit, 0, 1000).verdict == "generator-bound"
    lossy = simple(LINKS, load_pps=0.0)
    assert unrefused(lossy.audit, lossy.lost, lossy.sent).verdict == "ok"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": 0}, "source"),
        ({"wire": 0}, "first segment"),
        ({"acl": 0}, "function acl"),
        ({"dropped": 64}, "output of acl: 64 dropped as denied"),
        ({"back": 0}, "sink's segment"),
    ],
)
def test_the_first_element_that_stood_still_is_named(change: dict[str, int], words: str) -> None:
    before = read(0, 0, LINKS)
    after = read(64, change.get("dropped", 0), copy.deepcopy(LINKS))
    chain = after["segments"]["chain"][0]
    chain["inputs"]["wire-forward"]["packets"] = change.get("wire", 64)
    if "acl" in change:
        chain["nfs"]["acl"] = nf(0)
    after["links"]["gen-forward"]["sent"] = change.get("source", 64)
    after["links"]["back-forward"] = {"type": "ring", "full": 0, "size": 4096, "used": 0}
    sink = copy.deepcopy(chain)
    sink |= {"inputs": {"back-forward": {"packets": change.get("back", 64)}}, "nfs": {}}
    after["segments"]["sink"] = [sink]
    taken = records(reading(before, after))[0]
    assert taken.counters is not None
    assert words in stood_still(taken.counters, ["acl"], WAY, counts(after))


def test_packets_that_the_last_function_ends_as_it_is_told_have_come_far_enough() -> None:
    taken = records(reading(read(0, 0, LINKS), read(64, 64, copy.deepcopy(LINKS))))[0]
    some = records(reading(read(0, 0, LINKS), read(64, 60, copy.deepcopy(LINKS))))[0]
    assert taken.counters is not None and some.counters is not None
    told = {"acl": frozenset({"denied"})}
    assert ended_as_told(taken.counters, "acl", told)
    assert not ended_as_told(some.counters, "acl", told)  # the others were lost behind it
    assert not ended_as_told(taken.counters, "acl", {"acl": frozenset({"queue-full"})})
    assert not ended_as_told(taken.counters, "acl", {})
    assert not ended_as_told(taken.counters, "lb", told)


def test_a_function_at_work_when_it_was_read_has_a_burst_in_it() -> None:
    links: Json = {"gen-forward": source(), "sink-forward": sink(458)}
    before, after = read(0, 0, links), read(1000, 10, links, consumed=32)
    after["links"]["wire-forward"]["used"] = 500
    assert records(reading(before, after))[0].audit.verdict != "invalid"
    after = read(1000, 10, links, consumed=65)
    after["links"]["wire-forward"]["used"] = 500
    assert [f.check for f in records(reading(before, after))[0].audit.failed] == ["conservation"]
