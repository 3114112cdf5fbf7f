# SPDX-License-Identifier: Apache-2.0
"""S3's figure 5: run to completion, pipeline and what is planned, over frame sizes."""

from __future__ import annotations

from cuts import (
    FLOWS,
    MEMORY_MB,
    NAMES,
    ORIGIN,
    PUBLISHED,
    Budget,
    Cut,
    Point,
    budget,
    fastest,
    pipeline,
    rtc,
    spec,
)

from headrace.analyse.units import pps, significant
from headrace.layout import search
from headrace.layout.layout import Layout, throughput
from headrace.profile import chain as costs
from headrace.profile import point as points
from headrace.profile import studied
from headrace.profile.point import Bench
from headrace.profile.studied import Run
from headrace.report.charts.lines import Axes, Series
from headrace.report.comparison import Entry, section, text
from headrace.report.document import Section, Table

FRAMES = (64, 128, 256, 512, 1024, 1518)
FRAME_AXIS = "frame, bytes"


def figure5(bench: Bench, cpus: list[int], say: studied.Say) -> tuple[Section, Section]:
    of = budget(cpus)
    cuts = {"RTC": rtc(of), "pipeline": pipeline(of), **planned(bench, of, say)}
    different = list(dict.fromkeys(cuts.values()))  # what is the same runs once
    wanted = [Point(cut, frame, FLOWS) for frame in FRAMES for cut in different]
    say(f"figure 5, {len(wanted)} points in turn")
    runs = dict(zip(wanted, fastest(bench, wanted, of.traffic), strict=True))
    found = {(name, f): runs[Point(cut, f, FLOWS)] for name, cut in cuts.items() for f in FRAMES}
    return throughputs(cuts, found, of), ratios(found, of)


def throughputs(cuts: dict[str, Cut], found: dict[tuple[str, int], Run], of: Budget) -> Section:
    large = PUBLISHED["equal_large"]
    entries = [
        Entry(f"{frame} B, {name}", run.carries_pps / 1e6)
        for (name, frame), run in sorted(found.items(), key=lambda item: item[0][1])
    ]
    entries.append(
        Entry("1024 B and more, Gbit/s", None, text(large["gbps"]), "there is no NIC to fill here")
    )
    lines = [
        Series(name, tuple((float(f), found[name, f].carries_pps / 1e6) for f in FRAMES))
        for name in cuts
    ]
    layouts = "; ".join(f"{name}: {cut}" for name, cut in cuts.items())
    made = section(
        "Figure 5: throughput over frame sizes",
        f"90 flows, steered evenly; {len(of.chain)} lcores for each model, the paper's 18: as many "
        f"pipelines as they are, each stage with as many replicas. {layouts}. What the chain's "
        "busiest lcore has cycles for; source and sink, and the rate with them, are in the second "
        "table.",
        entries,
        "Mpps",
        lines,
        Axes(FRAME_AXIS, "Mpps"),
    )
    return made.plus(apart(found))


def apart(found: dict[tuple[str, int], Run]) -> Table:
    """What traffic costs is no cost of the chain."""
    rows = [
        (
            f"{frame} B, {name}",
            significant(run.source),
            significant(run.chain),
            significant(run.sink),
            f"{run.source / (run.source + run.chain + run.sink):.0%}",
            f"{run.sink / (run.source + run.chain + run.sink):.0%}",
            pps(run.throughput_pps),
        )
        for (name, frame), run in sorted(found.items(), key=lambda item: item[0][1])
    ]
    columns = (
        "cycles per packet",
        "source",
        "chain",
        "sink",
        "source's part",
        "sink's",
        "rate with them",
    )
    return Table(columns, tuple(rows))


def ratios(found: dict[tuple[str, int], Run], of: Budget) -> Section:
    ratio = PUBLISHED["rtc_over_pipeline"]
    low, high = ratio["frames"]
    least, most = ratio["ratio"]
    others = [name for name in dict.fromkeys(n for n, _ in found) if name != "pipeline"]
    entries, lines = [], []
    for name in others:
        line = [(float(f), found[name, f].carries_over(found["pipeline", f])) for f in FRAMES]
        lines.append(Series(f"{name} over pipeline", tuple(line)))
        for frame, value in line:
            published = None
            if name == "RTC":
                published = text(ratio["ratio"]) if low <= frame <= high else "1 (line rate)"
            # Here nothing but cycles limits large frames; the paper's NIC made both alike.
            unlike = of.unlike if frame <= high else "there is no NIC's line rate here"
            entries.append(
                Entry(f"{frame:g} B, {name} over pipeline", value, published, "", unlike)
            )
            through = found[name, int(frame)].over(found["pipeline", int(frame)])
            entries.append(Entry(f"{frame:g} B, {name} over pipeline, with the traffic", through))
    lines += [
        Series(f"published, {words}", ((float(low), value), (float(high), value)), marks=False)
        for words, value in (("least", least), ("most", most))
    ]
    return section(
        "Figure 5: over the pipeline",
        "Medians of the rounds' ratios. The paper states a range for 64 to 512 B on 18 lcores, and "
        "that both reach the line rate from 1024 B on.",
        entries,
        "ratio",
        lines,
        Axes(FRAME_AXIS, "ratio"),
    )


def planned(bench: Bench, of: Budget, say: studied.Say) -> dict[str, Cut]:
    """For 64 B: the layout that is predicted to do most, and the best that is neither run to
    completion nor a pipeline."""
    data = spec(rtc(of), of.traffic, 64, FLOWS)
    cpus = sorted({*of.traffic, *of.chain})
    data["deployment"] = {"steer": "even", "memory_mb": MEMORY_MB}
    doc, experiment = points.experiment_of(data, ORIGIN)
    problem = costs.problem(bench, doc, experiment, cpus, say).problem
    best = search.best(problem).layout
    hybrids = [one for one in search.layouts(problem) if 1 < len(one.cuts) < len(NAMES)]
    hybrid = max(hybrids, key=lambda one: throughput(problem, one))
    found = {"planned hybrid": cut(hybrid)}
    return found if best == hybrid else {"planned": cut(best), **found}


def cut(layout: Layout) -> Cut:
    return Cut(layout.groups(NAMES), layout.lcores)
