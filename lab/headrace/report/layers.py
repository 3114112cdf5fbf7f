# SPDX-License-Identifier: Apache-2.0
"""The layers' part of a report: NfvInsight's metrics, the stack's stages, softirqs, the
diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from headrace.analyse.diagnosis import Diagnosis
from headrace.analyse.rule_evidence import deployment
from headrace.analyse.rules import SURROUNDINGS, explain
from headrace.analyse.units import plural
from headrace.collect.layers import Goodput, LayerFigure, Windows, figures
from headrace.collect.samples import Samples
from headrace.collect.stack.result import StackTrace
from headrace.collect.watch import STACK_ABSENT, stack_file, trial_times
from headrace.record.own import sample_record, sample_text
from headrace.record.rows import Result
from headrace.report.charts.stack import softirqs, stages
from headrace.report.document_model import (
    Block,
    Chart,
    Column,
    Folded,
    Heading,
    Items,
    Section,
    Table,
    Text,
)

_DIAGNOSES = 6  # the gravest of them


@dataclass(frozen=True)
class Layers:
    """What one folder of samples says."""

    trials: dict[int, list[LayerFigure]]
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
    files = {0: stack_file()} | {t.trial: stack_file(t.trial) for t in times}
    told = {trial: sample_record(folder, name, StackTrace) for trial, name in files.items()}
    stacks = {trial: stack for trial, stack in told.items() if stack is not None}
    whole = stacks.get(0)
    absent = sample_text(folder, STACK_ABSENT)
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
        stack_absent="it was not asked for" if absent is None else absent.strip(),
        costs={layer: facts.cost.share_of_one_cpu for layer, facts in samples.layers.items()},
        diagnoses=tuple(explain(*deployment(folder, results).evidence, rules=SURROUNDINGS)),
    )


def sections(path: Path, results: Sequence[Result]) -> tuple[Section, ...]:
    """All that was watched in a run: one deployment's in samples/ itself, or several."""
    below = sorted(p for p in (path / "samples").glob("[0-9]*") if p.is_dir())
    each = [(p, read(p, goodput(results), results)) for p in (path / "samples", *below)]
    watched = [(p, layers) for p, layers in each if layers is not None]
    blocks: tuple[Block, ...] = ()
    for folder, layers in watched:
        if folder.name == "samples":
            blocks += tuple(shown(layers))
        else:
            title = deployment(folder, results).title
            blocks += (Folded(title or folder.name, "", tuple(shown(layers))),)
    return (Section("Layers", blocks=blocks, on="page"),) if blocks else ()


def goodput(results: Sequence[Result]) -> dict[int, Goodput]:
    """Goodput by trial, as the load generators say it."""
    return {
        r.trial: Goodput(r.application.gbps, r.latency_ns.mean / 1e9 if r.latency_ns else None)
        for r in results
        if r.application is not None and r.trial is not None
    }


def shown(layers: Layers) -> Iterator[Block]:
    yield from _diagnoses(layers.diagnoses)
    yield _metrics(layers)
    yield Heading("The packets' way through the kernel")
    yield from _stacks(layers)
    yield Text(_costs(layers))


def _diagnoses(diagnoses: tuple[Diagnosis, ...]) -> Iterator[Block]:
    if not diagnoses:
        yield Text("Nothing that was counted shows what the limit is.")
        return
    yield Items(
        tuple(
            "\n".join(
                (f"{d.rule}: {d.text}.", *(f"{e}." for e in d.evidence),
                 f"What would move it: {d.remedy}")
            )
            for d in diagnoses[:_DIAGNOSES]
        )
    )  # fmt: skip


def _metrics(layers: Layers) -> Table:
    """The median over the trials; places are those of the trial nearest to it, which is named."""
    each = list(layers.trials.values())
    over = "the whole run" if 0 in layers.trials else f"median of {plural(len(each), 'trial')}"
    rows = []
    for number, first in enumerate(each[0]):
        known = {t: v for t, f in layers.trials.items() if (v := f[number].value) is not None}
        places = _places(layers, number, known) if known else first.absent
        middle = f"{median(known.values()):.4g} {first.unit}" if known else None
        rows.append((first.layer, first.name, middle, places))
    columns = (
        "layer",
        Column("metric", "text"),
        over,
        Column("by place, or why not", "text"),
    )
    return Table(columns, tuple(rows))


def _places(layers: Layers, number: int, known: Mapping[int, float]) -> str:
    """They add up to that trial's figure, which need not be the median."""
    middle = median(known.values())
    trial = min(known, key=lambda t: abs(known[t] - middle))
    figure = layers.trials[trial][number]
    if not figure.detail or len(layers.trials) == 1:
        return figure.detail
    return f"trial {trial}, {known[trial]:.4g} {figure.unit}".rstrip() + f": {figure.detail}"


def _stacks(layers: Layers) -> Iterator[Block]:
    if not layers.stacks:
        yield Text(f"Not traced: {layers.stack_absent}")
    elif len(layers.stacks) == 1:
        yield from _stack(next(iter(layers.stacks.values())))
    else:
        for trial, stack in layers.stacks.items():
            yield Folded(f"Trial {trial}", "", tuple(_stack(stack)))


def _stack(stack: StackTrace) -> Iterator[Block]:
    told = (
        f"{stack.packets['sampled']} of {stack.packets['first_stage']} packets followed; lost "
        f"events: {stack.lost_total}."
    )
    if stack.whole_way is not None and stack.whole_way.begun:
        told = " ".join((told, *stack.whole_way.sentences()))
    yield Text(told)
    ways = stages(stack.stages)
    yield Chart(ways) if ways.bars(0) else Text("No packet passed two stages.")
    yield Heading("Softirqs")
    yield Chart(softirqs(stack.softirq)) if stack.softirq else Text("No softirq ran.")


def _costs(layers: Layers) -> str:
    shares = [f"{layer} {share:.2%}" for layer, share in layers.costs.items()]
    programs = sum(stack.program_ns() for stack in layers.stacks.values())
    if programs:
        share = programs / sum(stack.duration_s * 1e9 for stack in layers.stacks.values())
        shares.append(f"stack tracer {share:.2%}")
    return f"Cost of watching, of one CPU: {', '.join(shares)}."
