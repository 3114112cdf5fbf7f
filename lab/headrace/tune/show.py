# SPDX-License-Identifier: Apache-2.0
"""What was tried and what it gained, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from headrace.tune.result import BASELINE, FINDINGS, GAIN, Gain, Protocol, TuneResult, TuneTrial


def show(result: TuneResult, console: Console) -> None:
    for protocol in protocols(result):
        console.print(_table(result, protocol))
        console.print()
    for sentence in sentences(result):
        console.print(sentence, markup=False)


def protocols(result: TuneResult) -> list[Protocol]:
    return list(dict.fromkeys(t.protocol for t in result.trials))


def _table(result: TuneResult, protocol: Protocol) -> Table:
    title = f"{protocol.upper()}, sends of {result.message_bytes} bytes"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for heading in ("Gbit/s", "gain", "rounds", "CPU s/GB", "bytes/packet", "fragments"):
        table.add_column(heading, justify="right", no_wrap=True)
    gains = {g.advice: g for g in result.gains() if g.protocol == protocol}
    for name in (BASELINE, *(g for g in gains)):
        table.add_row(name, *figures(of(result, name, protocol), gains.get(name)))
    return table


def of(result: TuneResult, advice: str, protocol: Protocol) -> list[TuneTrial]:
    return [t for t in result.trials if (t.advice, t.protocol) == (advice, protocol)]


def figures(trials: Sequence[TuneTrial], gain: Gain | None) -> tuple[str, ...]:
    fragments = median(t.fragments["server"] + t.fragments["receiver"] for t in trials)
    return (
        f"{median(t.gbps for t in trials):.2f}",
        f"{gain.median:+.0%}" if gain else "",
        f"{gain.least:+.0%} to {gain.most:+.0%}" if gain and gain.rounds > 1 else f"{len(trials)}",
        f"{median(t.cpu_s_per_gb for t in trials):.3f}",
        f"{median(t.packet_bytes for t in trials):.0f}",
        f"{fragments:.0f}",
    )


def sentences(result: TuneResult) -> list[str]:
    """One for each finding, then how many of them gain."""
    best = result.best()
    said = []
    for protocol in protocols(result):
        helps = [f for f in FINDINGS if (f, protocol) in best and best[f, protocol].helps]
        for finding, title in FINDINGS.items():
            said.append(f"{protocol.upper()}: {title}: {_said(best.get((finding, protocol)))}")
        said.append(
            f"{protocol.upper()}: {len(helps)} of {len(FINDINGS)} findings gain {GAIN:.0%} or more."
        )
    wrong = sum(t.wrong for t in result.trials)
    errors = sum(t.checksum_errors for t in result.trials)
    compared = sum(t.compared for t in result.trials)
    said.append(
        f"{compared} messages compared with what was sent, {wrong} were wrong; {errors} checksum "
        "errors."
    )
    doubted = [t for t in result.trials if t.audit.failed]
    for check in dict.fromkeys(f.check for t in doubted for f in t.audit.failed):
        found = [f for t in doubted for f in t.audit.failed if f.check == check]
        most = max(found, key=lambda f: f.value or 0.0)
        said.append(f"{len(found)} of {len(result.trials)} runs are in doubt: {most.text}")
    if max(result.load_average) > 1:
        said.append(
            "Others worked on this machine meanwhile (load average "
            f"{result.load_average[0]:.1f} before): repeat it when it is quiet."
        )
    return said


def _said(gain: Gain | None) -> str:
    if gain is None:
        return "nothing of it applied."
    if gain.rounds == 1:
        return f"{gain.advice} {gain.median:+.0%} (one round: its spread is not known)."
    return (
        f"{gain.advice} {gain.median:+.0%} (median of {gain.rounds} rounds, {gain.least:+.0%} to "
        f"{gain.most:+.0%})."
    )
