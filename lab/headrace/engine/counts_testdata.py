# SPDX-License-Identifier: Apache-2.0
"""Readings for tests: what a test says, and zero for all that the engine would say beside."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from headrace.engine.counts import EngineCounts


def counts(given: dict[str, Any]) -> EngineCounts:
    return EngineCounts.model_validate(_filled(EngineCounts, given))


def _filled(kind: Any, given: Any) -> Any:
    """`said`, None where nothing is, in the form of this type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _filled(args[0], given)
    if origin in (Union, types.UnionType):
        several = [one for one in args if isinstance(one, type) and issubclass(one, BaseModel)]
        if type(None) in args and given is None:
            return None
        if len(several) > 1:
            [several] = [[one] for one in several if given["type"] in _type_of(one)]
        return _filled(several[0], given) if several else given
    if origin is Literal:
        return args[0] if given is None else given
    if origin is dict:
        return {key: _filled(args[1], one) for key, one in (given or {}).items()}
    if origin is tuple:
        return [_filled(args[0], one) for one in given or ()]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _of_model(kind, given or {})
    return kind() if given is None else given


def _type_of(kind: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(kind.model_fields["type"].annotation)


def _of_model(kind: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    whole = dict(given)
    for name, field in kind.model_fields.items():
        key = field.alias or name
        if key in given or field.is_required():
            whole[key] = _filled(field.annotation, given.get(key))
    return whole
