# SPDX-License-Identifier: Apache-2.0
"""headrace tune: advice for traffic inside one server, tried on this machine."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import ValidationError

from headrace.cli._console import print_json, stdout
from headrace.cli.report import finish_run
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.host.consoles import Terminal
from headrace.measure.progress import Progress
from headrace.measure.session import new_bundle, session
from headrace.record.bundle import Bundle
from headrace.report.terminal import show
from headrace.report.tune import document
from headrace.tune import runner
from headrace.tune.advice import ALL, Advice
from headrace.tune.bulk import MESSAGE_MAX
from headrace.tune.discover import namespace
from headrace.tune.gains import Tuned
from headrace.tune.program import find_shortcut
from headrace.tune.wish import PROTOCOLS, Ends, Wish


class Name(StrEnum):
    tcp = "tcp"
    udp = "udp"


def tune(
    bundle: Annotated[
        Path | None,
        typer.Argument(help="A bundle of an earlier run: the same again, without other options."),
    ] = None,
    advice: Annotated[
        list[str] | None,
        typer.Option(help=f"Only these of {'; '.join(a.name for a in ALL)}. Repeatable."),
    ] = None,
    protocol: Annotated[list[Name] | None, typer.Option(help="tcp, udp; both by default.")] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=100, help="Runs with each advice and without, in turn.")
    ] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.2, max=600, help="Seconds of traffic in each run.")
    ] = 1.0,
    message_bytes: Annotated[
        int, typer.Option("--bytes", min=64, max=MESSAGE_MAX, help="Bytes of each send call.")
    ] = MESSAGE_MAX,
    sender: Annotated[
        str,
        typer.Option(
            "--from",
            help="A path of your own: the sender's namespace, as a name "
            "of `ip netns`, a path, or a process's number.",
        ),
    ] = "",
    receiver: Annotated[
        str, typer.Option("--to", help="The receiver's namespace; both are on one Linux bridge.")
    ] = "",
    bridge: Annotated[
        str, typer.Option("--bridge-namespace", help="The bridge's; by default this one.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="The bundle's directory; runs/tune-TIME by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Try advice for traffic inside one server: measured with and without, then undone."""
    wish = Wish(
        advice=tuple(one.name for one in _chosen(advice)),
        protocols=tuple(p for p in PROTOCOLS if not protocol or Name(p) in protocol),
        rounds=rounds,
        seconds=seconds,
        message_bytes=message_bytes,
        ends=_ends(sender, receiver, bridge),
    )
    _told(wish if bundle is None else _replayed(bundle), out, as_json)


def is_tuned(bundle: Path) -> bool:
    """Whether `headrace tune` left it, which replays it."""
    given = Bundle(bundle).spec_data
    return isinstance(given, dict) and set(given) == {"tune"}


def replay(bundle: Path, out: Path | None, as_json: bool) -> None:
    _told(_replayed(bundle), out, as_json)


def _told(wish: Wish, out: Path | None, as_json: bool) -> None:
    target, tuned = _run(wish, out)
    page = finish_run(target, None)
    if as_json:
        print_json(tuned.output(target))
        return
    console = stdout()
    show(document(tuned), console)
    console.print(f"Bundle: {target}, report: {page}", markup=False)


def _run(wish: Wish, out: Path | None) -> tuple[Path, Tuned]:
    chosen = _chosen(list(wish.advice))
    if out is not None and out.exists():
        raise bad_value("--out", str(out), allowed="a directory that is new")
    if os.geteuid():
        raise HeadraceError("tune: makes network namespaces and needs root; run it with sudo")
    if any(a.shortcut for a in chosen):
        find_shortcut()  # says now what is missing, not after minutes
    progress = Progress(Terminal(stderr=True, highlight=False), 1, 0.0)
    target = new_bundle(out, "tune")
    with session(target, progress, lambda path, shown: finish_run(path, None)) as measuring:
        given = {"tune": wish.model_dump(mode="json", exclude_defaults=True)}
        measuring.inputs(yaml.safe_dump(given, sort_keys=False), {})
        return target.path, runner.tune(measuring, wish, chosen)


def _replayed(bundle: Path) -> Wish:
    if not is_tuned(bundle):
        raise bad_value("BUNDLE", str(bundle), allowed="a bundle of `headrace tune`")
    given = Bundle(bundle).spec_data
    try:
        wish = Wish.model_validate(given["tune"])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{bundle}/spec.yaml: tune.{where}: {first['msg']}") from None
    if wish.ends is not None:
        _ends(wish.ends.sender, wish.ends.receiver, wish.ends.bridge)
    return wish


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
    return Ends(sender=sender, receiver=receiver, bridge=bridge)


def _chosen(names: list[str] | None) -> tuple[Advice, ...]:
    known = {a.name: a for a in ALL}
    for name in names or ():
        if name not in known:
            raise bad_value("--advice", name, allowed="; ".join(known))
    return tuple(a for a in ALL if not names or a.name in names)
