# SPDX-License-Identifier: Apache-2.0
"""What the user sees while a run goes on: where it is, the bounds so far, how long it may take.

Written between trials only. A display that refreshes itself during a trial would preempt a poller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from rich.console import Console

from headrace.host.exclusive import WAIT_S, holder
from headrace.measure.observer import Observer
from headrace.measure.outcome import Bounds
from headrace.record.text import between, duration


@dataclass
class Progress:
    """Lines on a console; on a terminal the last one is rewritten."""

    console: Console
    total: int
    expected_each_s: float
    observer: Observer = field(default_factory=Observer)
    done: int = 0
    _began: float = field(default_factory=monotonic)
    _experiment_began: float = field(default_factory=monotonic)
    _label: str = ""
    _open_line: bool = False

    def experiment(self, label: str) -> None:
        self._label, self._experiment_began = label, monotonic()
        self.observer.experiment(label, self.done + 1, self.total)
        self.say(f"[bold]{label}[/bold] ({self.done + 1}/{self.total})")

    def finished(self) -> None:
        self.done += 1

    def eta_s(self) -> float:
        now = monotonic()
        each = (self._experiment_began - self._began) / self.done if self.done else 0.0
        each = each or self.expected_each_s
        here = max(0.0, each - (now - self._experiment_began))
        return here + each * (self.total - self.done - 1)

    def say(self, text: str) -> None:
        self._end_line()
        self.console.print(text, highlight=False, soft_wrap=True)
        self.observer.said(text)

    def status(self, text: str) -> None:
        """A passing state: shown on a terminal only."""
        if not self.console.is_terminal:
            return
        line = f"  {text}, {duration(self.eta_s())} left"
        self.console.file.write("\r\x1b[2K" + line[: self.console.width - 1])
        self.console.file.flush()
        self._open_line = True

    def bounds(self, bounds_pps: Bounds, trials: int) -> None:
        self.observer.bounds(bounds_pps)
        parts = [f"{name} {between(low, high)}" for name, (low, high) in bounds_pps.items()]
        self.status(f"{', '.join(parts)} after {trials} trials")

    def _end_line(self) -> None:
        if self._open_line:
            self.console.file.write("\r\x1b[2K")
            self.console.file.flush()
            self._open_line = False

    close = _end_line


def waiting_for(cpu: int, wait_s: float = WAIT_S) -> str:
    """Whose lcore it is, and for how long at most."""
    return f"lcore {cpu}: waiting for {holder(cpu)}, at most {duration(wait_s)}"
