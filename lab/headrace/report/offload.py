# SPDX-License-Identifier: Apache-2.0
"""The comparison of offloaded forwarding, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from headrace.record.verdict import Audit, Finding

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
_WIDTH = 108  # a file or a pipe says 80, and columns of figures would be cut


def show(rows: Sequence[Json], console: Console) -> None:
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    _saturation(rows, console)
    for name in rows[0]["goals"]:
        _goal(name, rows, console)
    for line in (*verdicts(rows), *remarks(rows)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _saturation(rows: Sequence[Json], console: Console) -> None:
    load = f"{rows[0]['load_pps']:.0f}"
    table = Table(title=f"Saturation throughput; delays and loss at {load} packets/s",
                  title_justify="left", box=None)  # fmt: skip
    table.add_column("mode")
    for heading in ("Mpps", "spread", "cycles", "of bare", "x conv.", "updates/s",
                    "p50 us", "p99 us", "IPDV us", "loss"):  # fmt: skip
        table.add_column(heading, justify="right")
    for row in rows:
        delays = (
            f"{row[k] / 1e3:.1f}" for k in ("latency_p50_ns", "latency_p99_ns", "ipdv_mean_ns")
        )
        table.add_row(
            row["mode"],
            _mpps(row["throughput_pps"], row["generator_bound"]),
            _part(row["spread"]),
            "-" if row["cycles_per_packet"] is None else f"{row['cycles_per_packet']:.0f}",
            _part(row["of_bare_metal"]),
            _times(row["times_conventional"]),
            f"{row['updates_per_s']:.0f}",
            *delays,
            f"{row['loss_ratio']:.2e}",
        )
    console.print(table)


def _goal(name: str, rows: Sequence[Json], console: Console) -> None:
    lost = rows[0]["goals"][name]["loss_ratio"]
    table = Table(title=f"{name}: highest load with at most {lost:.3%} lost", title_justify="left",
                  box=None)  # fmt: skip
    table.add_column("mode")
    for heading in ("Mpps", "spread", "of bare", "x conv."):
        table.add_column(heading, justify="right")
    for row in rows:
        one = row["goals"][name]
        table.add_row(
            row["mode"],
            _mpps(one["pps"], one["generator_bound"]),
            _part(one["spread"]),
            _part(one["of_bare_metal"]),
            _times(one["times_conventional"]),
        )
    console.print(table)


def _mpps(pps: float, generator_bound: bool) -> str:
    return f"{'>= ' if generator_bound else ''}{pps / 1e6:.3f}"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def verdicts(rows: Sequence[Json]) -> Iterator[str]:
    """Of saturation and of each goal."""
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
        yield "'>=': the generator made no more; the cycles of the router's lcore tell modes apart"
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
