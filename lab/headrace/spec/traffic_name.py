# SPDX-License-Identifier: Apache-2.0
"""What a kind of traffic is called in results. Rows of one name are taken for repetitions of one
workload: so what a study has several of is told apart by all that they differ in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.spec.imix import Frame
from headrace.spec.workload import AnyWorkload, Packets, Pcap

_LONGEST = 40  # characters of a value that is written out; of longer ones it is said whose it is
_NAMED = {"kind", "frame"}  # what a name says in any case
_ORDER = "order"  # with its exponent
_SEEDED = ("random", "zipf")  # orders that a seed draws


def frames_of(workload: AnyWorkload) -> tuple[Frame, ...]:
    return workload.frame if isinstance(workload, Packets) else Packets().frame


def traffic_names(workload: AnyWorkload) -> list[str]:
    return [traffic_name(workload, frame) for frame in frames_of(workload)]


def traffic_name(workload: AnyWorkload, frame: Frame) -> str:
    parts = [f"{frame.name}B" if frame.name.isdigit() else frame.name]
    if isinstance(workload, Pcap):
        parts = [f"pcap:{workload.file.name}"]
        parts += ["in its own timing"] if workload.timing == "capture" else []
    elif not isinstance(workload, Packets):
        return workload.text
    elif workload.tuples_file is not None:
        parts.append(f"tuples:{workload.tuples_file.name}")
    else:
        parts.append(f"{workload.flows.count} flows")
    if workload.direction != "forward":
        parts.append(workload.direction)
    return " ".join(parts)


def what_differs(
    every: Sequence[AnyWorkload], number: int, name: str, names: Callable[[AnyWorkload], list[str]]
) -> str:
    """In what this one differs from those that would have its name otherwise. `names`: of a
    workload, one for each of its frames."""
    own = _properties(every[number])
    others = [_properties(one) for i, one in enumerate(every) if i != number and name in names(one)]
    return " ".join(
        _text(key, value, number)
        for key, value in own.items()
        if any(key in one and one[key] != value for one in others)
    )


def _properties(workload: AnyWorkload) -> dict[str, Any]:
    """What a name does not say, by key of the spec; a seed only where an order is drawn by it."""
    flat = dict(_flat(workload.model_dump(mode="json", exclude=_NAMED)))
    if not isinstance(workload, Packets):
        return flat
    del flat["flows.order"], flat["flows.zipf_exponent"]
    if workload.flows.order not in _SEEDED:
        del flat["flows.seed"]
    return {_ORDER: workload.flows.order_name, **flat}


def _flat(values: dict[str, Any], path: str = "") -> list[tuple[str, Any]]:
    """Leaves by dotted path. A load over time is one value: its parts say nothing alone."""
    leaves: list[tuple[str, Any]] = []
    for key, value in values.items():
        at = f"{path}{key}"
        nested = isinstance(value, dict) and at != "load"
        leaves += _flat(value, f"{at}.") if nested else [(at, value)]
    return leaves


def _text(key: str, value: Any, number: int) -> str:
    """`number` of the workload in the study tells long values apart, which are not written out."""
    if key == _ORDER:
        return str(value)
    if value is None or value in ([], ""):
        return f"no {key}"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{key}={text}" if len(text) <= _LONGEST else f"{key} of workload {number + 1}"
