# SPDX-License-Identifier: Apache-2.0
"""Advice that was tried, and what it gained: a document, and sections of its bundle's report."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.record.rows import Result
from headrace.report.document_model import Block, Cell, Column, Document, Row, Section, Table, Text
from headrace.tune.gains import (
    FINDINGS,
    GAIN,
    Gain,
    Tuned,
    checksum_errors,
    counter,
    cpu_s_per_gb,
    goodput_gbps,
    packet_bytes,
    softirq_shares,
    wrong,
)
from headrace.tune.wish import BASELINE, Protocol

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


def document(tuned: Tuned) -> Document:
    advised = tuned.advised
    return Document(
        title="Advice, tried",
        subtitle=f"sends of {advised.message_bytes} bytes for {advised.seconds} s",
        sentence=sentence(tuned),
        sections=sections(tuned),
    )


def sentence(tuned: Tuned) -> str:
    """The advice that gains most, of each protocol."""
    best, told = tuned.best(), []
    for protocol in tuned.protocols:
        gains = [gain for (_, name), gain in best.items() if name == protocol and gain.helps]
        most = max(gains, key=lambda gain: gain.median, default=None)
        none = f"no advice gains {GAIN:.0%}"
        told.append(f"{protocol.upper()}: {_gain_text(most).rstrip('.') if most else none}")
    return f"{'; '.join(told)}."


def sections(tuned: Tuned | None) -> tuple[Section, ...]:
    """None: the bundle is of something else."""
    if tuned is None:
        return ()
    tables = tuple(
        Section(protocol.upper(), blocks=(table(tuned, protocol),)) for protocol in tuned.protocols
    )
    sums: tuple[Block, ...] = tuple(Text(text) for text in sentences(tuned))
    return (
        *tables,
        Section("What it comes to", _how(tuned), sums),
        Section("What applies, and why", blocks=(_considered(tuned),), on="page"),
    )


def _how(tuned: Tuned) -> str:
    path, cpus = tuned.advised.path, tuned.advised.cpus
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
        f"{cpus[0]}, the receiver on CPU {cpus[-1]}."
    )


def table(tuned: Tuned, protocol: Protocol) -> Table:
    gains = {g.advice: g for g in tuned.gains() if g.protocol == protocol}
    names = (BASELINE, *gains)
    rows = tuple(
        row(name, tuned.of(name, protocol), gains.get(name), tuned.advised.seconds)
        for name in names
        if tuned.of(name, protocol)
    )
    return Table(_COLUMNS, rows)


def row(advice: str, results: Sequence[Result], gain: Gain | None, seconds: float) -> Row:
    rate = median(map(goodput_gbps, results))
    several = gain is not None and gain.rounds > 1
    sound = gain is None or gain.sound
    shares = softirq_shares(results, seconds)
    cells: tuple[Cell, ...] = (
        advice if sound else f"{advice}: wrong data",
        rate,
        gain.median if gain else "",
        f"{gain.least:+.0%} to {gain.most:+.0%}" if gain and several else f"{len(results)}",
        median(map(cpu_s_per_gb, results)),
        median(map(packet_bytes, results)),
        median(counter(one, "fragments") for one in results),
        ", ".join(f"{core} {share:.0%}" for core, share in shares.items()),
        rate,
    )
    return Row(cells, doubtful=not sound)


def _considered(tuned: Tuned) -> Table:
    rows = []
    for c in tuned.advised.considered:
        mind = f". Mind: {c.warning}." if c.applies and c.warning else ""
        applies = "applies" if c.applies else "does not apply"
        name = f"{c.protocol.upper()} {c.advice}"
        rows.append((name, applies, c.why + mind, "; ".join(c.changes)))
    columns = tuple(Column(name, "text") for name in ("advice", "", "because", "changes"))
    return Table(columns, tuple(rows))


def sentences(tuned: Tuned) -> list[str]:
    """One for each finding, then how many of them gain."""
    best = tuned.best()
    texts = []
    for protocol in tuned.protocols:
        name = protocol.upper()
        helps = [f for f in FINDINGS if (f, protocol) in best and best[f, protocol].helps]
        texts += [
            f"{name}: {title}: {_gain_text(best.get((finding, protocol)))}"
            for finding, title in FINDINGS.items()
        ]
        texts.append(f"{name}: {len(helps)} of {len(FINDINGS)} findings gain {GAIN:.0%} or more.")
    compared = sum(counter(one, "compared") for one in tuned.results)
    texts.append(
        f"{compared} messages compared with what was sent, {sum(map(wrong, tuned.results))} were "
        f"wrong; {sum(map(checksum_errors, tuned.results))} checksum errors."
    )
    failed = [finding for one in tuned.results for finding in one.audit.failed]
    for check in dict.fromkeys(finding.check for finding in failed):
        several = [finding for finding in failed if finding.check == check]
        most = max(several, key=lambda finding: finding.value or 0.0)
        texts.append(f"{len(several)} of {len(tuned.results)} trials are in doubt: {most.text}")
    return texts


def _gain_text(gain: Gain | None) -> str:
    if gain is None:
        return "nothing of it applied."
    if gain.rounds == 1:
        return f"{gain.advice} {gain.median:+.0%} (one round: its spread is not known)."
    return (
        f"{gain.advice} {gain.median:+.0%} (median of {gain.rounds} rounds, {gain.least:+.0%} to "
        f"{gain.most:+.0%})."
    )
