# SPDX-License-Identifier: Apache-2.0
"""This server as a file that predictions are made from: its calibration, and the profiles that were
stored, in cycles of its cores' clock while they were taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Literal

from headrace.errors import HeadraceError
from headrace.host import store
from headrace.model.amat import better_than_the_mean, typical_error
from headrace.spec.base import MedianRange
from headrace.spec.calibration import Calibration
from headrace.spec.described import DescribedServer
from headrace.spec.profile import Profile

_CALIBRATED, _PROFILED = "calibration", "profiles"
_ENTRIES: dict[str, Literal["flows", "rules", "routes"]] = {"l3fwd": "routes"}


def describe_server(name: str, about: str) -> DescribedServer:
    """HeadraceError where nothing was calibrated or profiled."""
    calibration = store.calibration()
    if calibration is None:
        raise HeadraceError("no calibration of this server; `headrace server calibrate` makes it")
    profiles = [
        store.load(file, Profile) for file in sorted(store.profiles_folder().glob("*.json"))
    ]
    profiles = [one for one in profiles if one.places is not None]
    if not profiles:
        raise HeadraceError("no profiles of functions; `headrace profile NF` makes one")
    return described(name, about, calibration, profiles)


def described(
    name: str, about: str, calibration: Calibration, profiles: Sequence[Profile]
) -> DescribedServer:
    measured, server = calibration.measured, calibration.server
    clocks = [one.speed.mhz for one in profiles if one.speed is not None and one.speed.mhz]
    mhz = median(clocks) if clocks else measured.tsc_hz / 1e6
    each = mhz * 1e6 / measured.tsc_hz  # core cycles of a TSC cycle
    sockets = max(1, server.sockets)
    return DescribedServer.model_validate(
        {
            "name": name,
            "about": about,
            "sources": {
                _CALIBRATED: _source(f"`headrace server calibrate`, {calibration.created_at[:10]}"),
                _PROFILED: _source(f"`headrace profile`, {profiles[0].created_at[:10]}"),
            },
            "clock_mhz": [round(mhz), _PROFILED],
            "sockets": sockets,
            "cores_per_socket": max(1, len(server.cores) // sockets),
            "levels": list(_levels(calibration, each)),
            "transfer_cycles": _transfer(calibration, each),
            "functions": {one.nf: _function(one, each) for one in profiles},
            "traffic": _traffic(profiles, each),
        }
    )


def _source(text: str) -> dict[str, str]:
    return {"kind": "measured", "text": text}


def _levels(calibration: Calibration, each: float) -> Iterable[dict[str, Any]]:
    """A cache is as large as it is found to be: neighbours of a virtual machine have the rest."""
    cores = max(1, len(calibration.server.cores) // max(1, calibration.server.sockets))
    for i, level in enumerate(calibration.levels):
        size = level.reaches_bytes or level.bytes
        gather = level.cycles if level.gather_cycles is None else level.gather_cycles
        yield {
            "name": level.name,
            **({} if size is None else {"kib": [size // 1024, _CALIBRATED]}),
            "shared_by": cores if i == len(calibration.levels) - 2 else 1,
            "cycles": [round(level.cycles * each, 1), _CALIBRATED],
            "gather_cycles": [round(gather * each, 1), _CALIBRATED],
        }


def _transfer(calibration: Calibration, each: float) -> list[Any] | None:
    lines = [one.modified for one in calibration.measured.transfer or ()]
    if not lines:
        return None
    return [round(median(one.median for one in lines) * each, 1), _CALIBRATED, _spread(lines)]


def _spread(figures: Sequence[MedianRange]) -> float:
    middle = median(one.median for one in figures)
    return round(min(0.9, (max(f.median for f in figures) / middle - 1)), 3)


def _function(profile: Profile, each: float) -> dict[str, Any]:
    """The profile's neighbourhoods: `near` has the function beside the source, `far` beside the
    sink. Its own cycles without state are the fit's, where that says more than their mean."""
    assert profile.places is not None
    near, far, fit = profile.places.near, profile.places.far, profile.fit
    spread = _over_points(profile)
    first_touch = max(0.0, far.nf - near.nf)

    def figure(cycles: float) -> list[Any]:
        return [round(max(0.0, cycles) * each, 1), _PROFILED, spread]

    cost: dict[str, Any] = {
        "base": figure(near.nf),
        "rx": figure(near.rx),
        "tx": figure(far.tx),
        "hand_over": figure(far.rx - near.rx + first_touch),
        "loop": figure(median((near.loop, far.loop))),
        "poll": figure(far.poll),
        "entries": _ENTRIES.get(profile.nf, "flows"),
    }
    if fit is not None and fit.accesses and better_than_the_mean(fit):
        cost |= {
            "base": figure(fit.base_cycles),
            "accesses": [
                round(fit.accesses, 3),
                _PROFILED,
                round(min(0.9, typical_error(fit) or 0.0), 3),
            ],
            "bytes_per_entry": [round(fit.bytes_per_entry, 1), _PROFILED],
            "overlapped": fit.overlapped,
        }
    return cost


def _over_points(profile: Profile) -> float:
    """Says by how much repetitions of one point differ from their median, the median of all
    points."""
    widths = [
        (point.cost.nf.max - point.cost.nf.min) / 2 / point.cost.nf.median
        for point in profile.points
        if point.cost.nf.median > 0
    ]
    return round(min(0.5, median(widths)), 3) if widths else 0.0


def _traffic(profiles: Sequence[Profile], each: float) -> dict[str, Any]:
    """Source and sink do not know what is between them: the median over all functions."""
    places = [one.places for one in profiles if one.places is not None]

    def over(values: Iterable[float]) -> list[Any]:
        cycles = list(values)
        middle = median(cycles)
        spread = (max(cycles) - min(cycles)) / 2 / middle if middle else 0.0
        return [round(middle * each, 1), _PROFILED, round(min(0.5, spread), 3)]

    return {
        "source": over(one.far.source for one in places),
        "source_random": over(one.far.source for one in places),
        "steer": over(
            max(0.0, one.spread.source - (one.near.source + one.far.source) / 2) for one in places
        ),
        "sink": over(one.far.sink for one in places),
        "hand_over": over(max(0.0, one.near.sink - one.far.sink) for one in places),
        "idle": over(one.far.idle for one in places),
    }


def compact(data: Any) -> Any:
    """Figures as [value, source, spread], as one would write them."""
    if isinstance(data, list):
        return [compact(one) for one in data]
    if not isinstance(data, dict):
        return data
    if set(data) <= {"value", "source", "spread"} and "value" in data:
        return [data[key] for key in ("value", "source", "spread") if key in data]
    return {key: compact(value) for key, value in data.items()}
