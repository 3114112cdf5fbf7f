# SPDX-License-Identifier: Apache-2.0
"""Which VNF is the narrowest, and how we know (NfvInsight section 5.1).

The kinds of evidence, the strongest first: what more instances, or more CPU, of one VNF do to the
whole chain; the rate of each VNF alone against the baseline without any; who used up the CPU that
it may have; and how much of the CPU each took in the chains' own trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from headrace.analyse.beside import Compared, read_compared
from headrace.analyse.reached import NOTICEABLE, Rate, Reached, rate
from headrace.analyse.units import percent
from headrace.graph.draw import one_line
from headrace.record.bundle import Bundle
from headrace.record.deployment import swept_text
from headrace.record.figures import ApplicationFigures

_BUSY_CPUS = 0.1  # a VNF that took less has not earned its name here
_FULL = 0.9  # of all CPUs
_USED_UP = 0.9  # of its `cpus`: the rest is what a VNF waited for in between


def compared(reached: Sequence[Reached], cpus: int | None = None) -> list[Compared]:
    """Names for each network and workload the bottleneck, if one can be named, and the evidence.
    `cpus`: of the machine, where that is known."""
    groups: dict[tuple[str, str], list[Reached]] = {}
    for one in reached:
        groups.setdefault((one.deployed.network, one.workload), []).append(one)
    return [_compared(*key, _of_one_load(some), cpus) for key, some in groups.items()]


def _of_one_load(reached: Sequence[Reached]) -> list[Reached]:
    """Takes the maximum of several loads, or the highest: what came of different ones says nothing
    of the VNFs."""

    def rank(one: Reached) -> tuple[bool, bool, float]:
        first = one.results[0]
        fixed = first.goal == "fixed"
        return first.goal == "max", not fixed, first.load_pps if fixed else 0.0

    goal = max(reached, key=rank).goal
    return [one for one in reached if one.goal == goal]


def compared_in(bundle: Bundle, reached: Sequence[Reached]) -> tuple[Compared, ...]:
    """What a bundle's deployments say; older ones keep the outcome alone."""
    if not reached:
        return read_compared(bundle.path / "samples")
    environment = bundle.environment
    return tuple(compared(reached, environment.cpus if environment else None))


def _compared(
    network: str, workload: str, reached: Sequence[Reached], cpus: int | None
) -> Compared:
    sentences: list[str] = []
    doubtful = sum(bool(one.verdict) for one in reached)
    if doubtful:
        failed = Counter(
            f.check for one in reached for r in one.results for f in r.audit.findings if not f.ok
        )
        why = "".join(f", {check} ({count})" for check, count in failed.most_common())
        sentences.append(
            f"{doubtful} of {len(reached)} measurements are suspect{why} (see the evidence): what "
            "follows is to be repeated before it is believed."
        )
    scaled = _scaling(reached, sentences)
    narrowest = _narrowest_alone(reached, sentences)
    exhausted = _exhausted(reached, sentences)
    busiest = _busiest(reached, sentences, cpus)
    in_vain = {vnf for vnf, _ in scaled_out(reached)} - {scaled}
    if scaled is None and narrowest in in_vain and busiest not in {None, *_vnfs(reached)}:
        sentences.append(
            f"More of {narrowest}, which is the narrowest alone, changes nothing, and {busiest}, "
            "which forwards between the VNFs, takes more CPU than any of them."
        )
        narrowest = busiest
    vnf = scaled or narrowest or exhausted or busiest
    if vnf is not None and vnf == busiest and not (scaled or narrowest or exhausted):
        sentences.append(f"What names {vnf} is its CPU time alone: the weakest evidence.")
    return Compared(
        network=network, workload=workload, vnf=vnf, sentences=tuple(sentences),
        doubtful=bool(doubtful),
    )  # fmt: skip


def _vnfs(reached: Sequence[Reached]) -> set[str]:
    return {vnf for one in reached for vnf in one.deployed.kinds().values()}


def _narrowest_alone(reached: Sequence[Reached], sentences: list[str]) -> str | None:
    alone = {one.deployed.subject: one.rate for one in reached if one.deployed.role == "alone"}
    baseline = next((one.rate for one in reached if one.deployed.role == "baseline"), None)
    if not alone:
        return None
    ordered = sorted(alone, key=lambda name: alone[name].median)
    sentences.append("Alone: " + ", ".join(f"{name} {alone[name]}" for name in ordered) + ".")
    narrowest = ordered[0]
    if baseline is None:
        return narrowest
    lost = -alone[narrowest].gain(baseline)
    sentences.append(
        f"Without any VNF: {baseline}; {narrowest} alone loses {percent(lost, 2)} of it."
    )
    if baseline.above(alone[narrowest]):
        return narrowest
    sentences.append("That is no more than repetitions differ by: no VNF is narrow alone.")
    return None


def _exhausted(reached: Sequence[Reached], sentences: list[str]) -> str | None:
    """The VNF that used up the CPU which it may have, in the chains' trials."""
    shares: dict[str, list[float]] = {}
    for one in (s for s in reached if s.deployed.role == "chain"):
        kinds = one.deployed.kinds()
        for result in one.results:
            for name, share in (result.application.quota if result.application else {}).items():
                shares.setdefault(kinds[name], []).append(share)
    medians = {vnf: median(values) for vnf, values in shares.items()}
    if not medians:
        return None
    sentences.append(
        "Of the CPU that each may have (`cpus`): "
        + ", ".join(f"{v} {percent(s, 2)}" for v, s in sorted(medians.items(), key=lambda i: -i[1]))
        + "."
    )
    most = max(medians, key=lambda vnf: medians[vnf])
    return most if medians[most] >= _USED_UP else None


def _busiest(reached: Sequence[Reached], sentences: list[str], here: int | None) -> str | None:
    """Goes by the CPU that its containers used in the chains' trials, the kernel's work on their
    packets included; what forwards between them counts as well, by its name."""
    used: dict[str, list[float]] = {}
    all_: list[float] = []
    charged = True
    for result, nodes, kinds in (
        (
            result,
            set(one.deployed.nodes),
            one.deployed.kinds("routed", "proxy", "leaf"),
        )
        for one in reached
        if one.deployed.role == "chain"
        for result in one.results
    ):
        cpu = _cpus(result.application)
        charged &= bool(result.application and result.application.stack)
        all_.append(sum(cpu.values()))
        total: dict[str, float] = {}
        for name, cpus in cpu.items():
            kind = kinds.get(name) if name in nodes else name
            if kind is not None:
                total[kind] = total.get(kind, 0.0) + cpus
        for kind, cpus in total.items():
            used.setdefault(kind, []).append(cpus)
    if not used:
        return None
    medians = {kind: median(values) for kind, values in used.items()}
    busiest = max(medians, key=lambda kind: medians[kind])
    sentences.append(
        f"In the chains, of {here or 'all'} CPUs: "
        + ", ".join(f"{k} {v:.2f}" for k, v in sorted(medians.items(), key=lambda i: -i[1]))
        + (
            ", with the kernel's work on their packets."
            if charged
            else ". Forwarding in the kernel is charged to no container."
        )
    )
    if here and median(all_) >= _FULL * here:
        sentences.append(
            f"Containers, clients and servers took {median(all_):.2f} CPUs together: what the "
            "chains could do on more CPUs this machine cannot say."
        )
    return busiest if medians[busiest] >= _BUSY_CPUS else None


def _cpus(application: ApplicationFigures | None) -> dict[str, float]:
    """CPUs of processes and of the stack together."""
    if application is None:
        return {}
    names = dict.fromkeys((*application.cpu, *application.stack))
    return {
        name: application.cpu.get(name, 0.0) + application.stack.get(name, 0.0) for name in names
    }


def scaled_out(reached: Sequence[Reached]) -> dict[tuple[str, str], dict[int, Reached]]:
    """(VNF, chain) -> instances -> what was measured, on one network with one workload.

    Each chain for itself: what is compared differs in the number of instances only.
    """
    groups: dict[tuple[str, str], dict[int, Reached]] = {}
    for one in reached:
        if one.deployed.role == "scale-out":
            key = (one.deployed.subject, one_line(one.deployed.graph))
            groups.setdefault(key, {})[one.deployed.instances] = one
    for (vnf, chain), by_count in groups.items():
        for one in reached:
            if one.deployed.role == "chain" and one_line(one.deployed.graph) == chain:
                count = list(one.deployed.kinds().values()).count(vnf)
                by_count.setdefault(count, one)
    return {key: dict(sorted(by_count.items())) for key, by_count in groups.items()}


def _scaling(reached: Sequence[Reached], sentences: list[str]) -> str | None:
    gains: dict[str, float] = {}
    for (vnf, chain), by_count in scaled_out(reached).items():
        rates = {count: one.rate for count, one in by_count.items()}
        counts = list(rates)
        listed = ", ".join(f"{n}: {rates[n]}" for n in counts)
        gain, raised = _compare(rates[counts[0]], [rates[n] for n in counts[1:]])
        sentences.append(f"{vnf} of {chain} with {listed}{_verdict(gain, raised, 'instances')}.")
        if raised:
            gains[vnf] = max(gain, gains.get(vnf, 0.0))
    return max(gains, key=lambda vnf: gains[vnf]) if gains else None


def _compare(first: Rate, more: Sequence[Rate]) -> tuple[float, bool]:
    best = max(more, key=lambda one: one.median, default=first)
    return best.gain(first), best.above(first)


def _verdict(gain: float, raised: bool, what: str) -> str:
    raises = "raises" if raised else "does not clearly raise"
    return f": adding {what} {raises} the rate ({gain:+.0%})"


def scale_up(reached: Sequence[Reached]) -> list[str]:
    """What a sweep over one VNF's CPUs, memory or parameters did to each chain, all else equal."""
    groups: dict[tuple[str, ...], list[tuple[object, Reached]]] = {}
    for one in reached:
        for path, value in one.deployed.swept:
            others = swept_text(tuple((p, v) for p, v in one.deployed.swept if p != path))
            if path.startswith("vnfs.") and one.deployed.role in ("chain", "alone"):
                base = one.workload.removesuffix(swept_text(one.deployed.swept))
                name = f"{one.deployed.role} {one.deployed.chain}"
                key = (path, one.deployed.network, base, name, others, one.goal)
                groups.setdefault(key, []).append((value, one))
    sentences = []
    for (path, network, base, name, others, _), some in groups.items():
        if len(some) < 2 or path.split(".")[1] not in some[0][1].deployed.kinds().values():
            continue
        rates = [(value, rate(one.results)) for value, one in some]
        low = min(rates, key=lambda item: item[1].median)
        high = max(rates, key=lambda item: item[1].median)
        differs = high[1].above(low[1])
        sentences.append(
            f"{network}, {base}{others}: {name} with {path} = "
            + ", ".join(f"{value}: {one}" for value, one in rates)
            + (
                f": {high[0]} instead of {low[0]} gives {high[1].gain(low[1]):+.0%}."
                if differs
                else f": no difference beyond {NOTICEABLE:.0%} and what repetitions differ by."
            )
        )
    return sentences
