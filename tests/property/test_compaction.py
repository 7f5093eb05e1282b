"""Histories made by hypothesis, fitted, compacted, taken back and grown, by clients that keep their raw history or adopt."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.core.compaction import CompactMode
from sidecar.core.types import EffectState, LimitsGiven
from sidecar.engine.compact_messages import CompactOutcome
from sidecar.engine.messages import CallRef, PinGiven, ReceiptGiven
from tests.helpers.bodies import FORMATS, TYPED
from tests.helpers.compacting import LOOSE, STYLES, Client, Json, Plant, Spelled, plant, wrong
from tests.helpers.rewriters import REWRITERS
from tests.helpers.translate import HISTORY, translate
from tests.helpers.view import read_view

SETTINGS = settings(
    max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "40")),  # more for a long run
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.shrink or "TRIMTAB_NO_SHRINK" not in os.environ],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
WRITERS = ["python-default", "python-utf8", "python-sorted", "python-indented", "escaped-slashes", "sdk-with-nulls"]
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.fixture(scope="module")
def world() -> Iterator[Plant]:
    with plant() as made:
        yield made


class Script:
    """Writes items of a run, and knows which of them may not retire."""

    def __init__(self, format_name: str, seed: int) -> None:
        self.format_name = format_name
        self.names: dict[str, str] = {}  # of tools, by call id
        self.chat = format_name == "openai-chat"
        self.rand = random.Random(seed)
        self.serial = 0
        self.open: list[tuple[str, str]] = []  # ids and names of calls left without a result
        self.style: Spelled = self.rand.choice(STYLES)

    def text(self, low: int = 1, high: int = 200) -> str:
        letters = self.rand.choice(["abc def ", "漢字 /", 'q"\\ ', "🙂é\n"])
        size = self.rand.randint(low, high)
        return f"t{self.next()} " + (letters * (size // len(letters) + 1))[:size]

    def next(self) -> int:
        self.serial += 1
        return self.serial

    def user(self, blocks: list[Json] | str, **more: Any) -> Json:
        return {"role": "user", "content": blocks, **more}

    def block(self, text: str) -> Json:
        return {"type": "text", "text": text}

    def image(self) -> Json:
        data = "iVBORw0KGgo" * self.rand.randint(1, 60)
        if self.chat:
            return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}}
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}

    def call(self, id: str, name: str) -> Json:
        arguments = {"path": f"src/{self.next()}.py", "n": 1.0, "text": self.text()}
        if self.chat:
            return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        return {"type": "tool_use", "id": id, "name": name, "input": arguments}

    def result(self, id: str, big: bool) -> Json:
        text = self.text(1, 3000 if big else 80)
        if self.chat:
            return {"role": "tool", "tool_call_id": id, "content": text if self.rand.random() < 0.7 else [self.block(text)]}
        content: Any = text if self.rand.random() < 0.6 else [self.block(text)]
        return {"type": "tool_result", "tool_use_id": id, "content": content}

    def ids(self, count: int, kind: str) -> list[str]:
        if kind == "same":
            return ["call_0"] if count == 1 else [f"call_{n}" for n in range(count)]
        if kind == "empty":
            return ["" for _ in range(count)]
        return [f"toolu_{self.next()}" for _ in range(count)]

    def turn(self, ids: list[str], names: list[str], *, thinking: bool, says: bool) -> Json:
        calls = [self.call(id, name) for id, name in zip(ids, names, strict=True)]
        if self.chat:
            item: Json = {"role": "assistant", "content": self.text() if says else None}
            if thinking:
                item["reasoning_content"] = self.text()
            return {**item, "tool_calls": calls} if calls else {**item, "content": self.text()}
        blocks: list[Json] = [{"type": "thinking", "thinking": self.text(), "signature": "c2ln"}] if thinking else []
        if says or not calls:
            blocks.append(self.block(self.text()))
        return {"role": "assistant", "content": [*blocks, *calls]}

    def step(self, kind: str) -> list[Json]:
        """Items of one step."""
        rand = self.rand
        if kind in ("turn", "beside", "split", "pinned", "dangling", "dangling-spoken"):
            count = rand.randint(1, 3)
            ids = self.ids(count, rand.choice(["new", "new", "new", "same", "empty"]) if kind != "dangling" else "new")
            names = ["keep" if kind == "pinned" else rand.choice(["read", "write"]) for _ in ids]
            turn = self.turn(ids, names, thinking=rand.random() < 0.4, says=rand.random() < 0.4)
            if kind.startswith("dangling"):
                self.open += list(zip(ids, names, strict=True))
                return [turn, self.user(self.text())] if kind == "dangling-spoken" else [turn]
            return [turn, *self.results(ids, kind)]
        if kind == "answer":
            return [self.turn([], [], thinking=rand.random() < 0.3, says=True)]
        if kind == "user":
            return [self.user(self.text() if rand.random() < 0.5 else [self.block(self.text())])]
        if kind == "users":
            return [self.user(self.text()), self.user([self.block(self.text()), self.block(self.text())]), self.user(self.text())]
        if kind == "image":
            return [self.user([self.block(self.text()), self.image()])]
        if kind == "extra":
            return [self.user(self.text(), name="bob")]
        if kind == "system":
            return [{"role": "system", "content": self.text()}] if self.chat else [self.user(self.text())]
        if kind == "late" and self.open:
            id, _ = self.open.pop(0)
            found = self.result(id, False)
            return [found] if self.chat else [self.user([found])]
        return [self.user(self.text())]

    def written(self, kinds: list[str]) -> list[bytes]:
        """Items of these steps, in the dialect."""
        items = [item for kind in kinds for item in self.step(kind)]
        if self.format_name not in TYPED:
            items = translate(self.format_name, items, self.names)
        return [self.style.item(item) for item in items]

    def results(self, ids: list[str], kind: str) -> list[Json]:
        results = [self.result(id, self.rand.random() < 0.5) for id in ids]
        if self.chat:
            return results + ([self.user(self.text())] if kind == "beside" else [])
        if kind == "split" and len(results) > 1:
            return [self.user(results[:1]), self.user(results[1:])]
        said = [self.block(self.text())] if kind == "beside" else []
        return [self.user([*results, *said])]


STEPS = [
    *["turn"] * 6,
    "beside",
    "split",
    "pinned",
    "dangling",
    "dangling-spoken",
    "late",
    "answer",
    "answer",
    "user",
    "user",
    "users",
    "image",
    "extra",
    "system",
]
steps = st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)
tight = st.builds(
    lambda soft, keep, external: LimitsGiven(
        soft_bytes=soft,
        target_bytes=soft * 2 // 3,
        min_saving_bytes=1,
        externalize_bytes=external,
        keep_unit_count=keep,
        compact_target_bytes=soft // 3,
        compact_min_saving_bytes=1,
    ),
    st.integers(1_500, 40_000),
    st.integers(0, 3),
    st.sampled_from([0, 1_000]),
)
actions = st.one_of(
    st.tuples(st.just("fit"), st.sampled_from(["raw", "adopt"])),
    st.tuples(st.just("fit"), st.sampled_from(["raw", "adopt"])),
    st.tuples(st.just("compact"), st.sampled_from([CompactMode.EXTEND, CompactMode.EXTEND, CompactMode.REDERIVE])),
    st.tuples(st.just("compact"), st.sampled_from([CompactMode.EXTEND, CompactMode.EXTEND, CompactMode.REDERIVE])),
    st.tuples(st.just("rollback"), st.integers(0, 5)),
    st.tuples(st.just("limits"), tight),
    st.tuples(st.just("mark"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.integers(0, 5)),
    st.tuples(st.just("reopen"), st.integers(0, 3)),
)
plans = st.lists(st.tuples(steps, actions), min_size=3, max_size=14)
THINKING = [None, {"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}]


def marked(client: Client, style: Spelled, back: int) -> None:
    """Move the cache marker to an item near the end; others lose theirs."""
    if client.format_name == "bedrock-converse":
        return pointed(client, style, back)
    if client.format_name not in TYPED:
        return None
    for at, raw in enumerate(client.items):
        value = json.loads(raw)
        content = value.get("content")
        blocks = content if isinstance(content, list) else []
        wants = at == max(len(client.items) - 1 - back, 0) and blocks and blocks[-1]["type"] in ("text", "tool_result")
        had = any("cache_control" in block for block in blocks)
        if not (wants or had):
            continue
        for block in blocks:
            block.pop("cache_control", None)
        if wants:
            blocks[-1].update(MARK)
        client.items[at] = style.item(value)


def pointed(client: Client, style: Spelled, back: int) -> None:
    """The same where a marker is a block of its own."""
    for at, raw in enumerate(client.items):
        value = json.loads(raw)
        blocks = [block for block in value["content"] if "cachePoint" not in block]
        if at == max(len(client.items) - 1 - back, 0) and ("text" in blocks[-1] or "toolResult" in blocks[-1]):
            blocks.append({"cachePoint": {"type": "default"}})
        if blocks != value["content"]:
            client.items[at] = style.item(value | {"content": blocks})


def unmarked(body: bytes) -> bytes:
    """Without the one marker that these tests write."""
    body = re.sub(rb', ?\{"cachePoint": ?\{"type": ?"default"\}\}', b"", body)
    return re.sub(rb', ?"cache_control": ?\{"type": ?"ephemeral"\}', b"", body)


def pins(client: Client) -> list[PinGiven]:
    return [PinGiven(tool_name="keep")]


def held_items(client: Client, waiting: set[int]) -> set[int]:
    """Raw items of pinned calls, of calls without a result, and those told to wait: none of them may be covered."""
    held = set(waiting)
    if client.format_name not in TYPED:
        view = read_view(client.format_name, client.body())
        return held | {call.item for call in view.calls if call.name == b"keep"}
    chat = client.format_name == "openai-chat"
    for at, raw in enumerate(client.items):
        item = json.loads(raw)
        for call in (item.get("tool_calls") or []) if chat else []:
            if call["function"]["name"] == "keep":
                held.add(at)
        for block in item["content"] if not chat and isinstance(item["content"], list) else []:
            if block["type"] == "tool_use" and block["name"] == "keep":
                held.add(at)
        if item["role"] == "system" or (chat and item["role"] == "user"):
            held.add(at)
    return held


def first_call(client: Client, skip: int) -> int:
    """Index of an item with calls; -1 for none."""
    keys = (b'"tool_calls"', b'"tool_use"', b'"toolUse"', b'"functionCall"', b'"function_call"')
    found = [at for at, raw in enumerate(client.items) if any(key in raw for key in keys)]
    return found[skip % len(found)] if found else -1


@pytest.mark.parametrize("format_name", FORMATS)
@SETTINGS
@given(plan=plans, seed=st.integers(0, 10**6), thinking=st.sampled_from(THINKING), first=st.one_of(st.none(), tight))
def test_compaction_any_history_raw_and_adopted_alike(
    world: Plant, format_name: str, plan: list[Any], seed: int, thinking: Any, first: Any
) -> None:
    """Two sessions of one run, one sent raw, one now raw, now adopted: equal bytes, and whatever holds of one body holds."""
    fits = first is not None
    raw, mixed = (Client(world, format_name, first or LOOSE, thinking) for _ in range(2))
    script = Script(format_name, seed)
    waiting: set[int] = set()
    taken_back: list[str] = []
    both = (raw, mixed)

    def grow(kinds: list[str]) -> None:
        fresh = script.written(kinds)
        for client in both:
            client.items += fresh

    def fit(adopts: bool, **more: Any) -> None:
        known = mixed.told
        arrived = mixed.adopted() if adopts and mixed.sent else mixed.body()
        raw.fit(pins=pins(raw), **more)
        mixed.fit(arrived, pins=pins(mixed), **more)
        assert wrong(raw, raw.body()) == []
        assert wrong(mixed, arrived) == []
        # A marker of an item that retired went to the summary; taken back, an adopted body has none to give back.
        same = unmarked if taken_back else bytes
        assert same(mixed.sent) == same(raw.sent)
        assert raw.result is not None and mixed.result is not None
        assert raw.result.match.diverged_at is None
        assert mixed.result.match.diverged_at is None
        assert mixed.result.match.new_item_count == len(mixed.items) - known
        assert "SUMMARY_DISPLACED" not in mixed.notes

    grow(["user"])
    fit(False)
    for kinds, (action, value) in plan:
        marks_moved = action == "mark"
        if not marks_moved:
            grow(kinds)
        if action == "fit":
            fit(value == "adopt")
        elif action == "compact":
            fit(True)
            before = {at for _, _, items in raw.live() for at in items}
            bodies = (raw.sent, mixed.sent)
            # With the raw body: of a stub the ledger knows less than of what it stands for.
            answers = [client.compact(mode=value, body=client.body()) for client in both]
            assert answers[0].outcome == answers[1].outcome
            now = {at for _, _, items in raw.live() for at in items}
            if answers[0].outcome is CompactOutcome.COMMITTED:
                assert not (now - before) & held_items(raw, waiting)
                assert answers[0].checkpoint is not None and answers[0].after is not None
                fit(False)
                assert len(raw.sent) == answers[0].after.total_bytes or fits
                fit(True)
                assert mixed.result is not None and mixed.result.body == b""
            else:
                assert now == before
                fit(True)
                assert (raw.sent, mixed.sent) == bodies
        elif action == "rollback":
            ids = [each[0] for each in raw.live()]
            if ids:
                chosen = ids[value % len(ids)]
                taken_back.append(chosen)
                assert raw.roll_back(chosen).checkpoint_ids == mixed.roll_back(chosen).checkpoint_ids
            fit(True)
        elif action == "limits" and fits:
            fit(True, limits=value)
        elif action == "mark":
            for client in both:
                marked(client, script.style, value)
            fit(False)
        elif action == "wait":
            at = first_call(raw, value)
            covered = {each for _, _, items in raw.live() for each in items}
            if at >= 0 and at not in covered:
                waiting.add(at)
                fit(False, receipts=[ReceiptGiven(CallRef(item_index=at, call_index=0), EffectState.WAITING)])
        elif action == "reopen" and value == 0:
            world.reopen()
            fit(True)
    fit(True)
    fit(True)
    assert mixed.result is not None and mixed.result.body == b""


def respelled(format_name: str, body: bytes, fresh: list[bytes], writers: list[str], *, as_blocks: bool, marks: int) -> bytes:
    """A body of a client that parses what it was answered: other JSON, strings as blocks, markers where it wants them."""
    value = json.loads(body.decode("utf-8", "surrogatepass"))
    if format_name not in TYPED:
        value[HISTORY[format_name]] += [json.loads(item.decode("utf-8", "surrogatepass")) for item in fresh]
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        for name in writers:
            body = REWRITERS[name](body) if name != "sdk-with-nulls" else body
        return body
    value["messages"] += [json.loads(item.decode("utf-8", "surrogatepass")) for item in fresh]
    for item in value["messages"]:
        if as_blocks and isinstance(item.get("content"), str) and item["role"] == "user":
            item["content"] = [{"type": "text", "text": item["content"]}]
        blocks = item["content"] if isinstance(item.get("content"), list) else []
        for block in blocks:
            block.pop("cache_control", None)
    for item in [item for item in value["messages"] if isinstance(item.get("content"), list)][-marks:] if marks else []:
        if item["content"][-1]["type"] in ("text", "tool_result"):
            item["content"][-1].update(MARK)
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    for name in writers:
        body = REWRITERS[name](body)
    return body


def values_of(body: bytes) -> Any:
    """What a body says, whatever its spelling, markers and nulls."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            told = {key: plain(each) for key, each in value.items() if each is not None and key != "cache_control"}
            if told.get("role") in ("user", "system", "tool", "assistant") and isinstance(told.get("content"), str):
                told["content"] = [{"type": "text", "text": told["content"]}]
            if told.get("type") == "tool_result" and isinstance(told.get("content"), str):
                told["content"] = [{"type": "text", "text": told["content"]}]
            return told
        return [plain(each) for each in value] if isinstance(value, list) else value

    return plain(json.loads(body.decode("utf-8", "surrogatepass")))


rewrites = st.tuples(st.lists(st.sampled_from(WRITERS), max_size=2), st.booleans(), st.integers(0, 4))


@pytest.mark.parametrize("format_name", FORMATS)
@SETTINGS
@given(plan=st.lists(st.tuples(steps, actions, rewrites), min_size=3, max_size=12), seed=st.integers(0, 10**6))
def test_compaction_adopted_and_rewritten_each_time_no_branch(world: Plant, format_name: str, plan: list[Any], seed: int) -> None:
    """The client parses each answer, keeps it and writes it in its own way: all is known again, nothing is new but what is."""
    client = Client(world, format_name)
    script = Script(format_name, seed)

    def fit(how: Any) -> None:
        known = client.told
        sent = client.sent or client.body(())
        arrived = respelled(format_name, sent, client.items[known:], how[0], as_blocks=how[1], marks=how[2])
        client.fit(arrived)
        assert wrong(client, arrived) == []
        assert client.result is not None
        assert client.result.match.diverged_at is None
        assert client.result.match.new_item_count == len(client.items) - known
        assert "SUMMARY_DISPLACED" not in client.notes
        assert "CHECKPOINT_ASIDE" not in client.notes

    client.items += script.written(["user"])
    plain: Any = ([], False, 0)
    fit(plain)
    for kinds, (action, value), how in plan:
        client.items += script.written(kinds)
        fit(how)
        if action == "compact":
            before = values_of(client.sent)
            answer = client.compact(mode=value)
            fit(how)
            if answer.outcome is CompactOutcome.COMMITTED:
                assert answer.checkpoint is not None
                client.roll_back(answer.checkpoint.checkpoint_id)
                fit(how)
                assert values_of(client.sent) == before
                if seed % 2:
                    client.compact(mode=value)
        elif action == "rollback":
            ids = [each[0] for each in client.live()]
            if ids:
                client.roll_back(ids[value % len(ids)])
            fit(how)
        elif action == "reopen" and value == 0:
            world.reopen()
        fit(how)


# Without system items: another text of one takes the place of the old.
spoken = st.lists(st.sampled_from([kind for kind in STEPS if kind != "system"]), min_size=1, max_size=5)
rewinds = st.lists(
    st.tuples(spoken, st.floats(0.0, 1.0), st.booleans(), st.sampled_from(["compact", "fit", "back", "reopen", "fit"])),
    min_size=2,
    max_size=8,
)


@pytest.mark.parametrize("format_name", FORMATS)
@SETTINGS
@given(plan=rewinds, seed=st.integers(0, 10**6))
def test_compaction_rewound_history_one_branch_each_and_summaries_come_back(
    world: Plant, format_name: str, plan: list[Any], seed: int
) -> None:
    client = Client(world, format_name)
    script = Script(format_name, seed)

    def fresh(kinds: list[str]) -> list[bytes]:
        return script.written(kinds)

    def fit(body: bytes | None = None) -> None:
        client.fit(body)
        assert wrong(client, body or client.body()) == []

    def here() -> set[str]:
        """Live checkpoints of which all items are in the history."""
        session = client.engine.sessions.get(client.key)
        return {
            record.checkpoint_id
            for record in session.live
            if {n for start, end in record.gone for n in range(start, end)} <= set(session.branch)
        }

    def applied() -> set[str]:
        assert client.result is not None
        return {each.checkpoint_id for each in client.result.reductions if each.checkpoint_id}

    client.items = fresh(["user", "turn", "turn", "turn", "turn", "answer", "user"])
    fit()
    for kinds, share, adopts, action in plan:
        left, left_sent = list(client.items), client.sent
        at = int(len(left) * share)
        client.items = [*left[:at], *fresh(kinds)]
        fit()
        assert client.result is not None
        assert client.result.match.diverged_at == (at if at < len(left) else None)
        assert applied() <= here()
        for checkpoint_id in {each[0] for each in client.live()} - applied():
            assert any(checkpoint_id in note.message for note in client.result.notes if note.reason == "CHECKPOINT_ASIDE")
        if action == "compact":
            client.compact()
            fit()
            sent = client.sent
            fit(sent)
            assert client.sent == sent
            assert client.result.match.diverged_at is None
        elif action == "back":
            client.items = left
            fit(left_sent if adopts else None)
            assert client.sent == left_sent
            fit(left_sent if adopts else None)
            assert client.result.match.diverged_at is None
        elif action == "reopen":
            sent = client.sent
            world.reopen()
            fit(sent if adopts else None)
            assert client.sent == sent
