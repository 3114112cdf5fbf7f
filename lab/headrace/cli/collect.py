# SPDX-License-Identifier: Apache-2.0
"""headrace collect: metrics of all layers while something runs."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.cli._console import STDERR, print_json, stdout
from headrace.cli._folder import make_folder
from headrace.collect import Collector, Sampler, Targets, collectors
from headrace.collect.collector import WatchedProcess
from headrace.collect.sampler import PERIOD_MIN_S
from headrace.collect.samples import Samples
from headrace.errors import EXIT_INTERRUPTED, bad_value
from headrace.host.cgroups import mounts
from headrace.record.sampled import CollectOutput, ReadableLayer, ReadableLayers, Sampled
from headrace.spec.collect import ALL_LAYERS


def collect(
    command: Annotated[
        list[str] | None, typer.Argument(help="Sample while this runs.", metavar="COMMAND")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the samples.")] = Path("samples"),
    period: Annotated[float, typer.Option(help="Seconds between samples.")] = 1.0,
    duration: Annotated[
        float | None, typer.Option(help="Seconds, without a command: until Ctrl-C if not given.")
    ] = None,
    layer: Annotated[
        list[str] | None, typer.Option(help=f"Only these of {', '.join(ALL_LAYERS)}.")
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(help="Processes to watch.")] = None,
    cgroup: Annotated[
        list[str] | None, typer.Option(help="Cgroups to watch, below their mount point.")
    ] = None,
    bridge: Annotated[list[str] | None, typer.Option(help="Linux bridges to watch.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what can be read here, and why not the rest.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Sample application, virtualization, virtual switch, operating system and hardware."""
    for name in layer or ():
        if name not in ALL_LAYERS:
            raise bad_value("--layer", name, allowed=", ".join(ALL_LAYERS))
    if not period >= PERIOD_MIN_S:
        raise bad_value("--period", period, allowed=f"{PERIOD_MIN_S} s or more")
    if duration is not None and not 0 < duration < float("inf"):
        raise bad_value("--duration", duration, allowed="seconds above 0")
    targets = Targets(
        processes=tuple(WatchedProcess(name=_name(p), pid=p) for p in pid or ()),
        cgroups=tuple(cgroup or ()),
        bridges=tuple(bridge or ()),
    )
    _there(targets)
    console = stdout()
    if check:
        readable = _readable(collectors(targets, layer or ALL_LAYERS))
        if as_json:
            print_json(readable)
        else:
            _check(readable, console)
        return
    if out.is_dir() and (Samples(out).present or any(out.glob("*.jsonl"))):
        raise bad_value("--out", str(out), problem="has samples already; name another folder")
    if command and shutil.which(command[0]) is None:
        raise bad_value("COMMAND", command[0], problem="not found", allowed="a program")
    make_folder(out)
    with Sampler(collectors(targets, layer or ALL_LAYERS), out, period):
        status = _wait(command, duration, STDERR if as_json else None)
    sampled = Samples(out).about
    assert sampled is not None, "the sampler writes it"
    if as_json:
        print_json(CollectOutput(folder=str(out), status=status, sampled=sampled))
    else:
        _summary(sampled, out, console)
    raise typer.Exit(status)


def _there(targets: Targets) -> None:
    for name in targets.cgroups:
        relative = name.lstrip("/")
        if not any((root / relative).is_dir() for root in mounts().values()):
            raise bad_value("--cgroup", name, problem="no such cgroup below any mount point")
    for name in targets.bridges:
        if not Path(f"/sys/class/net/{name}/bridge").is_dir():
            raise bad_value("--bridge", name, problem="no bridge of this namespace")


def _name(pid: int) -> str:
    try:
        return f"{Path(f'/proc/{pid}/comm').read_text().strip()}.{pid}"
    except OSError:
        raise bad_value("--pid", pid, problem="there is no such process") from None


def _wait(command: list[str] | None, duration: float | None, output: int | None) -> int:
    """Ctrl-C ends sampling, not the summary. The command's exit status, as a shell has it;
    `output`: where what it prints goes."""
    try:
        if command:
            try:
                ended = subprocess.run(command, stdout=output, check=False).returncode
            except OSError as error:
                raise bad_value(
                    "COMMAND", command[0], problem=error.strerror or "", allowed="a program"
                ) from None
            return ended if ended >= 0 else 128 - ended
        end = None if duration is None else time.monotonic() + duration
        while end is None or time.monotonic() < end:
            time.sleep(0.05)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED if command else 0
    return 0


def _readable(chosen: list[Collector]) -> ReadableLayers:
    layers = {}
    for c in chosen:
        why = c.refusal()
        layers[c.layer] = ReadableLayer(refused=why, absent={} if why else c.absent())
        c.close()
    return ReadableLayers(layers=dict(layers))


def _check(readable: ReadableLayers, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("layer", "reads here", "absent"):
        table.add_column(column)
    for layer, one in readable.layers.items():
        absent = "; ".join(f"{k}: {v}" for k, v in one.absent.items())
        table.add_row(layer, f"no: {one.refused}" if one.refused else "yes", absent)
    console.print(table)


def _summary(about: Sampled, out: Path, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("layer", "samples", "metrics", "of one CPU"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    for layer, facts in about.layers.items():
        cost = facts.cost
        share = f"{cost.share_of_one_cpu:.2%}"
        table.add_row(layer, str(cost.samples), str(len(facts.metrics)), share)
    console.print(table)
    for layer, why in about.refused.items():
        console.print(f"{layer}: not sampled: {why}", markup=False)
    console.print(f"Written: {out}", markup=False)
