# SPDX-License-Identifier: Apache-2.0
"""Which VNF is the narrowest, and how we know (S4 section 5.1).

Three kinds of evidence: the rate of each VNF alone against the baseline without any; what adding
instances of it does to the chain; and how much of the CPU it took in the chain's own trial.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from headrace.graph.draw import one_line
from headrace.testbed.containers.measure import Row

_NOTICEABLE = 0.1  # differences below are not called differences on a shared machine


@dataclass(frozen=True)
class Statement:
    """For one network and workload: the bottleneck, if one can be named, and the evidence."""

    network: str
    workload: str
    vnf: str | None
    sentences: tuple[str, ...]


def statements(rows: Sequence[Row]) -> list[Statement]:
    keys = dict.fromkeys((row.point.network, row.result.workload) for row in rows)
    return [
        _statement(network, workload, [
            row for row in rows if (row.point.network, row.result.workload) == (network, workload)
        ])
        for network, workload in keys
    ]  # fmt: skip


def rate(rows: Sequence[Row]) -> float:
    """Median goodput over repetitions, Gbit/s."""
    return median(row.result.application.gbps for row in rows if row.result.application)


def _by(rows: Sequence[Row], role: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.point.role == role:
            found.setdefault(row.point.subject or row.point.name, []).append(row)
    return found


def _statement(network: str, workload: str, rows: Sequence[Row]) -> Statement:
    sentences: list[str] = []
    doubtful = sum(not row.result.audit.trusted for row in rows)
    if doubtful:
        sentences.append(
            f"{doubtful} of {len(rows)} measurements are suspect (see the evidence): what follows "
            "is to be repeated before it is believed."
        )
    vnf, alone = _narrowest_alone(rows, sentences)
    busiest = _busiest(rows, sentences)
    _scaling(rows, sentences)
    if vnf is None:
        vnf = busiest
        if busiest is not None and alone:
            sentences.append(
                f"No VNF alone lowers the rate by {_NOTICEABLE:.0%}; {busiest} takes the most CPU."
            )
    return Statement(network, workload, vnf, tuple(sentences))


def _narrowest_alone(
    rows: Sequence[Row], sentences: list[str]
) -> tuple[str | None, dict[str, float]]:
    alone = {vnf: rate(some) for vnf, some in _by(rows, "alone").items()}
    baseline = [row for row in rows if row.point.role == "baseline"]
    if not alone:
        return None, alone
    vnf = min(alone, key=lambda name: alone[name])
    sentences.append(
        "Alone: " + ", ".join(f"{n} {g:.2f}" for n, g in sorted(alone.items(), key=lambda i: i[1]))
        + " Gbit/s."
    )  # fmt: skip
    if not baseline:
        return vnf, alone
    without = rate(baseline)
    lost = 1 - alone[vnf] / without
    sentences.append(f"Without any VNF: {without:.2f} Gbit/s; {vnf} alone loses {lost:.0%} of it.")
    return (vnf if lost >= _NOTICEABLE else None), alone


def _busiest(rows: Sequence[Row], sentences: list[str]) -> str | None:
    """By the CPU that its containers used in the chains' trials."""
    used: dict[str, list[float]] = {}
    for row in rows:
        if row.point.role != "chain" or row.result.application is None:
            continue
        kinds = {n.name: n.vnf for n in row.point.layout.of_kind("routed", "proxy", "leaf")}
        total: dict[str, float] = {}
        for name, cpus in row.result.application.cpu.items():
            if name in kinds:
                total[kinds[name]] = total.get(kinds[name], 0.0) + cpus
        for kind, cpus in total.items():
            used.setdefault(kind, []).append(cpus)
    if not used:
        return None
    medians = {kind: median(values) for kind, values in used.items()}
    busiest = max(medians, key=lambda kind: medians[kind])
    sentences.append(
        f"In the chains, of {os.cpu_count()} CPUs: "
        + ", ".join(f"{k} {v:.2f}" for k, v in sorted(medians.items(), key=lambda i: -i[1]))
        + ". Forwarding in the kernel is charged to no container."
    )
    return busiest


def _scaling(rows: Sequence[Row], sentences: list[str]) -> None:
    """Each chain for itself: rows of one chain differ in the number of instances only."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.point.role == "scale-out":
            chain = one_line(row.point.graph)
            groups.setdefault((row.point.subject, chain), []).append(row)
    for (vnf, chain), some in groups.items():
        counts = sorted({row.point.instances for row in some})
        rates = {n: rate([r for r in some if r.point.instances == n]) for n in counts}
        listed = ", ".join(f"{n}: {rates[n]:.2f}" for n in counts)
        text = f"{vnf} of {chain} with {listed} Gbit/s"
        first = rates[counts[0]]
        if len(counts) > 1 and first:
            gain = rates[counts[-1]] / first - 1
            verdict = "raises" if gain >= _NOTICEABLE else "does not raise"
            text += f": adding instances {verdict} the rate ({gain:+.0%})"
        sentences.append(text + ".")
