"""An agent whose tool has effects in the outside world, and that may be killed at any moment.

No effect is repeated blindly and none is invented: each call is durable before it runs, and its result before the next runs. Run
it with a sidecar, kill it whenever you like, and run it again:

    trimtab serve --listen unix:trimtab.sock --data-dir trimtab-data &
    python examples/effects.py unix:trimtab.sock openai-chat deployed.log
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import trimtab
from trimtab.v1 import common_pb2

Json = dict[str, Any]
PLACES = ("staging", "eu", "us")


def deploy(log: Path, place: str, key: str) -> str:
    """The tool. The outside world keeps the key, so that it can be asked later whether this happened."""
    with log.open("a") as out:
        out.write(f"{key} {place}\n")
    return f"deployed to {place}"


def happened(log: Path, key: str) -> bool:
    """Ask the outside world."""
    return log.exists() and any(line.startswith(f"{key} ") for line in log.read_text().splitlines())


def resume(t: trimtab.Trimtab, dialect: str, session_id: str, log: Path) -> list[Json]:
    """The history to go on with: what a crash left open is looked up first, and then said as it is."""
    try:
        known = t.recover(session_id)
    except trimtab.SessionNotFoundError:
        return [{"role": "user", "content": f"Deploy to {', '.join(PLACES)}. Staging first."}]
    for each in known.open_calls:
        key = each.receipt.idempotency_key
        if key and each.receipt.state != common_pb2.EFFECT_STATE_SETTLED:  # pending, or closed as unknown: it may have run
            state, text = ("settled", "deployed, as its log says") if happened(log, key) else ("failed", "")
            result = tool_result(dialect, each.call.call_id, text) if text else None
            found = trimtab.receipt(each.call, state, idempotency_key=key, result=result)
            t.record(session_id, f"{key}:looked-up", receipts=[found])
    # Results that were recorded stand; a call that was not begun gets "not run", one that nobody knows of "outcome unknown".
    known = t.recover(session_id, include_body=True, close_interrupted=True, request_id=f"resume-{known.revision}")
    messages: list[Json] = json.loads(known.body)["messages"]
    return messages


def run_agent(target: str, dialect: str, session_id: str, log: Path) -> list[Json]:
    """Run to the model's last word, from wherever the last run of this session ended."""
    with trimtab.connect(target, format=dialect, read_back="none") as t:
        messages = resume(t, dialect, session_id, log)
        while messages[-1]["role"] != "assistant":  # until the model's last word
            answer = fake_model(dialect, t.fit(session_id, {"model": "fake-1", "max_tokens": 1024, "messages": messages}))
            calls = calls_of(answer)
            waiting = [trimtab.receipt(call, "not-started") for call in calls]
            t.record(session_id, f"turn-{len(messages)}", [answer], receipts=waiting)  # the turn, before anything runs
            messages.append(answer)
            results = []
            for call, place in calls.items():
                key = f"{session_id}:{call}"
                pending = trimtab.receipt(call, "pending", idempotency_key=key)
                t.record(session_id, f"{key}:pending", receipts=[pending])
                result = tool_result(dialect, call, deploy(log, place, key))
                settled = trimtab.receipt(call, "settled", idempotency_key=key, result=result)
                t.record(session_id, f"{key}:settled", receipts=[settled])
                results.append(result)
            if results:
                messages += results if dialect == "openai-chat" else [{"role": "user", "content": results}]
        return messages


def fake_model(dialect: str, body: Json) -> Json:
    """Deploys what the history does not say is deployed: staging, then the rest at once."""
    text = json.dumps(body["messages"])
    turn = len(body["messages"])
    done = {place for place, call in asked(body["messages"]) if is_deployed(text, call)}
    left = [place for place in PLACES if place not in done]
    left = left[:1] if "staging" in left else left
    calls = [(f"call_{turn}_{place}", {"place": place}) for place in left]
    if dialect == "openai-chat":
        made = [
            {"id": id, "type": "function", "function": {"name": "deploy", "arguments": json.dumps(arguments)}}
            for id, arguments in calls
        ]
        return {"role": "assistant", "content": None, "tool_calls": made} if made else {"role": "assistant", "content": "Done."}
    blocks = [{"type": "tool_use", "id": id, "name": "deploy", "input": arguments} for id, arguments in calls]
    return {"role": "assistant", "content": blocks or [{"type": "text", "text": "Done."}]}


def calls_of(answer: Json) -> dict[str, str]:
    """Where to deploy to, by call id."""
    found = {call["id"]: json.loads(call["function"]["arguments"])["place"] for call in answer.get("tool_calls", ())}
    blocks = answer["content"] if isinstance(answer["content"], list) else []
    return found | {block["id"]: block["input"]["place"] for block in blocks if block["type"] == "tool_use"}


def is_deployed(text: str, call: str) -> bool:
    """Whether a history says of a call that its effect happened: by its result, or by the records that closed it."""
    result = text.partition(f'"{call}", "content": "')[2].partition('"')[0]
    return result.startswith("deployed") or "the effect happened" in result


def asked(messages: list[Json]) -> list[tuple[str, str]]:
    """Places with the ids of the calls that deploy to them."""
    answers = [message for message in messages if message["role"] == "assistant"]
    return [(place, call) for answer in answers for call, place in calls_of(answer).items()]


def tool_result(dialect: str, call: str, text: str) -> Json:
    """A result in the dialect's spelling."""
    if dialect == "openai-chat":
        return {"role": "tool", "tool_call_id": call, "content": text}
    return {"type": "tool_result", "tool_use_id": call, "content": text}


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("openai-chat", "anthropic-messages"):
        print("usage: effects.py unix:SOCKET|HOST:PORT openai-chat|anthropic-messages LOG", file=sys.stderr)
        sys.exit(2)
    _, target, dialect, log = sys.argv
    history = run_agent(target, dialect, f"effects-{dialect}", Path(log))
    print(f"{len(history)} messages; {len(Path(log).read_text().splitlines())} deployments")
