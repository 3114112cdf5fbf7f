# SPDX-License-Identifier: Apache-2.0
"""What `measure.operate` can be asked of, on whatever ground."""

from __future__ import annotations

from headrace.engine.place import Placement
from headrace.ground.elastic_plant import WINDOW_S
from headrace.ground.load_curve import asked_load, load_of
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_FIRST_PPS = 1000  # with less, it takes long until one can tell that packets come
_BUCKETS = 256
# Of keys that only a simulation asks for: what they say is measured where the chain runs.
_SIMULATED = ("costs", "model_error", "neighbour", "seed")


def check_operable(experiment: Experiment, doc: Document, placement: Placement) -> None:
    """BadInput for what has no lcores that could be added or removed one by one."""
    deployment, asked = experiment.study.deployment, experiment.study.measure.operate
    assert asked is not None  # who calls has asked
    if len(placement.segments) != 1 and not asked.chains:
        raise doc.error(
            ("deployment", "execution"),
            f"cannot operate: {experiment.execution.name}; covered: rtc, one segment",
        )
    for key, given, covered in (
        ("steer", deployment.steer, "hash"), ("wire_on_full", deployment.wire_on_full, "drop"),
    ):  # fmt: skip
        if given != covered:
            raise doc.error(("deployment", key), f"cannot operate: {given}; covered: {covered}")
    if (direction := experiment.workload.direction) != "forward":
        raise doc.error(("workload", "direction"), f"cannot operate: {direction}; covered: forward")
    seconds = load_of(experiment, doc).seconds[-1]
    if seconds < 2 * asked.interval:
        raise doc.error(
            asked_load(experiment)[1],
            f"cannot operate: lasts {seconds:g} s; covered: two intervals of {asked.interval:g} s, "
            "or more",
        )


def check_operated_engine(experiment: Experiment, doc: Document, placement: Placement) -> None:
    """The same for an engine on this machine."""
    check_operable(experiment, doc, placement)
    if experiment.execution.elastic is None:
        raise doc.error(
            ("deployment", "execution"),
            f"cannot operate: {experiment.execution.name}; allowed here: "
            "{model: rtc, elastic: N}, or a described server (--on SERVER)",
        )
    lcores = placement.room[: experiment.execution.elastic]
    if len(lcores) < 2:
        raise doc.error(
            ("deployment", "lcores"),
            f"cannot operate: the chain has lcore {lcores[0]} only; allowed: two or more, as "
            "`lcores: {chain: [...]}`, with `shared: true` also those of traffic",
        )
    asked = experiment.study.measure.operate
    assert asked is not None  # who calls has asked
    given = asked.model_fields_set
    for key, value, covered in (
        ("interval", asked.interval, WINDOW_S), ("buckets", asked.buckets, _BUCKETS),
    ):  # fmt: skip
        if key in given and value != covered:
            raise doc.error(
                ("measure", "operate", key),
                f"cannot operate: {value:g} on an engine; covered: {covered:g}",
            )
    if (first := float(load_of(experiment, doc).pps[0])) < _FIRST_PPS:
        raise doc.error(
            ("workload", "load"),
            f"cannot operate: begins with {first:g} packets/s; covered on an engine: {_FIRST_PPS} "
            "or more",
        )
    for key in _SIMULATED:
        if key in given:
            raise doc.error(
                ("measure", "operate", key),
                "belongs to a described server; here it is measured, or what it is; allowed: none",
            )
