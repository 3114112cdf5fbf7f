# SPDX-License-Identifier: Apache-2.0
"""headrace agent: this server for the lab of another one, which starts it over SSH."""

from __future__ import annotations

from typing import Any


def agent() -> None:
    """Do what the lab of another server asks over standard input; undo it when that ends.

    A study with `servers` starts it over SSH; nobody does by hand."""
    from headrace.engine.engine import Engine
    from headrace.ground.contract import AboutEngine
    from headrace.ground.wired.agent import guarded, serve
    from headrace.measure import environment

    def about(engine: Engine, memory: str) -> dict[str, Any]:
        known = AboutEngine(engine.info(), engine.shielded)
        return environment.collect(known, memory).model_dump(mode="json")

    guarded(lambda: serve(about))
