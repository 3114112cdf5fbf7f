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
from headrace.host.exclusive import WAIT_S
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
        typer.Option("--wire", help="Two ports that a cable joins: devices as in a testbed."),
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
    doc = _on_ports(open_spec(Path(STUDY), trusted=False), wire, pf)
    chosen = groups.chosen(doc, Wanted(group=group))
    if listed:
        groups.show(chosen, stdout())
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


def _on_ports(doc: Document, wire: tuple[str, str] | None, pf: str | None) -> Document:
    """With the devices of this machine that the user names."""
    known: dict[str, Any] = {name: dict(one) for name, one in doc.data["groups"].items()}
    for device in wire or ():
        try:
            device_of(device)
        except ValueError as why:
            raise bad_value("--wire", device, problem=str(why)) from None
    if wire is not None:
        ends = dict(zip(("left", "right"), ({"device": device} for device in wire), strict=True))
        laid = over(known[_WIRE]["spec"], {"testbed": {"ports": ends}})
        known[_WIRE] = {**known[_WIRE], "spec": laid, "needs": []}
    for name, one in known.items():
        if pf is not None and one.get("spec", {}).get("deployment", {}).get("network") == "sriov":
            known[name] = {**one, "spec": over(one["spec"], {"deployment": {"pf": pf}})}
    return dataclasses.replace(doc, data={**doc.data, "groups": known})
