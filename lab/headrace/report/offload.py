# SPDX-License-Identifier: Apache-2.0
"""What offloaded forwarding keeps and gains, and what routing daemons reach, as documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.record.verdict import Audit, Finding
from headrace.report.document import AtLeast, Cell, Column, Document, Items, Row, Section, Table

Json = dict[str, Any]


class Aim(NamedTuple):
    """What offloading is to keep or gain: the mode's throughput over another's."""

    mode: str
    key: str
    at_least: float
    text: str


AIMS = (
    Aim("offload", "of_bare_metal", 0.95, "of bare metal's"),
    Aim("offload", "times_conventional", 5.0, "times the best conventional mode's"),
    Aim("offload-updates", "of_still", 0.80, "of the same without updates"),
)


DISAGREE = 0.25  # of the median: the machine's doing
_RATE = (Column("throughput", "rate", digits=4), Column("spread", "share", digits=2))
_RATIOS = (Column("of bare metal", "share"), Column("times conventional"))


def document(name: str, rows: Sequence[Json]) -> Document:
    load = f"{rows[0]['load_pps']:.0f}"
    sections = [
        Section("Saturation throughput", f"Delays and loss at {load} packets/s.", (_most(rows),)),
        *(_goal(goal, rows) for goal in rows[0]["goals"]),
        Section("What it comes to", blocks=(Items((*verdicts(rows), *remarks(rows))),)),
    ]
    return Document(name, f"delays and loss at {load} packets/s", sections=tuple(sections))


def _most(rows: Sequence[Json]) -> Table:
    columns = (
        Column("mode", "text"),
        *_RATE,
        Column("cycles"),
        *_RATIOS,
        Column("updates", unit="per s"),
        Column("p50", "time"),
        Column("p99", "time"),
        Column("IPDV", "time"),
        Column("loss", "loss"),
    )
    return Table(
        columns,
        tuple(
            _row(
                row,
                row["throughput_pps"],
                row,
                (row["cycles_per_packet"],),
                tuple(
                    row[key]
                    for key in (
                        "updates_per_s", "latency_p50_ns", "latency_p99_ns", "ipdv_mean_ns",
                        "loss_ratio",
                    )
                ),
            )
            for row in rows
        ),
    )  # fmt: skip


def _goal(name: str, rows: Sequence[Json]) -> Section:
    lost = rows[0]["goals"][name]["loss_ratio"]
    lines = tuple(_row(row, row["goals"][name]["pps"], row["goals"][name]) for row in rows)
    table = Table((Column("mode", "text"), *_RATE, *_RATIOS), lines)
    return Section(name, blocks=(table,), about=f"highest load with at most {lost:.3%} lost")


def _row(
    row: Json,
    pps: float,
    figures: Mapping[str, Any],
    before: tuple[Cell, ...] = (),
    after: tuple[Cell, ...] = (),
) -> Row:
    rate: Cell = AtLeast(pps) if figures["generator_bound"] else pps
    ratios = (figures["of_bare_metal"], figures["times_conventional"])
    cells = (row["mode"], rate, figures["spread"], *before, *ratios, *after)
    return Row(cells, doubtful=row["verdict"] != "ok")


def convergence(name: str, rows: Sequence[Json]) -> Document:
    columns = (
        *(Column(heading, "text") for heading in ("daemon", "change")),
        Column("times", "count"),
        *(Column(heading, unit="routes/s") for heading in ("median", "from", "to")),
        *(Column(heading, unit="s") for heading in ("first", "last")),
        Column("CPUs busy", "text"),
    )
    lines = tuple(
        (
            row["daemon"],
            row["event"],
            row["changes"],
            *(row[key] for key in ("per_s", "per_s_min", "per_s_max", "reaction_s", "seconds")),
            ", ".join(f"{name} {share:.2f}" for name, share in row["busy"].items()),
        )
        for row in rows
    )
    title = f"Changes of {rows[0]['routes']} routes, by BGP, until the engine has them"
    return Document(name, sections=(Section(title, blocks=(Table(columns, lines),)),))


def verdicts(rows: Sequence[Json]) -> Iterator[str]:
    """One sentence for saturation, and one for each goal."""
    by_mode = {row["mode"]: row for row in rows}
    for aim in AIMS:
        row = by_mode.get(aim.mode)
        if row is None:
            continue
        for name, figures in (("saturation", row), *row["goals"].items()):
            value = figures.get(aim.key)
            if value is not None:
                met = "met" if value >= aim.at_least else "missed"
                met += _doubt(figures["spread"])
                yield f"{aim.mode}, {name}: {value:.3g} {aim.text} (goal {aim.at_least:g}: {met})"


def _doubt(spread: float | None) -> str:
    if spread is None:
        return ", by a single measurement"
    return f", by measurements that spread by {spread:.0%}" if spread > DISAGREE else ""


def remarks(rows: Sequence[Json]) -> Iterator[str]:
    if any(row["generator_bound"] for row in rows):
        yield "'≥': the generator made no more; the cycles of the router's lcore tell modes apart"
    for row in rows:
        trials = [one[key] for one in row["repetitions"] for key in ("audit", "load_audit")]
        found = [Audit.model_validate(trial) for trial in trials]
        for check, text in _worst_of(found).items():
            times = sum(any(f.check == check for f in one.failed) for one in found)
            yield f"{row['mode']}: {row['verdict']}, {times} of {len(found)} trials: {text}"


def _worst_of(found: Sequence[Audit]) -> dict[str, str]:
    """Failed checks, each in the words of the trial that failed it most. That the generator made no
    more is said by the figures' own sign."""
    worst: dict[str, Finding] = {}
    for finding in (f for one in found for f in one.failed if f.check != "generator-limit"):
        if (finding.value or 0) >= (worst.get(finding.check, finding).value or 0):
            worst[finding.check] = finding
    return {check: finding.text for check, finding in worst.items()}
