# SPDX-License-Identifier: Apache-2.0
"""Tries advice: interleaved trials with and without each, in rounds, on one path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from rich.markup import escape

from headrace.host.ledger import Ledger
from headrace.measure.results import result
from headrace.measure.session import Session
from headrace.record.rows import Trial
from headrace.tune.advice import Advice, Situation
from headrace.tune.discover import discover
from headrace.tune.gains import ADVICE_FILE, Advised, Considered, Tuned
from headrace.tune.ground import Joined, PathPoint, Question, Rig, Tried, question
from headrace.tune.path import ServerPath, build, cpus
from headrace.tune.seen import Seen
from headrace.tune.wish import Protocol, Wish


def tune(session: Session, wish: Wish, advice: Sequence[Advice]) -> Tuned:
    """Leaves in the session's bundle every trial, and which advice was considered and why."""

    def say(text: str) -> None:
        session.progress.say(escape(text))

    tag = f"hrt{os.getpid() % 100000}"
    rig = Rig(
        Ledger(session.state.path), session.state.path, tag, say, tuple(cpus()),
        wish.message_bytes,
    )  # fmt: skip
    ends = wish.ends
    path = (
        discover(ends.sender, ends.receiver, ends.bridge)
        if ends is not None
        else build(tag, rig.ledger)
    )
    session.hold(rig.used)
    return _Tuning(session, wish, rig, question(wish), path).run(advice)


class _Tuning:
    def __init__(
        self, session: Session, wish: Wish, rig: Rig, study: Question, path: ServerPath
    ) -> None:
        self._session, self._wish, self._rig = session, wish, rig
        self._study, self._path = study, path
        self._considered: list[Considered] = []

    def run(self, advice: Sequence[Advice]) -> Tuned:
        for protocol in self._wish.protocols:
            applicable = self._consider(protocol, advice)
            self._rounds(protocol, applicable)
        return Tuned(self._note(), tuple(self._session.results))

    def _note(self) -> Advised:
        """Writes it into the bundle at once: an interrupted run has a report, too."""
        wish = self._wish
        advised = Advised(
            cpus=self._rig.cpus, message_bytes=wish.message_bytes, seconds=wish.seconds,
            path=self._path, considered=tuple(self._considered),
        )  # fmt: skip
        self._session.bundle.sample(ADVICE_FILE, advised.model_dump_json(indent=1))
        return advised

    def _consider(self, protocol: Protocol, several: Sequence[Advice]) -> list[Tried]:
        """Goes by a trial on the path as it is."""
        seen, _ = self._trial(PathPoint(self._rig, self._path, self._study, protocol), 0)
        cpus = self._rig.cpus
        situation = Situation(self._path, protocol, seen, cpus, self._wish.message_bytes)
        applicable: list[Tried] = []
        for advice in several:
            verdict = advice.applies(situation)
            changes = advice.changes(situation) if verdict.applies else []
            self._considered.append(
                Considered(
                    advice=advice.name, finding=advice.finding, protocol=protocol,
                    applies=verdict.applies, why=verdict.why, warning=advice.warning,
                    changes=tuple(dict.fromkeys(c.text for c in changes)),
                )
            )  # fmt: skip
            if verdict.applies:
                applicable.append((advice, situation))
            applies = "applies" if verdict.applies else "does not apply"
            self._rig.say(f"  {protocol} {advice.name}: {applies}: {verdict.why}")
        self._note()
        return applicable

    def _rounds(self, protocol: Protocol, applicable: Sequence[Tried]) -> None:
        """Every other round backwards: what drifts with time is in both orders."""
        for number in range(1, self._wish.rounds + 1):
            order: list[Tried | None] = [None, *applicable]
            for tried in order if number % 2 else reversed(order):
                self._path = path = self._rig.afresh(self._path)
                if tried is not None:
                    tried = (tried[0], replace(tried[1], path=path))
                point = PathPoint(self._rig, path, self._study, protocol, tried)
                seen, trial = self._trial(point, number)
                self._session.keep([result(trial, "max")])
                self._rig.say(
                    f"  {protocol} round {number}, {point.execution}: {seen.gbps:.2f} Gbit/s"
                )

    def _trial(self, point: PathPoint, number: int) -> tuple[Seen, Trial]:
        """Trial 0 of a protocol, which the path is verified before, is no part of a round."""
        with self._session.deployed(point) as deployed:
            assert isinstance(deployed, Joined)
            if number == 0:
                deployed.verify()
            [offer] = point.offers
            [trial] = self._session.trial(
                deployed, point, offer, 0, self._wish.seconds, "max" if number else "warm-up",
                number,
            )  # fmt: skip
            return deployed.seen, trial
