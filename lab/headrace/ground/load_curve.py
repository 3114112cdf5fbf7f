# SPDX-License-Identifier: Apache-2.0
"""The load of a workload over time, out of its steps or of a file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from headrace.engine.describe import check_text
from headrace.ground.operable import Foresight
from headrace.spec.document import Document, PathKey
from headrace.spec.load import LoadCurve, check_curve
from headrace.spec.study import Experiment

_LINES_MOST = 1_000_000


def load_of(experiment: Experiment, doc: Document) -> Foresight:
    """Packets/s over the seconds of the run. A step is two points of one time."""
    asked, at = asked_load(experiment)
    factor = asked.times
    if asked.steps is not None:
        points = _held(asked.steps)
    else:
        assert asked.trace is not None  # LoadCurve
        points = _read(doc.resolve(asked.trace), doc, (*at, "trace"), str(asked.trace))
        if asked.unit == "gbps":
            factor *= 1e9 / 8 / experiment.frame.mean_bytes
    seconds, rates = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    return Foresight(seconds / asked.speed, rates * factor)


def asked_load(experiment: Experiment) -> tuple[LoadCurve, tuple[PathKey, ...]]:
    """The chain's load, and where the study has it."""
    operate = experiment.study.measure.operate
    if operate is not None and operate.chains:
        return operate.chains[experiment.chain].load, (
            "measure", "operate", "chains", experiment.chain, "load",
        )  # fmt: skip
    asked = getattr(experiment.workload, "load", None)
    assert isinstance(asked, LoadCurve)  # Study
    return asked, ("workload", "load")


def _held(steps: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    points = [steps[0]]
    for (_, before), (at, after) in pairwise(steps):
        points += [(at, before), (at, after)]
    return points[:-1]  # the last time is the end


def _read(
    file: Path, doc: Document, at: tuple[PathKey, ...], given: str
) -> list[tuple[float, float]]:
    """Lines of two numbers; the first may name its columns, and `#` begins a comment."""
    points: list[tuple[float, float]] = []
    check_text(file, doc, at, given)
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                told = line.partition("#")[0].strip()
                if not told:
                    continue
                if number > _LINES_MOST:
                    raise doc.error(at, f"more than {_LINES_MOST} lines: {file}", value=given)
                try:
                    second, rate = map(float, told.split(","))
                except ValueError:
                    if points or not told[0].isalpha():
                        problem = f"{file}:{number}: {told[:40]!r}; allowed: seconds,rate"
                        raise doc.error(at, problem, value=given) from None
                    continue
                points.append((second, rate))
        check_curve(points)
    except OSError as error:
        why = (error.strerror or "cannot be read").lower()
        raise doc.error(at, f"{why}: {file}", value=given) from None
    except UnicodeDecodeError:
        raise doc.error(at, f"is no text: {file}", value=given) from None
    except ValueError as error:
        raise doc.error(at, f"{file}: {error}", value=given) from None
    if len(points) < 2:
        raise doc.error(at, f"{file}: {len(points)} points; allowed: 2 or more", value=given)
    return points
