# SPDX-License-Identifier: Apache-2.0
"""Layers of servers that are not this machine, each read by an agent there: the same collectors,
asked for one sample at a time.

What a place is called there gets its server's name: `cpu0@node1`. Places of what belongs to the
experiment, which was named by who deployed it, stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import ConfigDict, Field

from headrace.collect.collector import Collector, MetricValue
from headrace.collect.stack.result import StackTrace
from headrace.errors import HeadraceError
from headrace.record.frozen import Record
from headrace.record.sampled import ReadableLayer
from headrace.spec.collect import Layer

A = TypeVar("A", bound=Record)
Number = Annotated[float, Field(allow_inf_nan=False)]  # JSON of Python's has others


class LayersThere(Record):
    """What an agent answers to `watch`."""

    ok: Literal[True]
    layers: dict[Layer, ReadableLayer]


class SampleThere(Record):
    """What an agent answers to `sample`. `cpu_ns`: what its readings of the layer took so far."""

    ok: Literal[True]
    values: tuple[tuple[str, str, Number, Literal["counter", "gauge"]], ...]
    cpu_ns: int


class TraceThere(Record):
    """What an agent answers to `traced`."""

    ok: Literal[True]
    trace: StackTrace


class AnsweredThere(Record):
    """What an agent answers that did what it was asked."""

    ok: Literal[True]


class HelloThere(Record):
    """What an agent answers to `hello`, of which the version is read here."""

    model_config = ConfigDict(extra="ignore")

    version: str


class AskedAgent(Protocol):
    """An agent of one server. Raises HeadraceError where it refuses, or no answer comes."""

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """Is held from a request to its answer."""

    def send(self, cmd: str, **arguments: object) -> None: ...
    def receive_as(self, cmd: str, kind: type[A]) -> A: ...


class TracesPackets(Protocol):
    def stop(self) -> StackTrace: ...


def ask_as(agent: AskedAgent, cmd: str, kind: type[A], **arguments: object) -> A:
    with agent.turn:
        agent.send(cmd, **arguments)
        return agent.receive_as(cmd, kind)


class Elsewhere(Protocol):
    """What reads a deployment's layers where it runs."""

    def collectors(self, layers: Collection[Layer]) -> Sequence[Collector]: ...
    def tracing(self, options: Sequence[str]) -> AbstractContextManager[TracesPackets]:
        """Packets' ways, followed until `stop`; HeadraceError: why they cannot be."""


class RefusedElsewhere:
    """Nothing can be read there: why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def collectors(self, layers: Collection[Layer]) -> Sequence[Collector]:
        return [
            ElsewhereCollector(layer, {}, {"": ReadableLayer(refused=self._why)}, ())
            for layer in layers
        ]

    def tracing(self, options: Sequence[str]) -> AbstractContextManager[TracesPackets]:
        raise HeadraceError(self._why)


class AgentsThere:
    """Agents, by their servers' names, that read a deployment's layers."""

    def __init__(
        self,
        agents: Mapping[str, AskedAgent],
        own: Collection[str],
        told: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        """`own`: names of what belongs to the experiment. `told`: what each agent has to know of
        it, beside what it has started itself."""
        self._agents, self._own, self._told = agents, own, told or {}

    def collectors(self, layers: Collection[Layer]) -> Sequence[Collector]:
        there = {server: self._watched(server, layers) for server in self._agents}
        return [
            ElsewhereCollector(
                layer,
                self._agents,
                {server: one[layer] for server, one in there.items()},
                self._own,
            )
            for layer in layers
        ]

    def _watched(self, server: str, layers: Collection[Layer]) -> dict[Layer, ReadableLayer]:
        """What a server's agent can read; an agent that does not answer reads nothing."""
        told = self._told.get(server, {})
        try:
            answer = ask_as(self._agents[server], "watch", LayersThere, layers=list(layers), **told)
        except HeadraceError as why:
            return dict.fromkeys(layers, ReadableLayer(refused=str(why)))
        silent = ReadableLayer(refused=f"agent on {server}: it says nothing of this layer")
        return {layer: answer.layers.get(layer, silent) for layer in layers}

    @contextmanager
    def tracing(self, options: Sequence[str]) -> Iterator[TracerThere]:
        if len(self._agents) > 1:
            raise HeadraceError(
                f"packets' ways are followed on one server; this deployment is on "
                f"{len(self._agents)}"
            )
        [agent] = self._agents.values()
        ask_as(agent, "trace", AnsweredThere, options=list(options))
        yield TracerThere(agent)


class TracerThere:
    def __init__(self, agent: AskedAgent) -> None:
        self._agent = agent

    def stop(self) -> StackTrace:
        return ask_as(self._agent, "traced", TraceThere).trace


class ElsewhereCollector:
    """One layer of all servers. One whose agent is lost is left out from then on, and is said to be
    absent: what was measured is not lost with it."""

    def __init__(
        self,
        layer: Layer,
        agents: Mapping[str, AskedAgent],
        there: Mapping[str, ReadableLayer],
        own: Collection[str],
    ) -> None:
        """`own`: names of what belongs to the experiment."""
        self.layer, self._there, self._own = layer, there, frozenset(own)
        self._agents = {name: one for name, one in agents.items() if there[name].refused is None}
        self._lost: dict[str, str] = {}

    def refusal(self) -> str | None:
        if self._agents or self._lost:
            return None
        return _joined({name: str(one.refused) for name, one in self._there.items()})

    def absent(self) -> dict[str, str]:
        why: dict[str, dict[str, str]] = {}
        for server, one in self._there.items():
            for metric, text in one.absent.items():
                why.setdefault(metric, {})[server] = text
            if one.refused is not None:
                why.setdefault(f"server {server}", {})[server] = one.refused
        lost = {f"server {server}": text for server, text in self._lost.items()}
        return {metric: _joined(texts) for metric, texts in why.items()} | lost

    def read(self) -> Iterator[MetricValue]:
        for server, answer in self._answers().items():
            for metric, place, value, kind in answer.values:
                yield MetricValue(metric, self._place(place, server), value, kind)
            yield MetricValue("collector_cpu_ns", server, answer.cpu_ns)

    def _answers(self) -> dict[str, SampleThere]:
        """All are asked before the first answer is awaited."""
        answers: dict[str, SampleThere] = {}
        with ExitStack() as turns:
            for server, agent in list(self._agents.items()):
                turns.enter_context(agent.turn)
                with self._losing(server):
                    agent.send("sample", layer=self.layer)
            for server, agent in list(self._agents.items()):
                with self._losing(server):
                    answers[server] = agent.receive_as("sample", SampleThere)
        return answers

    @contextmanager
    def _losing(self, server: str) -> Iterator[None]:
        try:
            yield
        except HeadraceError as why:
            self._lost[server] = f"from then on: {why}"
            del self._agents[server]

    def _place(self, place: str, server: str) -> str:
        if place.partition("/")[0] in self._own:
            return place
        return f"{place}@{server}" if place else server

    def close(self) -> None:
        """Agents are who started them's to end."""


def _joined(texts: Mapping[str, str]) -> str:
    """By server, unless all say the same."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{server}: {text}" for server, text in texts.items())
