# SPDX-License-Identifier: Apache-2.0
"""headrace export: a study's deployments for other tools to apply."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
import yaml

from headrace.analyse.units import plural
from headrace.cli._console import print_json
from headrace.cli._folder import make_folder
from headrace.cli._groups import chosen, cluster, numbered
from headrace.cli._study_run import open_spec
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.appliances.ground import AppliancePoint
from headrace.ground.choose import Grounds
from headrace.ground.kubernetes.manifests import ATTACHMENTS, Manifest, PodNetwork, manifests
from headrace.host.consoles import Terminal
from headrace.record.bundle import write_whole
from headrace.record.outputs import ExportOutput
from headrace.spec.base import INTERFACE_PATTERN
from headrace.spec.document import Document
from headrace.spec.kubernetes import NODE_NAME
from headrace.spec.points import Wanted, has_groups

app = typer.Typer(no_args_is_help=True, help="Write a study's deployments for other tools.")
_FILES = {"Namespace": "namespace.yaml", "Pod": "pods.yaml"}
_HEAD = (
    "# Written by `headrace export kubernetes`. `kubectl apply -k` this folder; deleting the\n"
    "# namespace undoes all of it.\n"
)


@dataclass(frozen=True)
class NetworkOptions:
    """Options as they are given on the command line."""

    network: str | None
    master: str | None
    resource: str | None
    claim: str | None
    nodes: tuple[tuple[str, str], ...]  # container, "" for all, and its node
    devices: tuple[tuple[str, str], ...]  # container/interface, and what its node calls the device


@app.callback()
def _root() -> None:
    """Write a study's deployments for other tools."""


@app.command()
def kubernetes(
    spec: Annotated[Path, typer.Argument(help="A study with third-party VNFs.")],
    folder: Annotated[Path, typer.Argument(help="Where a folder for each point is made.")],
    network: Annotated[
        str | None,
        typer.Option(help="bridge, macvlan, sriov or host-device; the study's unless given."),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="macvlan: the device of all nodes that joins them.")
    ] = None,
    resource: Annotated[
        str | None, typer.Option(help="sriov: the device plugin's name of virtual functions.")
    ] = None,
    claim: Annotated[
        str | None,
        typer.Option(help="sriov: the device class of a DRA driver, instead of a device plugin."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(help="host-device: CONTAINER/INTERFACE=DEVICE of its node. Several."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(help="NODE for all pods, or CONTAINER=NODE for one. Several."),
    ] = None,
    point: Annotated[
        str | None,
        typer.Option(help="Only this point: its name, without groups its number."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print which folders were made.")] = False,
) -> None:
    """Write the manifests (kustomize) of each point: networks by Multus, a pod for each VNF."""
    doc = open_spec(spec, trusted=False)
    asked = _asked(doc, spec, point)
    nodes = _nodes(node or (), asked.values())
    options = NetworkOptions(network, master, resource, claim, nodes, _devices(device or ()))
    _check(options, asked.values())
    written, left_out = _written(asked, options)
    reasons = dict.fromkeys(left_out.values())
    if not written and len(reasons) == 1:
        raise BadInput(next(iter(reasons)))
    if written:
        make_folder(folder, "DIR")
        _say_others(folder, written)
    for name, objects in written.items():
        _write(folder / name, objects)
    output = ExportOutput(folders=tuple(str(folder / one) for one in written), left_out=left_out)
    _tell(output, folder, as_json)
    if not written:
        count = plural(len(left_out), "deployment")
        raise BadInput(f"{spec}: none of its {count} can be pods, for {len(reasons)} reasons")


def _tell(output: ExportOutput, folder: Path, as_json: bool) -> None:
    if as_json:
        print_json(output)
        return
    for name, why in output.left_out.items():
        _say(f"left out: {name}: {why}")
    if output.folders:
        count, first = plural(len(output.folders), "deployment"), output.folders[0]
        print(f"{folder}: {count}; kubectl apply -k {first}")


def _say(text: str) -> None:
    Terminal(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def _asked(doc: Document, spec: Path, point: str | None) -> dict[str, AppliancePoint]:
    """The deployments that are wanted, by their folders' names: those that they have among all."""
    checked = chosen(doc, Wanted(), cluster()).checked(Grounds().check, all_right=True)
    every = [one for one in checked.points if isinstance(one, AppliancePoint)]
    if not every:
        raise BadInput(
            f"{spec}: has no third-party VNFs; allowed: deployment.hosting.kind: appliances"
        )
    study, width = str(doc.data["name"]).lower().replace("_", "-"), len(str(len(every)))
    named = {f"{study}-{number:0{width}}": one for number, one in enumerate(every, 1)}
    if point is None:
        return named
    if not has_groups(doc):
        wanted = numbered(checked, point).points
        return {name: one for name, one in named.items() if any(one is each for each in wanted)}
    of_name, *_ = chosen(doc, Wanted(point=point), cluster()).points
    if of_name.skipped is not None:
        raise HeadraceError(f"--point: {point} cannot be had: {of_name.skipped}")
    of_point = {name: one for name, one in named.items() if one.study.name == point}
    if not of_point:
        raise bad_value("--point", point, allowed="a point with third-party VNFs")
    return of_point


def _written(
    asked: dict[str, AppliancePoint], options: NetworkOptions
) -> tuple[dict[str, tuple[Manifest, ...]], dict[str, str]]:
    """Objects of each deployment; of those that pods cannot have, why."""
    written, left_out = {}, {}
    for name, one in asked.items():
        try:
            network = _network(one, options)
            layout, supplies = one.point.layout, one.point.supplies
            written[name] = manifests(f"headrace-{name}", layout, supplies, network)
        except BadInput as why:
            left_out[f"{name}, {one.chain}, {one.execution}"] = str(why)
    return written, left_out


def _check(options: NetworkOptions, points: Iterable[AppliancePoint]) -> None:
    """What no point could do anything about."""
    given = options.network
    if given is not None and given not in ATTACHMENTS:
        raise bad_value("--network", given, allowed=", ".join(ATTACHMENTS))
    kinds = {given or one.point.network for one in points}
    if options.claim is not None and "sriov" not in kinds:
        raise bad_value("--claim", options.claim, allowed="with network sriov")
    for option, value, of in _of_kinds(options):
        if value is not None and of not in kinds:
            raise bad_value(option, value, allowed=f"with network {of}")
        if kinds == {of} and not value:
            raise bad_value(option, allowed=f"a name, as the network is {of}")


def _of_kinds(options: NetworkOptions) -> tuple[tuple[str, str | None, str], ...]:
    devices = ", ".join(f"{place}={device}" for place, device in options.devices)
    return (
        ("--master", options.master, "macvlan"),
        ("--resource", options.resource, "sriov"),
        ("--device", devices or None, "host-device"),
    )


def _network(point: AppliancePoint, options: NetworkOptions) -> PodNetwork:
    kind = ATTACHMENTS.get(asked := options.network or point.point.network)
    if kind is None:
        allowed = f"on Kubernetes: {', '.join(ATTACHMENTS)}"
        raise bad_value("deployment.hosting.network", asked, allowed=allowed)
    named = {of: value for _, value, of in _of_kinds(options)}
    for option, value, of in _of_kinds(options):
        if kind == of and not value:
            raise bad_value(option, allowed=f"a name, as the network is {of}")
    where = dict(options.nodes)
    names = {node.name for node in point.point.layout.nodes}
    unknown = sorted(set(where) - names - {""})
    if unknown:
        allowed = f"CONTAINER=NODE with {', '.join(sorted(names))}"
        raise bad_value("--node", unknown[0], allowed=allowed)
    if kind == "bridge" and len(set(where.values())) > 1:
        nodes = ", ".join(where.values())
        raise bad_value("--node", nodes, allowed="one node: a bridge is a node's own")
    if kind == "bridge" and where:
        where = {"": next(iter(where.values()))}
    master = named["macvlan"] if kind == "macvlan" else None
    resource = named["sriov"] if kind == "sriov" else None
    devices = dict(options.devices) if kind == "host-device" else {}
    claim = options.claim if kind == "sriov" else None
    return PodNetwork(kind, master or "", resource or "", claim or "", where, devices)


def _nodes(given: Sequence[str], points: Iterable[AppliancePoint]) -> tuple[tuple[str, str], ...]:
    """Container, "" for all, and its node. A container that no point has is no container."""
    names = sorted({node.name for one in points for node in one.point.layout.nodes})
    places = []
    for text in given:
        container, equals, node = text.rpartition("=")
        if (equals and not container) or not NODE_NAME.fullmatch(node):
            allowed = "NODE or CONTAINER=NODE, the node's name of a-z, 0-9, - and . (RFC 1123)"
            raise bad_value("--node", text, allowed=allowed)
        if container and container not in names:
            raise bad_value("--node", text, allowed=f"CONTAINER=NODE with {', '.join(names)}")
        places.append((container, node))
    return tuple(places)


def _devices(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    places = []
    for text in given:
        place, equals, device = text.partition("=")
        if not (place and equals and re.fullmatch(INTERFACE_PATTERN, device)):
            raise bad_value("--device", text, allowed="CONTAINER/INTERFACE=DEVICE, as nat/up=eth2")
        places.append((place, device))
    return tuple(places)


def _say_others(folder: Path, written: Container[str]) -> None:
    """What an earlier export left there may be meant no more: it is not applied unawares."""
    files = folder.glob("*/kustomization.yaml")
    there = sorted(name for file in files if (name := file.parent.name) not in written)
    if there:
        names = there[0] + (f" to {there[-1]}" if len(there) > 1 else "")
        count = plural(len(there), "other deployment")
        _say(f"note: {folder} has {count} of before, left as they were: {names}")


def _write(folder: Path, objects: tuple[Manifest, ...]) -> None:
    make_folder(folder, "DIR")
    files: dict[str, list[Manifest]] = {}
    for one in objects:
        files.setdefault(_FILES.get(one.kind, "networks.yaml"), []).append(one)
    for name, ones in files.items():
        write_whole(folder / name, "---\n".join(_yaml(one.body) for one in ones))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
    }
    write_whole(folder / "kustomization.yaml", _HEAD + _yaml(kustomization))


def _yaml(body: object) -> str:
    return yaml.safe_dump(body, sort_keys=False, default_flow_style=False, width=1000)
