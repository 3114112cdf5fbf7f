# SPDX-License-Identifier: Apache-2.0
"""headrace trace: where packets spend their time in this machine's kernel."""

from __future__ import annotations

import signal
import subprocess
import time
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from headrace.cli._console import STDERR, print_json, stdout
from headrace.collect.stack.result import StackTrace
from headrace.collect.stack.show import show
from headrace.collect.stack.tracer import Tracer, tracing
from headrace.errors import HeadraceError, bad_value


class Backend(StrEnum):
    tp_btf = "tp_btf"
    fentry = "fentry"


def trace(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Trace while this runs, e.g. -- iperf3 -c 10.0.0.2", metavar="COMMAND"),
    ] = None,
    sample: Annotated[float, typer.Option(help="Share of packets to follow, over 0 to 1.")] = 0.01,
    duration: Annotated[
        float | None, typer.Option(help="Seconds, without a command: until Ctrl-C if not given.")
    ] = None,
    backend: Annotated[
        Backend, typer.Option(help="Tracepoints, or functions' entries as well.")
    ] = Backend.tp_btf,
    slow: Annotated[
        float | None, typer.Option("--slow-us", help="Give whole paths of at least so many µs.")
    ] = None,
    proto: Annotated[str | None, typer.Option(help="Only tcp, udp or icmp.")] = None,
    port: Annotated[int | None, typer.Option(help="Only this source or destination port.")] = None,
    addr: Annotated[str | None, typer.Option(help="Only this IPv4 address.")] = None,
    cost: Annotated[bool, typer.Option("--cost", help="Measure the tracer itself.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Follow packets through the kernel's network stack: latency per stage, device, namespace."""
    if command and duration is not None:
        raise bad_value("--duration", duration, problem="the command says how long")
    if duration is not None and not 0 < duration < float("inf"):
        raise bad_value("--duration", duration, allowed="seconds above 0")
    options = ["--softirq", "--sample", repr(sample), "--backend", backend.value]
    for name, value in (("slow-us", slow), ("proto", proto), ("port", port), ("addr", addr)):
        if value is not None:
            options += [f"--{name}", str(value)]
    if as_json:
        options.append("--buckets")
    if cost:
        options.append("--stats")
    with tracing(options) as tracer:
        _wait(tracer, command, duration, STDERR if as_json else None)
        traced = tracer.stop()
    if as_json:
        print_json(traced)
        return
    console = stdout()
    show(traced, console)
    if cost:
        _cost(traced, console)


def _wait(
    tracer: Tracer, command: list[str] | None, duration: float | None, output: int | None
) -> None:
    """Ctrl-C ends tracing, not the report. `output`: where the command's output goes."""
    if command:
        _run(command, output)
        return
    end = None if duration is None else time.monotonic() + duration
    try:
        while tracer.running and (end is None or time.monotonic() < end):
            time.sleep(0.05)
    except KeyboardInterrupt:
        return


def _run(command: list[str], output: int | None) -> None:
    try:
        process = subprocess.Popen(command, stdout=output)
    except OSError as error:
        raise bad_value(
            "COMMAND", command[0], problem=error.strerror or "", allowed="a program"
        ) from None
    try:
        status = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        status = process.wait()
    if status > 0:
        raise HeadraceError(f"{command[0]}: ended with status {status}; no trace is shown")


def _cost(traced: StackTrace, console: Console) -> None:
    runs = sum(p.runs for p in traced.programs)
    if not runs:
        return
    per_run = traced.program_ns() / runs
    share = traced.program_ns() / (traced.duration_s * 1e9)
    console.print(
        f"Cost: {runs} events, {per_run:.0f} ns each by the kernel's count (its own timing "
        f"included), {share:.2%} of one CPU."
    )
