"""The demo end to end, on a smaller session; and that what it claims can also fail."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.core.types import Format, ReadBack
from sidecar.demo.__main__ import main
from sidecar.demo.dialects import Call, to_json
from sidecar.demo.model import FakeModel, check_answer
from sidecar.demo.process import SidecarFailedError, running_sidecar
from sidecar.demo.proof import Originals, find_lost, prove_artifacts
from sidecar.demo.session import build_session
from sidecar.formats import adapter
from sidecar.replay.drive import replay_body
from trimtab.v1 import common_pb2

CONTENT = "one line\nand ⚓ another\n" * 40
ID = hashlib.sha256(CONTENT.encode()).hexdigest()[:32]
CALL = Call("c", "trimtab_read", {"artifact_id": ID})


@pytest.mark.parametrize("format", ["anthropic-messages", "openai-chat"])
def test_main_on_a_small_session_proves_all(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--format", format, "--min-calls", "40", "--min-bytes", "700000"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert out.endswith("All of it holds.\n")
    assert out.count("\n  ok") == 8
    assert "FAILED" not in out
    assert "model reads back" in out
    assert "moved out:" in out
    assert "cached prefix broken" in out


def test_main_in_an_unknown_dialect_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--format", "gemini"])
    assert stopped.value.code == 2
    assert "openai-chat" in capsys.readouterr().err


def test_running_sidecar_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where a folder should be")
    with (
        pytest.raises(SidecarFailedError, match="did not start"),
        running_sidecar("127.0.0.1:0", tmp_path / "store", tmp_path / "log"),
    ):
        pass


def originals_of(*items: object) -> Originals:
    originals = Originals()
    for item in items:
        originals.add(to_json(item))
    return originals


def answer(start: int, end: int, shown: str) -> str:
    return f"[bytes {start} to {end} of artifact {ID}: 920 bytes, text/plain; this is the end.]\n{shown}"


def test_check_answer_of_the_right_bytes_is_empty() -> None:
    originals = originals_of({"content": CONTENT})
    assert check_answer(answer(0, len(CONTENT.encode()), CONTENT), CALL, originals) == ""
    assert check_answer(answer(4, 13, CONTENT.encode()[4:13].decode()), CALL, originals) == ""


@pytest.mark.parametrize(
    "text", [answer(0, 9, "one lime\n"), answer(0, 8, "one line\n"), answer(1, 10, "one line\n"), CONTENT, ""]
)
def test_check_answer_of_other_bytes_says_so(text: str) -> None:
    assert "something else" in check_answer(text, CALL, originals_of({"content": CONTENT}))


def test_check_answer_of_what_the_agent_never_had_says_so() -> None:
    assert "nothing that the agent had" in check_answer(answer(0, 9, "one line\n"), CALL, originals_of({"content": "x"}))


def bodies(raw: object, sent: object) -> tuple[bytes, bytes]:
    return to_json({"messages": [{"role": "user", "content": raw}]}), to_json({"messages": [{"role": "user", "content": sent}]})


STORED = (CONTENT.encode(), b"why", to_json({"type": "thinking", "thinking": "hm"}))


def read(artifact_id: str) -> bytes:
    return {hashlib.sha256(content).hexdigest()[:32]: content for content in STORED}[artifact_id]


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (CONTENT, CONTENT),
        (CONTENT, f"[moved out; artifact_id={ID}]"),
        ([{"type": "tool_result", "content": CONTENT}], [{"type": "tool_result", "content": f"see {ID}"}]),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}], [{"type": "text", "text": "so"}]),
        ([{"reasoning_content": "why"}], [{"reasoning_content": ""}]),
        (answer(0, 9, "one line\n"), f"[an earlier answer; artifact_id={ID}]"),
    ],
)
def test_find_lost_of_what_leads_back_is_empty(raw: object, sent: object) -> None:
    assert find_lost(*bodies(raw, sent), read) == []


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (CONTENT, "gone"),
        (CONTENT + "more", f"[moved out; artifact_id={ID}]"),
        (CONTENT, f"[moved out; artifact_id={ID[::-1]}]"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [{"type": "text", "text": "b"}]),
        ([{"type": "thinking", "thinking": "oh"}, {"type": "text", "text": "so"}], [{"type": "text", "text": "so"}]),
        ([{"reasoning_content": "how"}], [{"reasoning_content": ""}]),
        ([{"content": "why"}], [{"content": ""}]),
        (answer(0, 9, "one lime\n"), f"[an earlier answer; artifact_id={ID}]"),
        ([{"type": "tool_use", "id": "1"}], [{"type": "tool_use", "id": "2"}]),
    ],
)
def test_find_lost_of_what_does_not_lead_back_names_the_place(raw: object, sent: object) -> None:
    (line,) = find_lost(*bodies(raw, sent), read)
    assert line.startswith("item 0.content")


def test_find_lost_of_a_dropped_item_says_so() -> None:
    raw, sent = json.dumps({"messages": [1, 2]}).encode(), json.dumps({"messages": [1]}).encode()
    assert find_lost(raw, sent, read) == ["2 items are held, 1 were sent"]


def test_read_of_an_id_that_is_not_in_the_body_asks_for_nothing() -> None:
    model = FakeModel(Random(1))
    artifact = common_pb2.Artifact(artifact_id=ID, size_bytes=900)
    for _ in range(5):
        assert model.read(b"no note here", [artifact], "trimtab_read") is None


def test_read_of_a_note_asks_for_it_a_little_later() -> None:
    model = FakeModel(Random(1))
    artifact = common_pb2.Artifact(artifact_id=ID, size_bytes=900)
    sent = f"[moved out; artifact_id={ID}]".encode()
    asked = [model.read(sent, [artifact], "mine"), *(model.read(sent, [], "mine") for _ in range(4))]
    assert asked == [None, None, Call("read_001", "mine", {"artifact_id": ID}), None, None]


def test_prove_artifacts_against_another_history_finds_faults(stubs: Any) -> None:
    session = build_session(5, min_calls=10, min_bytes=200_000)
    ref = common_pb2.SessionRef(session_id="proof")
    limits = common_pb2.Limits(soft_bytes=65_536)
    report = replay_body(
        stubs.context, ref, session.body(), adapter(Format.ANTHROPIC_MESSAGES), read_back=ReadBack.CALLER, limits=limits
    )
    right, other = Originals(), Originals()
    for item, stranger in zip(session.items, build_session(6, min_calls=10, min_bytes=200_000).items, strict=False):
        right.add(item)
        other.add(stranger)
    proof = prove_artifacts(stubs.artifacts, ref, right, Random(1))
    assert proof.faults == ()
    assert proof.place_count >= report.artifact_count > 5
    assert proof.range_count > proof.distinct_count
    assert len(prove_artifacts(stubs.artifacts, ref, other, Random(1)).faults) == proof.place_count
