# SPDX-License-Identifier: Apache-2.0
"""Advice that was tried, and what it gained, as a document."""

from __future__ import annotations

from statistics import median

from headrace.report.document import Block, Cell, Column, Document, Row, Section, Table, Text
from headrace.tune.result import BASELINE, FINDINGS, GAIN, Gain, Protocol, TuneResult, TuneTrial

_COLUMNS = (
    "",
    Column("Gbit/s"),
    Column("gain", "change"),
    "over the rounds",
    Column("CPU", unit="s/GB"),
    Column("bytes/packet"),
    "fragments",
    Column("softirq time", "text", on="page"),
    Column("", "bar"),
)


def document(result: TuneResult) -> Document:
    before, after = result.load_average
    tables = tuple(
        Section(protocol.upper(), blocks=(_table(result, protocol),))
        for protocol in _protocols(result)
    )
    sums: tuple[Block, ...] = tuple(Text(text) for text in sentences(result))
    return Document(
        title="Advice, tried",
        subtitle=f"Linux {result.kernel} · {len(result.cpus)} CPUs · sends of "
        f"{result.message_bytes} bytes for {result.seconds} s · load average {before:.1f} before, "
        f"{after:.1f} after",
        sections=(
            *tables,
            Section("What it comes to", _how(result), sums),
            Section("What applies, and why", blocks=(_considered(result),), on="page"),
        ),
    )


def _how(result: TuneResult) -> str:
    path = result.path
    where = (
        f"From {path.sender.address} to {path.receiver.address} over the bridge {path.bridge}, as "
        "it was found."
        if path.own
        else "Two namespaces, each on a veth pair to one bridge, as a container host joins its "
        "containers: bridge-netfilter is on and a rule asks for the connection's state."
    )
    return (
        f"{where} Runs with an advice and without it take turns; a gain is the ratio within a "
        "round, its median over the rounds. The sender is on CPU "
        f"{result.cpus[0]}, the receiver on CPU {result.cpus[-1]}."
    )


def _protocols(result: TuneResult) -> list[Protocol]:
    return list(dict.fromkeys(t.protocol for t in result.trials))


def _table(result: TuneResult, protocol: Protocol) -> Table:
    gains = {g.advice: g for g in result.gains() if g.protocol == protocol}
    names = (BASELINE, *gains)
    return Table(_COLUMNS, tuple(_row(result, protocol, n, gains.get(n)) for n in names))


def _row(result: TuneResult, protocol: Protocol, advice: str, gain: Gain | None) -> Row:
    trials = [t for t in result.trials if (t.advice, t.protocol) == (advice, protocol)]
    rate = median(t.gbps for t in trials)
    several = gain is not None and gain.rounds > 1
    sound = gain is None or gain.sound
    cells: tuple[Cell, ...] = (
        advice if sound else f"{advice}: wrong data",
        rate,
        gain.median if gain else "",
        f"{gain.least:+.0%} to {gain.most:+.0%}" if gain and several else f"{len(trials)}",
        median(t.cpu_s_per_gb for t in trials),
        median(t.packet_bytes for t in trials),
        median(t.fragments["server"] + t.fragments["receiver"] for t in trials),
        _softirqs(result, trials),
        rate,
    )
    return Row(cells, doubtful=not sound)


def _softirqs(result: TuneResult, trials: list[TuneTrial]) -> str:
    """Share of each core's time, mean over the rounds."""
    cores = trials[0].softirq_s
    shares = {c: sum(t.softirq_s[c] for t in trials) / len(trials) / result.seconds for c in cores}
    return ", ".join(f"{c} {s:.0%}" for c, s in shares.items())


def _considered(result: TuneResult) -> Table:
    rows = []
    for c in result.considered:
        mind = f". Mind: {c.warning}." if c.applies and c.warning else ""
        applies = "applies" if c.applies else "does not apply"
        name = f"{c.protocol.upper()} {c.advice}"
        rows.append((name, applies, c.why + mind, "; ".join(c.changes)))
    columns = tuple(Column(name, "text") for name in ("advice", "", "because", "changes"))
    return Table(columns, tuple(rows))


def sentences(result: TuneResult) -> list[str]:
    """One for each finding, then how many of them gain."""
    best = result.best()
    said = []
    for protocol in _protocols(result):
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
