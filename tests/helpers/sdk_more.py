"""Bodies held against the official types that are no TypedDicts: botocore's model of Converse, google-genai's of Gemini.

As in `sdk_types.py`, a violation names the item, but not the place of a block inside it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

__all__ = ["converse_violations", "gemini_violations"]

_INNER = re.compile(r"\[\d+\]")


@cache
def _converse_shape() -> Any:
    from botocore.session import get_session

    return get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape


def _decoded(shape: Any, value: Any) -> Any:
    """A value as the SDK takes it: what the wire has as base64 is bytes."""
    if shape.type_name == "structure" and isinstance(value, Mapping) and not getattr(shape, "is_document_type", False):
        return {key: _decoded(shape.members[key], each) if key in shape.members else each for key, each in value.items()}
    if shape.type_name == "list" and isinstance(value, list):
        return [_decoded(shape.member, each) for each in value]
    if shape.type_name == "blob" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            return value
    return value


def converse_violations(body: Mapping[str, Any]) -> Iterator[str]:
    """What botocore refuses of a request. A model may stand in the URL, so it may be missing."""
    from botocore.validate import ParamValidator

    shape = _converse_shape()
    whole = {"modelId": "m", **body}
    unions = _unions(shape, whole, "")
    report = ParamValidator().validate(_decoded(shape, whole), shape).generate_report()
    for line in (*report.splitlines(), *unions):
        head, _, rest = line.partition("messages[")
        number, closed, rest = rest.partition("]") if rest else ("", "", "")
        yield head + (f"messages[{number}{closed}" if number else "") + _INNER.sub("[]", rest)


def _unions(shape: Any, value: Any, path: str) -> Iterator[str]:
    """Blocks that are not exactly one thing, which botocore leaves to the service."""
    if shape.type_name == "list" and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _unions(shape.member, each, f"{path}[{index}]")
    if shape.type_name != "structure" or not isinstance(value, Mapping) or getattr(shape, "is_document_type", False):
        return
    if (getattr(shape, "is_tagged_union", False) or shape.name in ("ContentBlock", "ToolResultContentBlock")) and len(value) != 1:
        yield f"{path}: {len(value)} members, where one must stand"
    for key, each in value.items():
        if key in shape.members:
            yield from _unions(shape.members[key], each, f"{path}.{key}" if path else key)


def gemini_violations(body: Mapping[str, Any]) -> Iterator[str]:
    """What google-genai's types refuse of a request, read strictly."""
    from google.genai import types

    one: dict[str, type[BaseModel]] = {
        "systemInstruction": types.Content,
        "generationConfig": types.GenerationConfig,
        "toolConfig": types.ToolConfig,
    }
    for key, value in body.items():
        camel = re.sub(r"_(\w)", lambda found: found.group(1).upper(), key)
        if key == "contents" and isinstance(value, list):
            for index, item in enumerate(value):
                yield from _pydantic(types.Content, item, f"contents[{index}]")
                yield from _one_thing(item, f"contents[{index}]")
        elif key == "tools" and isinstance(value, list):
            for tool in value:
                yield from _pydantic(types.Tool, tool, "tools")
        elif camel in one:
            yield from _pydantic(one[camel], value, camel)


def _pydantic(model: type[BaseModel], value: Any, path: str) -> Iterator[str]:
    try:
        model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            inner = ".".join(str(step) for step in each["loc"] if not isinstance(step, int))
            yield f"{path}.{inner}: {each['type']}"


_DATA = ("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult")
_DATA += ("toolCall", "toolResponse")


def _one_thing(item: Any, path: str) -> Iterator[str]:
    """Parts that are not exactly one thing, which the types leave to the service."""
    for part in item.get("parts", []) if isinstance(item, Mapping) else []:
        keys = [re.sub(r"_(\w)", lambda found: found.group(1).upper(), key) for key, value in part.items() if value is not None]
        if sum(key in _DATA for key in keys) != 1:
            yield f"{path}.parts: not exactly one thing"
