#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw chains, plan each, run what was planned, and say how right the predictions were.

    studies/plan/verify.py FOLDER [--seed N] [--chains N] [--seconds S] [--repetitions N]
                           [--again N] [--within S] [--rate PPS]

Errors are of what was measured, at the pace of when costs were taken: the chain in one segment runs
then and in turn with what is verified. Each chain's plan is kept in FOLDER as NAME.json as soon as
it is there, and one that is there already is not measured again: an interrupted study goes on where
it was, and --within 240 begins no chain that would take it beyond so many seconds, so that it can
be taken in slices. The page of all of them is FOLDER/plans.html.

With --rate, as 500k or 50%, latency at that load is predicted and measured, too. Layouts that it
brings nearer than 15 % to their predicted throughput are not judged.

A machine that others share may change its pace between costs and verification; not all parts of a
chain follow it alike, so no one factor corrects for that. Such a chain is measured again, whatever
its errors were, up to --again times; what still moved then stays in, and is said. So is a chain
whose costs, or layouts, a hypervisor kept from being measured in one state of the machine
(model/lines_between.py); a layout of another state has no error then, and is counted apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from draw import draw_chains
from pydantic import TypeAdapter, ValidationError

from headrace.errors import BadInput
from headrace.report.checks import Check, at_least, at_most, section
from headrace.report.html import write
from headrace.report.plan import document as plan_document
from headrace.spec.plan import CHOICE_CLOSE, ChainPlan, LayoutPlan, Reference

PLANS = TypeAdapter(list[ChainPlan])
MOVED = 1.15  # by more than this the machine's pace is another, one way or the other
CHAINS, ERROR_MEDIAN, ERROR_MOST = 24, 0.07, 0.20  # what predictions are to reach, and on how many
CLOSE_LEAST = 22  # of CHAINS
KNEE = 0.85  # of the predicted throughput: latency is judged up to there
LATENCY_ERROR, P99_FACTOR, APART = (
    0.25,
    2.0,
    1.25,
)  # and of layouts so far apart the right one first


def stored(file: Path) -> list[ChainPlan] | None:
    try:
        return PLANS.validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def planned(
    spec: Path, seconds: float, repetitions: int, rate: str | None
) -> list[ChainPlan] | None:
    """A process of its own: a chain that fails is named, and the others are planned."""
    file = spec.with_suffix(".json")
    known = stored(file)
    if known is not None:
        return known
    program = Path(sys.executable).with_name("headrace")
    options = ["--verify", "--json", "--seconds", str(seconds), "--repetitions", str(repetitions)]
    if rate is not None:
        options += ["--aim", "throughput", "--rate", rate]
    done = subprocess.run([program, "plan", spec, *options], capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        print(f"{spec.stem}: {last[0]}", file=sys.stderr)
        return None
    plans = PLANS.validate_json(done.stdout)
    text = json.dumps(PLANS.dump_python(plans, mode="json"), indent=1)
    file.write_text(text + "\n", encoding="utf-8")
    return plans


def pace(reference: Reference) -> str:
    """Median, and the range of the rounds."""
    least, most = (
        now / reference.then_pps for now in (reference.now_min_pps, reference.now_max_pps)
    )
    return f"{reference.pace:.2f} ({least:.2f} to {most:.2f})"


def moved(plans: list[ChainPlan]) -> bool:
    """Between costs and any round of the verification: a median of unlike rounds is no pace."""
    return any(
        not 1 / MOVED <= now / p.reference.then_pps <= MOVED
        for p in plans
        if p.reference is not None
        for now in (p.reference.now_min_pps, p.reference.now_max_pps)
    )


def elsewhere(plans: list[ChainPlan]) -> bool:
    """The hypervisor moved lcores: costs are of two machines, or a layout is of another than
    they."""
    return any(p.mixed or any(one.elsewhere for one in p.layouts) for p in plans)


def planned_steadily(
    spec: Path, seconds: float, repetitions: int, again: int, rate: str | None
) -> list[ChainPlan] | None:
    plans = planned(spec, seconds, repetitions, rate)
    for _ in range(again):
        if plans is None or not (moved(plans) or elsewhere(plans)):
            break
        paces = ", ".join(pace(p.reference) for p in plans if p.reference is not None)
        why = "lcores were elsewhere" if elsewhere(plans) else f"the machine's pace became {paces}"
        print(f"{spec.stem}: {why}; measured again", flush=True)
        spec.with_suffix(".json").unlink(missing_ok=True)
        plans = planned(spec, seconds, repetitions, rate)
    return plans


def line(name: str, plan: ChainPlan, seconds: float) -> str:
    errors = ", ".join(f"{one.role} {one.error:+.1%}" for one in plan.layouts if one.error)
    loss = plan.choice_loss
    choice = "choice not judged" if loss is None else f"choice {loss:.1%} below the best"
    choice += "" if loss is None or plan.choice_sure else ", which is not sure"
    away = [one.role for one in plan.layouts if one.elsewhere]
    errors += f"; not judged, as lcores were elsewhere: {', '.join(away)}" if away else ""
    errors += "; costs of two states" if plan.mixed else ""
    at = "" if plan.reference is None else f"; pace {pace(plan.reference)}"
    return f"{name}: {errors}; {choice}{at}; {seconds:.0f} s"


def summary(plans: list[ChainPlan]) -> list[str]:
    errors = [abs(e) for p in plans for one in p.layouts if (e := one.error) is not None]
    losses = [loss for p in plans if (loss := p.choice_loss) is not None]
    close = sum(loss <= CHOICE_CLOSE for loss in losses)
    sure = sum(p.choice_sure for p in plans if p.choice_loss is not None)
    unseen = [
        abs(e) for p in plans for one in p.layouts if (e := one.error) is not None and not one.taken
    ] or [0.0]
    raw = [
        abs(one.predicted_pps / one.measured_pps - 1)
        for p in plans
        for one in p.layouts
        if one.measured_pps and not one.elsewhere
    ]
    if not errors:
        return [f"{len(plans)} chains, none judged" + _moved_lcores(plans)]
    return [
        f"{len(plans)} chains, {len(errors)} predictions" + _moved_lcores(plans),
        f"machine's pace another than when costs were taken: {sum(moved([p]) for p in plans)}",
        f"error of the prediction: median {median(errors):.1%}, most {max(errors):.1%}",
        f"of these the {len(unseen)} of layouts that no cost was taken from: "
        f"median {median(unseen):.1%}, most {max(unseen):.1%}",
        f"without regard to the machine's pace: median {median(raw):.1%}, most {max(raw):.1%}",
        f"choice: {close} of {len(losses)} are the measured best or within {CHOICE_CLOSE:.0%} of it"
        + (f", the worst {max(losses):.1%} below" if losses else ""),
        f"of these judgements {sure} are told by the scatter of starts nine times in ten",
    ]


def _moved_lcores(plans: list[ChainPlan]) -> str:
    away = sum(one.elsewhere for p in plans for one in p.layouts)
    mixed = sum(p.mixed for p in plans)
    told = f"; {away} layouts not judged, as lcores were elsewhere" if away else ""
    return told + (f"; costs of two states of the machine in {mixed} chains" if mixed else "")


def use(plan: ChainPlan, one: LayoutPlan) -> float:
    """The part of its busiest lcore that the load takes."""
    most = max(one.cycles_per_lcore.values())
    return (plan.rate_pps or 0.0) * most / (plan.tsc_hz * plan.kept)


def judged(plan: ChainPlan) -> list[LayoutPlan]:
    """Below their knee; with latencies of both kinds."""
    return [
        one
        for one in plan.layouts
        if one.predicted_latency_us
        and one.measured_latency_us
        and not one.latency_elsewhere
        and use(plan, one) <= KNEE
    ]


def latencies(plan: ChainPlan) -> list[str]:
    texts = []
    for one in plan.layouts:
        if not one.measured_latency_us or not one.measured_p99_us:
            continue
        middle, tail = one.predicted_latency_us or 0.0, one.predicted_p99_us or 0.0
        texts.append(
            f"  {one.role} at {use(plan, one):.0%}: predicted {middle:.2f} us, measured "
            f"{one.measured_latency_us:.2f} ({middle / one.measured_latency_us - 1:+.0%}); p99 "
            f"{tail:.1f}, {one.measured_p99_us:.1f} (x{tail / one.measured_p99_us:.2f}), of all "
            f"{one.whole_p99_us or 0:.0f}; quiet {one.quiet_share or 0:.0%}"
            + ("; not judged, as lcores were elsewhere" if one.latency_elsewhere else "")
        )
    return texts


def latency_goals(plans: list[ChainPlan]) -> list[Check]:
    """The errors of layouts below their knee."""
    both = [judged(p) for p in plans]
    if not any(both):
        return []
    errors, tails, wrong, pairs = [], [], 0, 0
    for layouts in both:
        for one in layouts:
            errors.append(abs(ratio(one.predicted_latency_us, one.measured_latency_us) - 1))
            if one.predicted_p99_us and one.measured_p99_us:
                factor = ratio(one.predicted_p99_us, one.measured_p99_us)
                tails.append(max(factor, 1 / factor))
        for a, b in itertools.combinations(layouts, 2):
            measured = ratio(a.measured_latency_us, b.measured_latency_us)
            predicted = ratio(a.predicted_latency_us, b.predicted_latency_us)
            apart = max(measured, 1 / measured) > APART
            pairs += apart
            wrong += apart and (measured > 1) != (predicted > 1)
    within = sum(one <= LATENCY_ERROR for one in errors) / len(errors)
    return [
        at_least("latencies judged", 1, float(len(errors)), whole),
        at_least(f"median latencies within {LATENCY_ERROR:.0%}", 1.0, within, percent),
        at_most("median latency, error, median", LATENCY_ERROR, median(errors)),
        at_most("median latency, error, most", LATENCY_ERROR, max(errors)),
        at_most("p99, factor, median", P99_FACTOR, median(tails) if tails else None, text=times),
        at_most("p99, factor, most", P99_FACTOR, max(tails, default=None), text=times),
        at_most(
            f"of {pairs} pairs over {APART - 1:.0%} apart, ranked wrongly",
            0,
            float(wrong),
            text=whole,
        ),
    ]


def ratio(a: float | None, b: float | None) -> float:
    return (a or 0.0) / (b or 1.0)


def percent(value: float) -> str:
    return f"{value:.0%}"


def times(value: float) -> str:
    return f"{value:.2f}"


def whole(value: float) -> str:
    return f"{value:.0f}"


def goals(plans: list[ChainPlan]) -> list[Check]:
    errors = [abs(e) for p in plans for one in p.layouts if (e := one.error) is not None]
    losses = [loss for p in plans if (loss := p.choice_loss) is not None]
    why = "nothing was measured"
    return [
        at_least("chains planned and run", CHAINS, float(len(plans)), lambda v: f"{v:.0f}"),
        at_most("error, median", ERROR_MEDIAN, median(errors) if errors else None, why=why),
        at_most("error, most", ERROR_MOST, max(errors, default=None), why=why),
        at_least(
            f"choices within {CHOICE_CLOSE:.0%} of the measured best, of {CHAINS}",
            CLOSE_LEAST,
            float(sum(loss <= CHOICE_CLOSE for loss in losses)),
            lambda v: f"{v:.0f}",
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2019)
    parser.add_argument("--chains", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a trial")
    parser.add_argument("--repetitions", type=int, default=4, help="trials per measured cost")
    parser.add_argument("--again", type=int, default=2, help="times that a chain is measured again")
    parser.add_argument("--rate", help="latency at this load, too, as 500k or 50%%")
    parser.add_argument("--within", type=float, help="seconds; no chain is begun that takes longer")
    given = parser.parse_args()
    if given.again < 0:
        parser.error(f"--again {given.again}: allowed: 0 or more")
    if given.chains < 1:
        parser.error(f"--chains {given.chains}: allowed: at least 1")
    plans: list[ChainPlan] = []
    specs = draw_chains(given.folder, given.seed, given.chains)
    start, longest = time.monotonic(), 0.0
    for spec in specs:
        began = time.monotonic()
        if given.within is not None and began - start + longest > given.within:
            print("the others are for another slice", flush=True)
            break
        of_chain = planned_steadily(spec, given.seconds, given.repetitions, given.again, given.rate)
        for plan in of_chain or ():
            plans.append(plan)
            longest = max(longest, time.monotonic() - began)
            print(line(spec.stem, plan, time.monotonic() - began), flush=True)
            print("\n".join(latencies(plan)), flush=True)
    if not plans:
        print("verify.py: no chain could be planned", file=sys.stderr)
        return 1
    checks = [*goals(plans), *latency_goals(plans)]
    print("\n".join([*summary(plans), *(check.line() for check in checks)]))
    page = plan_document(plans)
    try:
        page = replace(page, sections=(section(checks), *page.sections))
        write(page, given.folder / "plans.html")
    except BadInput as e:
        print(f"verify.py: {e}", file=sys.stderr)
        return 2
    return 0 if len(plans) >= len(specs) else 1


if __name__ == "__main__":
    sys.exit(main())
