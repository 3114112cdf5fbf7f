# SPDX-License-Identifier: Apache-2.0
"""A stack trace on the terminal: where the time goes, what was dropped, what was not seen."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.collect.stack.result import StackTrace, StageLatency


def time_text(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g}\u00a0{unit}"
    return f"{ns:.0f}\u00a0ns"


def show(trace: StackTrace, console: Console) -> None:
    packets = trace.packets
    console.print(
        f"{packets['sampled']} of {packets['first_stage']} packets followed in "
        f"{trace.duration_s:.1f} s ({trace.backend}, {trace.sample:g} sampled), "
        f"Linux {escape(trace.kernel)}"
    )
    if not packets["first_stage"]:
        console.print("No packet was sent or received while tracing.")
    _latencies("stage", trace.stages, console)
    _latencies("whole way", trace.end_to_end, console)
    if trace.whole_way is not None and trace.whole_way.begun:
        console.print("\n" + "\n".join(trace.whole_way.sentences()), markup=False)
    _drops(trace, console)
    _softirq(trace, console)
    _happened(trace, console)
    _lost(trace, console)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < 2 else "right", no_wrap=number > 0)
    return table


def _latencies(title: str, rows: Iterable[StageLatency], console: Console) -> None:
    table = _table(title, "device", "packets", "mean", "p50", "p99", "share")
    rows = sorted(rows, key=lambda r: -r.sum_ns)
    total = sum(r.sum_ns for r in rows)
    for r in rows:
        table.add_row(
            f"{r.begin} → {r.to}",
            escape(r.place),
            str(r.count),
            *(time_text(v) for v in (r.mean_ns, r.p50_ns, r.p99_ns)),
            f"{r.sum_ns / total:.0%}" if total else "",
        )
    if table.row_count:
        console.print()
        console.print(table)


def _drops(trace: StackTrace, console: Console) -> None:
    table = _table("dropped, reason", "device", "packets")
    for d in sorted(trace.drops, key=lambda d: -d.packets):
        place = f"{d.netns or d.netns_inum}/{d.device or d.ifindex}"
        table.add_row(d.reason or "not named", escape(place), str(d.packets))
    if table.row_count:
        console.print()
        console.print(table)


def _softirq(trace: StackTrace, console: Console) -> None:
    """NfvInsight table 3: how the network's softirqs spread over the CPUs."""
    names = ("NET_RX", "NET_TX", "TIMER", "RCU", "SCHED")
    table = _table("softirq time", *names)
    for cpu in trace.softirq:
        shares = (cpu.vectors.get(n) for n in names)
        table.add_row(f"CPU {cpu.cpu}", *(f"{v.share:.1%}" if v else "–" for v in shares))
    if table.row_count:
        console.print()
        console.print(table)


_TOLD = {
    "gso_segments": "GSO segments followed on from {gso_parents} packets",
    "gro_merged": "packets merged by GRO",
    "fragments": "packets were IP fragments from the start",
    "fragmented": "fragments followed on from a packet that was cut",
    "datagrams_reassembled": "datagrams put together again",
    "head_replaced": "packets followed into a buffer of their own",
    "clones_skipped": "events of clones not counted",
    "audited": "payloads compared, {audit_false} false matches",
}


def _happened(trace: StackTrace, console: Console) -> None:
    lines = [
        f"  {trace.packets[key]} {text.format(**trace.packets)}"
        for key, text in _TOLD.items()
        if trace.packets[key]
    ]
    if lines:
        console.print()
        console.print("\n".join(lines), markup=False)


def _lost(trace: StackTrace, console: Console) -> None:
    console.print()
    if not trace.lost_total:
        console.print("Lost events: none.")
        return
    what = ", ".join(f"{n} {name}" for name, n in trace.lost.items() if n)
    console.print(f"[yellow]Lost events: {what}[/yellow]. The figures leave them out.")
