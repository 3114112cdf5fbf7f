# SPDX-License-Identifier: Apache-2.0
"""headrace hosting selftest: every way of hosting VNFs that this machine has, tried once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.analyse.selftest import selftest_output
from headrace.analyse.units import plural
from headrace.cli import _groups as groups
from headrace.cli._console import print_json, stdout
from headrace.cli._study_run import measure_study, open_spec
from headrace.cli.run import AsJson, Out, Wait
from headrace.errors import HeadraceError, bad_value
from headrace.ground.choose import Grounds
from headrace.ground.wired.devices import answers
from headrace.host.exclusive import WAIT_S
from headrace.host.sriov import physical_functions
from headrace.record.bundle import Bundle, write_whole
from headrace.record.points import points_of
from headrace.record.selftest import SELFTEST_FILE, SelftestOutput
from headrace.report.selftest import document
from headrace.report.terminal import show as show_document
from headrace.spec.document import Document
from headrace.spec.dotted import over
from headrace.spec.points import Wanted
from headrace.spec.testbed import device_of

STUDY = "selftest"
_WIRE = "wire"  # its group whose ports the user names


def selftest(
    out: Out = None,
    as_json: AsJson = False,
    wait: Wait = WAIT_S,
    group: Annotated[
        str | None, typer.Option("--group", help="Only the parts of this group.")
    ] = None,
    wire: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--wire",
            metavar="LEFT RIGHT",
            help="Two ports that a cable joins: devices as in a testbed.",
        ),
    ] = None,
    pf: Annotated[
        str | None, typer.Option("--pf", help="The NIC whose virtual functions are used.")
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Show the parts, and what this machine lacks; run none.")
    ] = False,
) -> None:
    """Run each way of hosting VNFs that this machine has; leave a bundle as evidence. Status 1 when
    a part fails; what the machine lacks is skipped."""
    doc = open_spec(Path(STUDY), trusted=False)
    _check_ports(doc, group, wire, pf)
    doc = _on_ports(doc, wire, pf)
    chosen = groups.chosen(doc, Wanted(group=group))
    if listed:
        groups.tell(chosen, Grounds().check, as_json)
        return
    abouts = {name: one.about for name, one in chosen.study.groups.items()}
    if not chosen.possible:
        _tell(selftest_output(None, chosen.rows(), abouts, (), ()), as_json)
        return
    checked = chosen.checked(Grounds().check, all_right=False)
    lacking = chosen.failed.keys() - chosen.mistaken
    bundle, results, _ = measure_study(doc, chosen, checked, out, as_json, wait)
    output = selftest_output(str(bundle), points_of(Bundle(bundle)), abouts, results, lacking)
    write_whole(bundle / "samples" / SELFTEST_FILE, output.model_dump_json(indent=1) + "\n")
    _tell(output, as_json)


def _tell(output: SelftestOutput, as_json: bool) -> None:
    if as_json:
        print_json(output)
    else:
        show_document(document(output), stdout())
        if output.bundle is not None:
            stdout().print(f"Bundle: {output.bundle}", markup=False, soft_wrap=True)
    if output.failed:
        names = ", ".join(one.part for one in output.parts if one.outcome == "failed")
        raise HeadraceError(f"{plural(output.failed, 'part')} of the self-test failed: {names}")
    if not output.passed:
        raise HeadraceError("no part of the self-test can be tried here")


def _check_ports(
    doc: Document, group: str | None, wire: tuple[str, str] | None, pf: str | None
) -> None:
    """What the user names is here, and the parts that are wanted use it."""
    every: dict[str, Any] = doc.data["groups"]
    on_pf = [name for name, one in every.items() if _uses_functions(one)]
    named = (("--wire", None if wire is None else " ".join(wire), [_WIRE]), ("--pf", pf, on_pf))
    for option, value, users in named:
        if value is not None and group in every and group not in users:
            problem = f"--group {group} has no use for it"
            raise bad_value(option, value, f"with --group {' or '.join(users)}, or none", problem)
    nics = [one.name for one in physical_functions()]
    if pf is not None and pf not in nics:
        allowed = f"a NIC with SR-IOV functions ({', '.join(nics) or 'none here'})"
        raise bad_value("--pf", pf, allowed)
    for device in wire or ():
        try:
            answer = answers({device: device_of(device)})[device]
        except ValueError as why:
            answer = str(why)
        if isinstance(answer, str):
            raise bad_value("--wire", device, problem=answer)
    if wire is not None and wire[0] == wire[1]:
        raise bad_value("--wire", " ".join(wire), "two ports")


def _uses_functions(group: dict[str, Any]) -> bool:
    return bool(group.get("spec", {}).get("deployment", {}).get("network") == "sriov")


def _on_ports(doc: Document, wire: tuple[str, str] | None, pf: str | None) -> Document:
    """With the devices of this machine that the user names."""
    known: dict[str, Any] = {name: dict(one) for name, one in doc.data["groups"].items()}
    if wire is not None:
        ends = dict(zip(("left", "right"), ({"device": device} for device in wire), strict=True))
        laid = over(known[_WIRE]["spec"], {"testbed": {"ports": ends}})
        known[_WIRE] = {**known[_WIRE], "spec": laid, "needs": []}
    for name, one in known.items():
        if pf is not None and _uses_functions(one):
            known[name] = {**one, "spec": over(one["spec"], {"deployment": {"pf": pf}})}
    return dataclasses.replace(doc, data={**doc.data, "groups": known})
