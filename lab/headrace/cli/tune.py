# SPDX-License-Identifier: Apache-2.0
"""headrace tune: advice for traffic inside one server, tried on this machine."""

from __future__ import annotations

import os
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.cli._console import print_json, stdout
from headrace.errors import HeadraceError, bad_value
from headrace.host.ledger import Ledger
from headrace.host.state import RunState
from headrace.report.html import write
from headrace.report.terminal import show
from headrace.report.tune import document
from headrace.tune.advice import ALL, Advice
from headrace.tune.discover import namespace
from headrace.tune.load import MESSAGE_MAX
from headrace.tune.program import find_shortcut
from headrace.tune.result import PROTOCOLS, TuneResult
from headrace.tune.runner import Ends, Tuning, Wish


class Name(StrEnum):
    tcp = "tcp"
    udp = "udp"


def tune(
    advice: Annotated[
        list[str] | None,
        typer.Option(help=f"Only these of {'; '.join(a.name for a in ALL)}. Repeatable."),
    ] = None,
    protocol: Annotated[list[Name] | None, typer.Option(help="tcp, udp; both by default.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="With and without, so often.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.2, max=600, help="Of traffic in each run.")] = 1.0,
    message_bytes: Annotated[
        int, typer.Option("--bytes", min=64, max=MESSAGE_MAX, help="Of each send.")
    ] = MESSAGE_MAX,
    sender: Annotated[
        str,
        typer.Option(
            "--from",
            help="Of a path of yours: the sender's namespace. A name of "
            "`ip netns`, a path, or a process's number.",
        ),
    ] = "",
    receiver: Annotated[
        str, typer.Option("--to", help="The receiver's namespace; both are on one Linux bridge.")
    ] = "",
    bridge: Annotated[
        str, typer.Option("--bridge-namespace", help="The bridge's; by default this one.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Directory for the report; runs/tune-TIME by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Try advice for traffic inside one server: measured with and without, then undone."""
    wish = Wish(
        advice=_chosen(advice),
        protocols=[p for p in PROTOCOLS if not protocol or Name(p) in protocol],
        rounds=rounds,
        seconds=seconds,
        message_bytes=message_bytes,
        ends=_ends(sender, receiver, bridge),
    )
    target = out or Path("runs") / time.strftime("tune-%Y%m%d-%H%M%S", time.gmtime())
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise bad_value("--out", str(target), allowed="a directory that is new or empty")
    if os.geteuid():
        raise HeadraceError("tune: makes network namespaces and needs root; run it with sudo")
    if any(a.shortcut for a in wish.advice):
        find_shortcut()  # says now what is missing, not after minutes
    result = _run(wish, Console(stderr=True, highlight=False))  # progress
    target.mkdir(parents=True, exist_ok=True)
    (target / "tune.json").write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    shown = document(result)
    write(shown, target / "report.html")
    if as_json:
        print_json(result)
        return
    console = stdout()
    show(shown, console)
    console.print(f"Report: {target / 'report.html'}", markup=False)


def _ends(sender: str, receiver: str, bridge: str) -> Ends | None:
    """Named wrongly is said before anything is done."""
    if not sender and not receiver:
        if bridge:
            raise bad_value("--bridge-namespace", bridge, allowed="with --from and --to")
        return None
    for option, named in (("--from", sender), ("--to", receiver)):
        namespace(named, option)
    if bridge:
        namespace(bridge, "--bridge-namespace")
    if sender == receiver:
        raise bad_value("--to", receiver, allowed="another namespace than --from's")
    return Ends(sender, receiver, bridge)


def _chosen(names: list[str] | None) -> tuple[Advice, ...]:
    known = {a.name: a for a in ALL}
    for name in names or ():
        if name not in known:
            raise bad_value("--advice", name, allowed="; ".join(known))
    return tuple(a for a in ALL if not names or a.name in names)


def _run(wish: Wish, console: Console) -> TuneResult:
    state = RunState()
    try:
        ledger = Ledger(state.path)
        tag = f"hrt{os.getpid() % 100000}"
        say = lambda text: console.print(f"  {text}", markup=False)  # noqa: E731
        return Tuning(wish, ledger, state.path, tag, say).all()
    finally:
        state.remove()
