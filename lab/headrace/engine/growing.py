# SPDX-License-Identifier: Apache-2.0
"""Numbers that only grow: a trial's share is what one reading has more than an earlier one."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import ConfigDict

from headrace.record.frozen import Record


class Counts(Record):
    """Numbers that only grow, but for those that are `momentary`. None is infinite, or no number:
    a VNF's engine may say what it likes."""

    model_config = ConfigDict(allow_inf_nan=False)

    momentary: ClassVar[frozenset[str]] = frozenset()

    def since(self, was: Self | None) -> Self:
        """What was counted since then; what is momentary stays as it is now."""
        if was is None:
            return self
        then = was.__dict__
        grown = {
            name: _grown(now, then[name])
            for name, now in self.__dict__.items()
            if name not in self.momentary
        }
        return self.model_copy(update=grown)


def _grown(now: Any, was: Any) -> Any:
    if type(now) in (int, float):  # a bool is none of them
        return now if was is None else max(0, now - was)
    if isinstance(now, Counts):
        return now.since(was)
    if isinstance(now, dict):
        return {key: _grown(one, (was or {}).get(key)) for key, one in now.items()}
    if isinstance(now, tuple):
        earlier = (*(was or ()), *[None] * len(now))
        return tuple(_grown(one, then) for one, then in zip(now, earlier, strict=False))
    return now
