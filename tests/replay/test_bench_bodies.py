"""Bodies that bench measures with."""

from __future__ import annotations

import json

import pytest

from bench.bodies import body_of_size, grow_bodies
from sidecar.replay.cost import common_prefix_bytes


@pytest.mark.parametrize("format", ["anthropic-messages", "openai-chat"])
@pytest.mark.parametrize("size", [32 << 10, 256 << 10, 1 << 20])
def test_grow_bodies_last_has_the_exact_size_and_extends_the_ones_before(format: str, size: int) -> None:
    bodies = grow_bodies(size, 8, format)
    assert [len(body) for body in bodies] == [size - 1024 * left for left in range(7, -1, -1)]
    histories = [json.loads(body)["messages"] for body in bodies]
    for before, after in zip(bodies, bodies[1:], strict=False):
        assert common_prefix_bytes(before, after) >= len(before) - 2
    assert [len(history) for history in histories] == [len(histories[0]) + 2 * step for step in range(8)]
    assert max(len(json.dumps(item)) for item in histories[-1] if item["role"] != "assistant") < 2 * 32_768


def test_grow_bodies_with_too_little_room_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        grow_bodies(5_000, 4)


def test_body_of_size_is_one_body() -> None:
    assert len(body_of_size(65_536)) == 65_536
