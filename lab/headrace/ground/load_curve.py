# SPDX-License-Identifier: Apache-2.0
"""The load of a workload over time, out of its steps or of a file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from headrace.engine.describe import check_text
from headrace.ground.operable import Foresight
from headrace.spec.document import Document
from headrace.spec.load import LoadCurve, check_curve
from headrace.spec.study import Experiment

_AT = ("workload", "load", "trace")
_LINES_MOST = 1_000_000


def load_of(experiment: Experiment, doc: Document) -> Foresight:
    """Packets/s over the seconds of the run. A step is two points of one time."""
    asked = getattr(experiment.workload, "load", None)
    assert isinstance(asked, LoadCurve)  # Study
    factor = asked.times
    if asked.steps is not None:
        points = _held(asked.steps)
    else:
        assert asked.trace is not None  # LoadCurve
        points = _read(doc.resolve(asked.trace), doc, str(asked.trace))
        if asked.unit == "gbps":
            factor *= 1e9 / 8 / experiment.frame.mean_bytes
    at, rates = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    return Foresight(at / asked.speed, rates * factor)


def _held(steps: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    points = [steps[0]]
    for (_, before), (at, after) in pairwise(steps):
        points += [(at, before), (at, after)]
    return points[:-1]  # the last time is the end


def _read(file: Path, doc: Document, given: str) -> list[tuple[float, float]]:
    """Lines of two numbers; the first may name its columns, and `#` begins a comment."""
    points: list[tuple[float, float]] = []
    check_text(file, doc, _AT, given)
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                told = line.partition("#")[0].strip()
                if not told:
                    continue
                if number > _LINES_MOST:
                    raise doc.error(_AT, f"more than {_LINES_MOST} lines: {file}", value=given)
                try:
                    at, rate = map(float, told.split(","))
                except ValueError:
                    if points or not told[0].isalpha():
                        problem = f"{file}:{number}: {told[:40]!r}; allowed: seconds,rate"
                        raise doc.error(_AT, problem, value=given) from None
                    continue
                points.append((at, rate))
        check_curve(points)
    except OSError as error:
        why = (error.strerror or "cannot be read").lower()
        raise doc.error(_AT, f"{why}: {file}", value=given) from None
    except UnicodeDecodeError:
        raise doc.error(_AT, f"is no text: {file}", value=given) from None
    except ValueError as error:
        raise doc.error(_AT, f"{file}: {error}", value=given) from None
    if len(points) < 2:
        raise doc.error(_AT, f"{file}: {len(points)} points; allowed: 2 or more", value=given)
    return points
