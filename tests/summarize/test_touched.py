"""Files and resources from arguments: what is plainly there, and nothing that needs a shell to be understood."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.core.types import EffectState
from sidecar.summarize.touched import find_touched, touches
from tests.summarize.build import some_call

PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: src/b.py\n+z\n*** End Patch"


def touched(tool_name: str, arguments: Any) -> list[tuple[str, str]]:
    data = arguments.encode() if isinstance(arguments, str) else json.dumps(arguments).encode()
    return [(touch.path, touch.how) for touch in touches(some_call(1, tool_name=tool_name, arguments=data))]


@pytest.mark.parametrize(
    ("tool_name", "arguments", "expected"),
    [
        ("read_file", {"path": "a.py"}, [("a.py", "read")]),
        ("Read", {"file_path": "/x/a.py", "limit": 5}, [("/x/a.py", "read")]),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, [("a.py", "write")]),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, [("n.ipynb", "write")]),
        ("store", {"filePath": "a.py", "content": "x"}, [("a.py", "write")]),
        ("web_fetch", {"url": "https://x.test/a"}, [("https://x.test/a", "read")]),
        ("read_many", {"paths": ["a", "b"]}, [("a", "read"), ("b", "read")]),
        ("move_file", {"source": "a", "destination": "b"}, [("a", "write"), ("b", "write")]),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a"}, [("a", "read")]),
        ("str_replace_based_edit_tool", {"command": "str_replace", "path": "a"}, [("a", "write")]),
        ("compute_output", {"file": "a"}, [("a", "named")]),
        ("analyze", {"path": "a"}, [("a", "named")]),
        ("apply_patch", PATCH, [("src/a.py", "write"), ("src/b.py", "write")]),
        ("apply_patch", {"input": PATCH}, [("src/a.py", "write"), ("src/b.py", "write")]),
        ("shell", {"command": ["apply_patch", PATCH]}, [("src/a.py", "write"), ("src/b.py", "write")]),
        ("bash", {"command": "make > out.log 2>&1"}, [("out.log", "write")]),
        ("bash", {"cmd": "date >> log.txt"}, [("log.txt", "write")]),
        ("bash", {"command": "ls | tee files.txt"}, [("files.txt", "write")]),
        ("bash", {"command": "ls | tee -a files.txt"}, [("files.txt", "write")]),
        ("bash", {"command": "make 2> err.log >/dev/null"}, []),
        ("bash", {"command": "test 3 -gt 2 && echo 'a > b'"}, []),
        ("bash", {"command": "cat > a.py << 'EOF'\nx\nEOF"}, []),
        ("bash", {"command": "echo $X > $Y"}, []),
        ("bash", {"command": "echo 'open"}, []),
        ("bash", {"command": "tee"}, []),
        ("bash", {"command": "ls"}, []),
        ("query", {"path": ["", 3, {"a": 1}]}, []),
        ("query", {"path": "x" * 600}, []),
        ("query", {"path": 7}, []),
        ("query", "[]", []),
        ("query", '{"path": "a"', []),
        ("query", "[" * 5000, []),
        ("query", '{"path":' + "[" * 100_000, []),
        ("trimtab_read", {"path": "a"}, []),
    ],
)
def test_touches_of_arguments_are_what_they_plainly_name(tool_name: str, arguments: Any, expected: list[tuple[str, str]]) -> None:
    assert touched(tool_name, arguments) == expected


def test_touches_of_bytes_that_are_no_text_do_not_fail() -> None:
    assert touches(some_call(1, arguments=b"\xff\xfe{}")) == []
    assert [touch.how for touch in touches(some_call(1, tool_name="read", arguments=b'{"path":"\xff\\ud800"}'))] == ["read"]


def test_find_touched_counts_by_path_in_order_of_the_last_touch() -> None:
    calls = [
        some_call(1, tool_name="read", arguments=b'{"path":"a"}'),
        some_call(3, tool_name="read", arguments=b'{"path":"b"}'),
        some_call(5, tool_name="write", arguments=b'{"path":"a"}'),
        some_call(7, tool_name="write", arguments=b'{"path":"a"}', state=EffectState.FAILED),
    ]
    found = find_touched(calls)
    assert [(each.path, each.read_count, each.write_count) for each in found] == [("b", 1, 0), ("a", 1, 2)]
    assert (found[1].last_read, found[1].last_write, found[1].last_failed, found[1].superseded_by) == (1, 5, 7, 5)
    assert (found[0].superseded_by, found[0].last_index) == (-1, 3)


def test_find_touched_of_a_read_after_a_write_is_not_superseded() -> None:
    calls = [some_call(at, tool_name=name, arguments=b'{"path":"a"}') for at, name in ((1, "write"), (3, "read"))]
    assert [each.superseded_by for each in find_touched(calls)] == [-1]
