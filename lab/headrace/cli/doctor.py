# SPDX-License-Identifier: Apache-2.0
"""headrace doctor: what this machine can do, what is missing, and the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from headrace.cli._console import print_json, stdout
from headrace.doctor import cpu, engine_build, guests, memory, network, tracing, virtual
from headrace.doctor.check import INSTALL, DoctorCheck, Examination
from headrace.doctor.kubernetes import checks as cluster_checks
from headrace.errors import EXIT_FAILURE, HeadraceError
from headrace.host.cluster import Cluster
from headrace.host.programs import find_engine

_MARK = {
    "ok": ("✓", "green"),
    "limited": ("~", "yellow"),
    "missing": ("✗", "red"),
    "unknown": ("?", "dim"),
}
# Red is for what stops a measurement, not for what some would like to have besides.
_OPTIONAL = ("–", "yellow")
_BUILD = "make setup"


def doctor(
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Say it of the cluster that KUBECONFIG names.")
    ] = False,
) -> None:
    """Say what this machine can do, what is missing, and the command that mends it."""
    checks = list(cluster_checks(Cluster()) if kubernetes else examine())
    lacking = [c for c in checks if c.required and c.status == "missing"]
    if json_:
        print_json(Examination(ready=not lacking, checks=tuple(checks), mend=tuple(mends(checks))))
    else:
        show(checks, stdout())
    if lacking:
        raise typer.Exit(EXIT_FAILURE)


def examine() -> Iterator[DoctorCheck]:
    yield from engine_build.checks(_engine(), _BUILD)
    yield engine_build.kernel()
    probes = (cpu, memory, network, virtual, guests, tracing)
    for probe in probes:
        yield from _guarded(probe.checks)


def _guarded(probe: Callable[[], Iterator[DoctorCheck]]) -> Iterator[DoctorCheck]:
    """A probe that fails is a finding, not the end of the examination."""
    try:
        yield from probe()
    except OSError as e:
        group = probe.__module__.rsplit(".", 1)[-1]
        yield DoctorCheck(name=group, group=group, status="unknown", found=f"could not look: {e}")


def _engine() -> Path | None:
    try:
        return find_engine()
    except HeadraceError:
        return None


def mends(checks: Sequence[DoctorCheck]) -> list[str]:
    """Each command once, what headrace cannot do without first; packages by one command."""
    ordered = sorted(checks, key=lambda c: (not c.required, c.status != "missing"))
    commands: list[str] = []
    there: set[str] = set()
    for required in (True, False):
        named = [c.mend for c in ordered if c.required == required and c.mend and c.status != "ok"]
        apart = [one.partition(INSTALL) for one in named]
        lists = [packages.split() for _, command, packages in apart if command]
        if packages := [p for p in dict.fromkeys(chain.from_iterable(lists)) if p not in there]:
            there.update(packages)
            [sudo] = {before for before, command, _ in apart if command}
            commands.append(f"{sudo}{INSTALL}{' '.join(packages)}")
        commands += [one for one, (_, command, _) in zip(named, apart, strict=True) if not command]
    return list(dict.fromkeys(commands))


def show(checks: Sequence[DoctorCheck], console: Console) -> None:
    width = max(len(c.name) for c in checks)
    for group in dict.fromkeys(c.group for c in checks):
        console.print(Text(group, style="bold"))
        for check in (c for c in checks if c.group == group):
            console.print(_line(check, width), soft_wrap=True)
    commands = mends(checks)
    if commands:
        console.print()
        console.print(Text("What mends what can be mended here:", style="bold"))
        for command in commands:
            console.print(Text(f"  {command}"), soft_wrap=True)
    console.print()
    console.print(
        Text("✓ there   ~ works, at a cost   – not there, not required   ? not known", "dim")
    )
    lacking = [c.name for c in checks if c.required and c.status == "missing"]
    if lacking:
        console.print(Text(f"Not ready: {', '.join(lacking)} missing.", style="bold red"))
    else:
        console.print(Text("Ready to measure.", style="bold green"))


def _line(check: DoctorCheck, width: int) -> Text:
    absent = check.status == "missing" and not check.required
    mark, style = _OPTIONAL if absent else _MARK[check.status]
    text = Text("  ")
    text.append(mark, style=style)
    text.append(f" {check.name.ljust(width)}  {check.found}")
    if check.means:
        text.append(f"\n{' ' * (width + 6)}{check.means}", style="dim")
    return text
