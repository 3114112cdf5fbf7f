# SPDX-License-Identifier: Apache-2.0
"""headrace export: a study's deployments for other tools to apply."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from functools import partial
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
from headrace.ground.contract import Checked
from headrace.ground.kubernetes.cut import TESTER
from headrace.ground.kubernetes.manifests import ATTACHMENTS, Manifest, PodNetwork, manifests
from headrace.ground.kubernetes.nodes import UnaskedNodes
from headrace.ground.kubernetes.own_chains import EnginePodsPoint, PodChains
from headrace.host.consoles import Terminal
from headrace.record.bundle import write_whole
from headrace.record.outputs import ExportOutput
from headrace.spec.base import INTERFACE_PATTERN
from headrace.spec.document import Document
from headrace.spec.forms import hosting_kind
from headrace.spec.kubernetes import NODE_NAME, Kubernetes
from headrace.spec.points import Wanted, has_groups
from headrace.spec.study import ground_of

app = typer.Typer(no_args_is_help=True, help="Write a study's deployments for other tools.")
PodsPoint = AppliancePoint | EnginePodsPoint
_FILES = {"Namespace": "namespace.yaml", "Pod": "pods.yaml", "ConfigMap": "plans.yaml"}
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
    spec: Annotated[Path, typer.Argument(help="A spec (YAML), or a study of headrace's own.")],
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
    """Write the manifests (kustomize) of each point: networks by Multus, a pod for each VNF; of
    headrace's own functions a pod for each segment and the tester, whose engines run."""
    doc = open_spec(spec, trusted=False)
    devices = _devices(device or ())
    options = NetworkOptions(network, master, resource, claim, _nodes(node or ()), devices)
    _check_network(options)
    asked = _asked(doc, spec, point, options)
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


def _asked(
    doc: Document, spec: Path, point: str | None, options: NetworkOptions
) -> dict[str, PodsPoint]:
    """The deployments that are wanted, by their folders' names: those that they have among all."""
    check = partial(_checked, options)
    checked = chosen(doc, Wanted(), cluster()).checked(check, all_right=True)
    every = [one for one in checked.points if isinstance(one, AppliancePoint | EnginePodsPoint)]
    if not every:
        raise BadInput(
            f"{spec}: no point of it is pods; allowed: groups with ground.kubernetes, or with "
            "deployment.hosting.kind: appliances"
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
        raise bad_value("--point", point, allowed="a point whose chain is pods")
    return of_point


def _checked(options: NetworkOptions, doc: Document) -> Checked:
    """Takes a study without groups that names no cluster for one that does; of one with groups it
    takes those that do. No cluster is asked."""
    if hosting_kind(doc.data) == "appliances":
        return Grounds().check(doc)
    asked = ground_of(doc)
    given = None if asked is None else asked.kubernetes
    if given is None:
        if doc.group is not None:
            return Checked(points=(), inputs={}, seconds=None)
        given = Kubernetes()
    given = _with_options(given, options)
    return PodChains(given, UnaskedNodes(given)).check(doc)


def _with_options(given: Kubernetes, options: NetworkOptions) -> Kubernetes:
    """What the command line says of pods of headrace's own functions stands for what the study
    does."""
    places, update = dict(options.nodes), dict[str, object]()
    if options.network not in (None, "host-device"):
        allowed = "host-device with headrace's own functions, or none"
        raise bad_value("--network", options.network, allowed=allowed)
    if options.network is not None:
        update |= {"network": options.network, "devices": dict(options.devices)}
    if whole := places.pop("", None):
        update["nodes"] = (whole,)
    if unknown := sorted(set(places) - {TESTER}):
        allowed = f"NODE for the chain's pods, {TESTER}=NODE"
        raise bad_value("--node", f"{unknown[0]}={places[unknown[0]]}", allowed=allowed)
    if places:
        update["place"] = places
    return given.model_copy(update=update)


def _written(
    asked: dict[str, PodsPoint], options: NetworkOptions
) -> tuple[dict[str, tuple[Manifest, ...]], dict[str, str]]:
    """Objects of each deployment; of those that pods cannot have, why."""
    written, left_out = {}, {}
    for name, one in asked.items():
        try:
            written[name] = _objects(f"headrace-{name}", one, options)
        except BadInput as why:
            left_out[f"{name}, {one.chain}, {one.execution}"] = str(why)
    return written, left_out


def _objects(namespace: str, one: PodsPoint, options: NetworkOptions) -> tuple[Manifest, ...]:
    if isinstance(one, EnginePodsPoint):
        return one.exported(namespace)
    network = _network(one, options)
    return manifests(namespace, one.point.layout, one.point.supplies, network)


def _check(options: NetworkOptions, points: Collection[PodsPoint]) -> None:
    """What no point could do anything about. A container that no point has is no container."""
    vnfs = [one for one in points if isinstance(one, AppliancePoint)]
    names = {node.name for one in vnfs for node in one.point.layout.nodes}
    names |= {TESTER} if len(vnfs) < len(points) else set()
    for container, node in options.nodes:
        if container and container not in names:
            allowed = f"CONTAINER=NODE with {', '.join(sorted(names))}"
            raise bad_value("--node", f"{container}={node}", allowed=allowed)
    given = options.network
    joined = {"memory"} if len(vnfs) < len(points) else set()  # of pods of engines
    kinds = {given} if given else {one.point.network for one in vnfs} | joined
    if options.claim is not None and "sriov" not in kinds:
        raise bad_value("--claim", options.claim, allowed="with network sriov")
    for option, value, of in _of_kinds(options):
        if value is not None and of not in kinds:
            raise bad_value(option, value, allowed=f"with network {of}")
    _check_named(options, kinds)


def _check_network(options: NetworkOptions) -> None:
    """A network that is named has what it needs, whatever the study."""
    given = options.network
    if given is not None and given not in ATTACHMENTS:
        raise bad_value("--network", given, allowed=", ".join(ATTACHMENTS))
    _check_named(options, {given})


def _check_named(options: NetworkOptions, kinds: Collection[str | None]) -> None:
    """Where all networks are of one kind, what that one needs is named."""
    for option, value, of in _of_kinds(options):
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


def _nodes(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Container, "" for all, and its node."""
    places = []
    for text in given:
        container, equals, node = text.rpartition("=")
        if (equals and not container) or not NODE_NAME.fullmatch(node):
            allowed = "NODE or CONTAINER=NODE, the node's name of a-z, 0-9, - and . (RFC 1123)"
            raise bad_value("--node", text, allowed=allowed)
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


class _Legible(yaml.SafeDumper):
    """Writes texts of several lines, as plans and scripts, by lines."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Legible.add_representer(str, _text)


def _yaml(body: object) -> str:
    return yaml.dump(body, Dumper=_Legible, sort_keys=False, default_flow_style=False, width=1000)
