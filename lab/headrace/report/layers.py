# SPDX-License-Identifier: Apache-2.0
"""The layers' part of a report: S4's metrics, the stack's stages, softirqs, the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median

from headrace.analyse.diagnosis import Diagnosis
from headrace.analyse.evidence import deployment
from headrace.analyse.rules import explain
from headrace.analyse.units import percent, plural
from headrace.collect.layers import Figure, Goodput, Windows, figures
from headrace.collect.samples import Samples
from headrace.collect.stack.result import SoftirqCpu, StackTrace, StageLatency
from headrace.collect.stack.show import time_text
from headrace.collect.watch import STACK_ABSENT, stack_file, trial_times
from headrace.host.store import load
from headrace.record.rows import Result
from headrace.report.charts import svg

_STAGES = 12
_VECTORS = {
    "NET_RX": "#2f6fab",
    "NET_TX": "#7aa7d8",
    "TIMER": "#c9b458",
    "RCU": "#8a8",
    "SCHED": "#b77",
}


@dataclass(frozen=True)
class Layers:
    """What one folder of samples says."""

    trials: dict[int, list[Figure]]
    stacks: dict[int, StackTrace]  # by trial; 0: of the whole time
    stack_absent: str
    costs: dict[str, float]  # layer: share of one CPU
    diagnoses: tuple[Diagnosis, ...]


def read(
    folder: Path, goodput: Mapping[int, Goodput], results: Sequence[Result] = ()
) -> Layers | None:
    """None where nothing was sampled."""
    samples = Samples(folder)
    if not samples.present:
        return None
    times = trial_times(folder)
    files = {0: folder / stack_file()} | {t.trial: folder / stack_file(t.trial) for t in times}
    stacks = {trial: load(file, StackTrace) for trial, file in files.items() if file.is_file()}
    whole = stacks.get(0)
    absent = folder / STACK_ABSENT
    return Layers(
        trials={
            t.trial: figures(
                Windows.within(samples, t.begin_ns, t.end_ns),
                goodput.get(t.trial),
                stacks.get(t.trial, whole),
            )
            for t in times
        }
        or {0: figures(Windows.within(samples), None, whole)},
        stacks=stacks,
        stack_absent=absent.read_text().strip() if absent.is_file() else "it was not asked for",
        costs={
            layer: facts["cost"]["share_of_one_cpu"]
            for layer, facts in samples.about["layers"].items()
        },
        diagnoses=tuple(explain(*deployment(folder, results).evidence)),
    )


def of_bundle(path: Path) -> str:
    """All that was watched in an engine's run: one deployment's in samples/ itself, or several."""
    below = sorted(p for p in (path / "samples").glob("[0-9]*") if p.is_dir())
    found = [(p.name, read(p, {})) for p in (path / "samples", *below)]
    return "".join(
        fragment("" if name == "samples" else f"Deployment {int(name)}", layers)
        for name, layers in found
        if layers is not None
    )


def fragment(title: str, layers: Layers) -> str:
    """HTML, to stand in a page of any style."""
    return (
        f"{f'<h3>{escape(title)}</h3>' if title else ''}"
        f"{_diagnoses(layers.diagnoses)}{_metrics(layers)}"
        f"<h4>The packets' way through the kernel</h4>{_stack(layers)}"
        f"{_costs(layers)}"
    )


def _diagnoses(found: tuple[Diagnosis, ...]) -> str:
    if not found:
        return "<p>Nothing that was counted shows what the limit is.</p>"
    items = "".join(
        f"<li><b>{escape(d.rule)}</b>: {escape(d.text)}."
        f"{''.join(f'<br>{escape(t)}' for t in d.evidence)}"
        f"<br>What would move it: {escape(d.remedy)}</li>"
        for d in found[:6]
    )
    return f"<ol>{items}</ol>"


def _metrics(layers: Layers) -> str:
    """The median over the trials; places are those of the trial nearest to it, which is named."""
    each = list(layers.trials.values())
    over = "the whole run" if 0 in layers.trials else f"median of {plural(len(each), 'trial')}"
    rows = []
    for number, first in enumerate(each[0]):
        known = {t: v for t, f in layers.trials.items() if (v := f[number].value) is not None}
        if known:
            cells = (
                f"<td>{median(known.values()):.4g} {escape(first.unit)}</td>"
                f"<td>{escape(_places(layers, number, known))}</td>"
            )
        else:
            cells = f"<td>–</td><td>{escape(first.absent)}</td>"
        rows.append(f"<tr><td>{first.layer}</td><td>{escape(first.name)}</td>{cells}</tr>")
    return (
        f"<table><tr><th>layer</th><th>metric</th><th>{over}</th><th>by "
        f"place, or why not</th></tr>{''.join(rows)}</table>"
    )


def _places(layers: Layers, number: int, known: Mapping[int, float]) -> str:
    """They add up to that trial's figure, which need not be the median."""
    middle = median(known.values())
    trial = min(known, key=lambda t: abs(known[t] - middle))
    figure = layers.trials[trial][number]
    if not figure.detail or len(layers.trials) == 1:
        return figure.detail
    return f"trial {trial}, {known[trial]:.4g} {figure.unit}".rstrip() + f": {figure.detail}"


def _stack(layers: Layers) -> str:
    if not layers.stacks:
        return f"<p>Not traced: {escape(layers.stack_absent)}</p>"
    if len(layers.stacks) == 1:
        return _one_stack(next(iter(layers.stacks.values())))
    return "".join(
        f"<details><summary>Trial {trial}</summary>{_one_stack(stack)}</details>"
        for trial, stack in layers.stacks.items()
    )


def _one_stack(stack: StackTrace) -> str:
    told = (
        f"{stack.packets['sampled']} of {stack.packets['first_stage']} packets followed; lost "
        f"events: {stack.lost_total}."
    )
    if stack.whole_way is not None and stack.whole_way.begun:
        told = " ".join((told, *stack.whole_way.sentences()))
    return f"<p>{told}</p>{stages_picture(stack)}<h4>Softirqs</h4>{softirq_picture(stack.softirq)}"


def stages_picture(stack: StackTrace) -> str:
    """Where the packets' time goes: a bar as long as a stage's sum, its mean and p99 beside it."""
    merged = _by_stage(stack.stages)
    shown = sorted(merged.items(), key=lambda item: -item[1][1])[:_STAGES]
    if not shown:
        return "<p>No packet passed two stages.</p>"
    total = sum(s for _, (_, s, _) in merged.items()) or 1
    parts, high = [], 22
    scale = svg.linear(0, shown[0][1][1] / total, 0, 260)
    for i, ((begin, to), (count, sum_ns, p99)) in enumerate(shown):
        y = 4 + i * high
        says = f"{percent(sum_ns / total, 2)}, mean {time_text(sum_ns / count)}, "
        says += f"p99 {time_text(p99)}"
        parts.append(svg.text(0, y + 13, f"{begin} → {to}", font_size=12))
        parts.append(svg.rect(330, y + 2, scale(sum_ns / total), 14, fill="#7aa7d8"))
        parts.append(svg.text(336 + scale(sum_ns / total), y + 13, says, font_size=12))
    label = "share of all packets' time by stage"
    return svg.picture(820, 8 + high * len(shown), label, *parts)


def _by_stage(rows: tuple[StageLatency, ...]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Over devices and namespaces: packets, time, the highest p99."""
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for r in rows:
        count, sum_ns, p99 = found.get((r.begin, r.to), (0, 0, 0))
        found[r.begin, r.to] = (count + r.count, sum_ns + r.sum_ns, max(p99, r.p99_ns))
    return {key: value for key, value in found.items() if value[0]}


def softirq_picture(cores: tuple[SoftirqCpu, ...]) -> str:
    """S4 table 3: each core's share of time by vector."""
    if not cores:
        return "<p>No softirq ran.</p>"
    parts, high = [], 24
    for i, core in enumerate(cores):
        x, y = 60.0, 4 + i * high
        parts.append(svg.text(0, y + 13, f"CPU {core.cpu}", font_size=12))
        for name, colour in _VECTORS.items():
            vector = core.vectors.get(name)
            if vector is None:
                continue
            wide = 500 * vector.share
            title = svg.title(f"{name} {percent(vector.share)}")
            parts.append(svg.rect(x, y + 2, wide, 14, title, fill=colour))
            x += wide
        share = sum(v.share for v in core.vectors.values())
        most = max(core.vectors.items(), key=lambda item: item[1].share, default=None)
        says = percent(share)
        says += f", mostly {most[0]} {percent(most[1].share)}" if most else ""
        parts.append(svg.text(x + 6, y + 13, says, font_size=12))
    return svg.picture(820, 8 + high * len(cores), "softirq time by CPU", *parts)


def _costs(layers: Layers) -> str:
    said = [f"{layer} {share:.2%}" for layer, share in layers.costs.items()]
    programs = sum(stack.program_ns() for stack in layers.stacks.values())
    if programs:
        share = programs / sum(stack.duration_s * 1e9 for stack in layers.stacks.values())
        said.append(f"stack tracer {share:.2%}")
    return f"<p>Cost of watching, of one CPU: {escape(', '.join(said))}.</p>"
