"""Where a `gemini` body has its items and parts. Names come in camelCase, as the API writes them, and in snake_case.

Source: google-genai (types.Content, types.Part and what they hold); protobuf's JSON mapping, which takes both spellings.
"""

from __future__ import annotations

from fastpath import Code, Field, Grammar, GrammarSpec, Kind, Role, Shape

__all__ = ["GRAMMAR", "both"]


def both(name: str) -> tuple[bytes, ...]:
    """A camelCase name and its snake_case spelling, where they differ."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return (name.encode(),) if snake == name else (name.encode(), snake.encode())


def _fields(**named: Field) -> dict[bytes, Field]:
    return {key: field for name, field in named.items() for key in both(name)}


_PARTS = {b"parts": Field(shape="parts")}

GRAMMAR = Grammar(
    GrammarSpec(
        history=(b"contents",),
        system=both("systemInstruction"),
        tools=(b"tools",),
        item="item",
        shapes={
            # An item without a role is the user's. Which other roles there are is not told here but by a rule.
            "item": Shape(by=b"role", cases={b"model": "model"}, default="user"),
            "user": Shape(role=Role.USER, fields=_PARTS),
            "model": Shape(role=Role.ASSISTANT, fields=_PARTS),
            "parts": Shape(each="part"),
            "part": Shape(
                kind=Kind.OTHER,
                fields=_fields(
                    text=Field(Code.PAYLOAD, kind=Kind.TEXT),
                    thought=Field(kind=Kind.REASONING),
                    thoughtSignature=Field(Code.SIGNATURE),
                    inlineData=Field(kind=Kind.MEDIA),
                    fileData=Field(kind=Kind.MEDIA),
                    functionCall=Field(kind=Kind.CALL, shape="call"),
                    functionResponse=Field(kind=Kind.RESULT, shape="result"),
                    # What the provider ran itself. Tools that search hand on what later turns cite: only output of code may go.
                    executableCode=Field(kind=Kind.SERVER_CALL),
                    codeExecutionResult=Field(kind=Kind.SERVER_RESULT, shape="code_result"),
                    toolCall=Field(kind=Kind.SERVER_CALL, shape="server_half"),
                    toolResponse=Field(kind=Kind.SERVER_RESULT, shape="server_half"),
                ),
            ),
            "call": Shape(fields={b"id": Field(Code.ID), b"name": Field(Code.NAME), b"args": Field(Code.PAYLOAD)}),
            "result": Shape(
                fields={
                    b"id": Field(Code.ID),
                    b"name": Field(Code.NAME),
                    b"response": Field(Code.PAYLOAD, shape="response"),
                    b"parts": Field(shape="nested_parts"),
                },
            ),
            # Source: google-genai, types.FunctionResponse ("use "output" key to specify function output and "error" key to
            # specify error details").
            "response": Shape(fields={b"error": Field(Code.FAILURE)}),
            # Of these only the data can be replaced, by data of another type: there is no part of text.
            "nested_parts": Shape(each="nested_part"),
            "nested_part": Shape(fields=_fields(inlineData=Field(shape="blob"))),
            "blob": Shape(by=b"data", default="blob_object"),
            "blob_object": Shape(kind=Kind.MEDIA),
            "code_result": Shape(fields={b"output": Field(Code.PAYLOAD)}),
            "server_half": Shape(fields={b"id": Field(Code.ID)}),
        },
    )
)
