# SPDX-License-Identifier: Apache-2.0
"""The claims of the studies of papers: other rows, another verdict. A claim that no row contradicts
says nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.analyse.bundle_report import report
from headrace.analyse.claims import judge_claims
from headrace.ground.appliances.expanded import expand_study
from headrace.ground.appliances.ground import AppliancePoint
from headrace.host.programs import shipped
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.claim import JudgedClaim
from headrace.record.counters import Counters, Located, NfReading, ReplicaReading, WorkerReading
from headrace.record.figures import ApplicationFigures, LatencyNs
from headrace.record.rows import Result
from headrace.record.segments import Anatomy, Segment
from headrace.record.testdata import environment
from headrace.record.verdict import Audit, Finding
from headrace.spec.claim import Claim
from headrace.spec.document import Document
from headrace.spec.folder import load_folder
from headrace.spec.group import Machine
from headrace.spec.points import points
from headrace.spec.study import Experiment, expand, read

STUDIES = ("s1", "s2", "s3", "s4", "s5")
Deployment = Experiment | AppliancePoint
DRAWS, PACKETS, HZ = 14, 1_000_000, 2_000_000_000
MACHINE = Machine(256, 2)  # that lacks nothing


def experiments(name: str) -> tuple[dict[str, Claim], list[Deployment]]:
    """The study's claims, and what its points deploy where a claim asks for one of its group."""
    doc = load_folder(shipped("studies") / name)
    claims = {
        key: one.model_copy(update={"unlike": None, "needs": ()})
        for key, one in read(doc).claims.items()
        if "from calibration" not in one.query  # claims_test.py has one of these
    }
    asked = " ".join(one.query for one in claims.values())
    return claims, [
        one
        for point in points(doc, MACHINE)
        if f"'{point.group}" in asked or f"'{point.group.split('-')[0]}-%" in asked
        or ("execution = '0-" in asked and point.group.startswith("placements"))
        for one in expand(of_modes(point.doc))
    ]  # fmt: skip


def appliances(name: str) -> tuple[dict[str, Claim], list[Deployment]]:
    """The same of third-party VNFs, where all points are asked for."""
    doc = load_folder(shipped("studies") / name)
    claims = {
        key: one.model_copy(update={"needs": ()})
        for key, one in read(doc).claims.items()
        if key != "bash-lines"  # which counts no rows
    }
    studies = [(point.doc, expand_study(point.doc)) for point in points(doc, MACHINE)]
    return claims, [AppliancePoint(doc, one, point) for doc, one in studies for point in one.points]


def of_modes(doc: Document) -> Document:
    """Offloaded forwarding has a mode for each execution, of a chain that follows from it."""
    hosting = doc.data.get("deployment", {}).get("hosting")
    if not isinstance(hosting, dict) or hosting["kind"] != "offload":
        return doc
    executions = [{"name": mode, "model": "rtc"} for mode in hosting["modes"]]
    deployment = {"execution": executions}
    return replace(doc, data={**doc.data, "chain": ["l2fwd"], "deployment": deployment})


def rows(of: list[Deployment], seed: int) -> Iterator[Result]:
    """Each group's points are faster or slower by a factor, each point by a further one."""
    draw = random.Random(seed)
    groups: dict[tuple[str, str], float] = {}
    there: dict[str, bool] = {}
    for one in of:
        if isinstance(one, AppliancePoint):
            # How many graphs there are is asked, too, whatever figures they are in.
            absent = seed and "→" in one.chain and draw.random() < 0.1
            if there.setdefault(one.chain, not absent):
                yield from (seen(one, work.text, draw) for work in one.point.workloads)
            continue
        key = one.chain.rpartition("-")[0], one.execution.name
        slower = groups.setdefault(key, 4 ** draw.uniform(-1, 1)) * 1.5 ** draw.uniform(-1, 1)
        measure = one.study.measure
        goals = [(goal.name, 1e6) for goal in measure.search] + [("max", 0.0)] * measure.max
        for goal, load in (
            *goals,
            *(("fixed", pps) for pps in measure.loads if isinstance(pps, float)),
        ):
            yield row(one, goal, load, slower, draw)


def seen(one: AppliancePoint, workload: str, draw: random.Random) -> Result:
    gbps = draw.uniform(0.1, 9)
    return Result(
        chain=one.chain, direction="forward", repetition=1, execution=one.execution,
        workload=workload, goal="max", load_pps=0, throughput_pps=1e6, throughput_gbps_l1=gbps,
        throughput_gbps_l2=gbps, offered_pps=1e6, sent_pps=1e6, received_pps=1e6, loss_ratio=0,
        audit=Audit(verdict="ok"), application=ApplicationFigures(gbps=gbps),
    )  # fmt: skip


def row(one: Experiment, goal: str, load: float, slower: float, draw: random.Random) -> Result:
    nodes = tuple(node.name for node in one.nodes)
    pipeline = one.execution.model == "pipeline"
    cut = one.execution.segments or (tuple((name,) for name in nodes) if pipeline else (nodes,))
    names = ["chain"] if len(cut) == 1 else [nfs[0] for nfs in cut]
    cycles = 100 * slower * draw.uniform(0.9, 1.1)
    pps, lost = 2e7 / slower, draw.choice([0.0, draw.random()])
    nf_cycles = {node.name: 60 * slower * draw.uniform(0.8, 1.2) for node in one.nodes}
    hosted = one.hosting.chains if one.hosting.kind != "inline" else 1
    frame = one.frame.mean_bytes
    latency = dict.fromkeys(("mean", "min", "p50", "p90", "p99", "p999", "max"), cycles)
    return Result(
        chain=one.chain, direction="forward", repetition=1, execution=one.execution.name,
        workload=one.workload_name, goal=goal, load_pps=load, throughput_pps=pps,
        throughput_gbps_l1=pps * (frame + 20) * 8e-9, throughput_gbps_l2=pps * frame * 8e-9,
        offered_pps=pps, sent_pps=pps, received_pps=pps, loss_ratio=lost, sent=PACKETS,
        received=PACKETS, frame_bytes_mean=frame, nf_cycles=nf_cycles,
        ipdv_ns_mean=60 * slower * draw.uniform(0.8, 1.2), audit=Audit(verdict="ok", findings=(
            Finding(check="updates", ok=True, text="", value=pps),)),
        latency_ns=LatencyNs(**latency),
        anatomy=Anatomy(generator_ns=1, switch_ns=cycles * draw.random(), queue_ns=0,
                        scheduler_ns=0, vnf_ns=1, of_which_back_ns=0),
        segments=tuple(Segment(name=f"s{i}", cpus=(i,), nfs=(), hosting=one.hosting.kind)
                       for i in range(hosted)),
        located=tuple(Located(place=name, segment=name, behind_first=False, samples=1,
                              index=draw.random()) for name in names),
        counters=Counters(
            tsc_hz=HZ,
            workers=tuple(WorkerReading(cpu=i, ref_cycles=HZ, ops_cycles=0, sending_ref_cycles=HZ)
                          for i in range(len(names))),
            replicas=tuple(
                ReplicaReading(
                    segment=name, index=0, cpu=i, ops_cycles=round(cycles * PACKETS),
                    sending_ops_cycles=round(cycles * PACKETS), io_packets=PACKETS,
                    rx_cycles=round(cycles / 3 * PACKETS), tx_cycles=round(cycles / 4 * PACKETS),
                    nfs={nf: NfReading(type="x", packets_in=PACKETS, cycles_packets=PACKETS,
                                       cycles=round(nf_cycles[nf] * PACKETS)) for nf in nfs},
                )
                for i, (name, nfs) in enumerate(zip(names, cut, strict=True))
            ),
        ),
    )  # fmt: skip


def judged(
    folder: Path, of: list[Deployment], claims: dict[str, Claim], seed: int
) -> tuple[JudgedClaim, ...]:
    with BundleWriter(folder) as writer:
        writer.environment(environment())
        for one in rows(of, seed):
            writer.result(one)
    return judge_claims(Bundle(folder), claims, lambda _: None, "somebody")


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES)
def test_rows_confirm_a_claim_and_other_rows_contradict_it(study: str, tmp_path: Path) -> None:
    """A number or a text is held against what the first rows gave, as few rows at random give a
    paper's value; truth has to come out both ways."""
    claims, of = appliances(study) if study == "s4" else experiments(study)
    first = {one.name: one for one in judged(tmp_path / "0", of, claims, 0)}
    unanswered = [name for name, one in first.items() if one.measured is None]
    assert not unanswered
    pinned = {
        name: claim
        if isinstance(claim.value, bool)
        else claim.model_copy(update={
            "published": first[name].measured, "expected": None,
            "tolerance": 0.0 if isinstance(first[name].measured, str) else 0.01})
        for name, claim in claims.items()
    }  # fmt: skip
    seen: dict[str, set[str]] = {name: set() for name in claims}
    for seed in range(DRAWS):
        if all(len(verdicts) == 2 for verdicts in seen.values()):
            break
        for one in judged(tmp_path / f"again-{seed}", of, pinned, seed):
            seen[one.name].add(one.verdict)
    assert seen == {name: {"confirmed", "contradicted"} for name in claims}


def test_graphs_are_counted_without_those_that_are_scaled_out(tmp_path: Path) -> None:
    """The paper has 8 of them (Xu et al. 2022, figure 3); the study's other figures have one of the
    eight with two instances of a VNF, which is no further graph."""
    claims, of = appliances("s4")
    assert sum(" with 2 x " in one.chain for one in of) >= 3
    counted = {one.name: one.measured for one in judged(tmp_path / "b", of, claims, 0)}
    assert counted["graphs-5"] == 8


def test_a_vnfs_share_of_the_bandwidth_is_of_the_same_workload(tmp_path: Path) -> None:
    """Without a VNF TCP streams carry more than HTTP, which is no loss by a cache: by hand, 0.4 of
    1.6 Gbit/s are a loss of 0.75. And where the firewall takes more, it is not the cache."""
    claims, of = appliances("s4")
    claim = {"cache-bottleneck": claims["cache-bottleneck"]}
    vnfs = [one for one in of if isinstance(one, AppliancePoint)]
    [http] = {w.text for one in vnfs if one.chain == "l7-cache alone" for w in one.point.workloads}

    def lost(folder: str, **gbps: float) -> object:
        with BundleWriter(tmp_path / folder) as writer:
            writer.environment(environment())
            for chain, workload, value in (
                ("no VNF", http, 1.6), ("no VNF", "tcp 4 streams", 7.0),
                ("l7-cache alone", http, 0.4), ("ip-firewall alone", http, gbps["firewall"]),
            ):  # fmt: skip
                first = next(rows(of[:1], 0))
                writer.result(first.model_copy(update={
                    "chain": chain, "workload": workload,
                    "application": ApplicationFigures(gbps=value)}))  # fmt: skip
        [one] = judge_claims(Bundle(tmp_path / folder), claim, lambda _: None, "somebody")
        return one.measured

    assert lost("cache", firewall=1.0) == pytest.approx(0.75)
    assert lost("firewall", firewall=0.1) == 0


@pytest.mark.parametrize("study", STUDIES)
def test_no_rows_answer_no_claim(study: str, tmp_path: Path) -> None:
    claims, _ = appliances(study) if study == "s4" else experiments(study)
    assert [
        one.name for one in judged(tmp_path / "b", [], claims, 0) if one.measured is not None
    ] == []


def test_a_report_of_a_studys_points_has_the_studys_name(tmp_path: Path) -> None:
    """Its 112 points are no title; a few chains are."""
    of = list({one.chain: one for one in experiments("s3")[1]}.values())
    for count, title in ((3, "lb-4k-1, lb-40k-1, lb-1m-1"), (20, "s3")):
        with BundleWriter(tmp_path / str(count)) as writer:
            writer.spec("name: s3\nchain: []\n", {})
            for one in of[:count]:
                writer.result(next(rows([one], 0)))
        assert report(Bundle(tmp_path / str(count))).title == title
