"""What happens, step by step, in no dialect: calls with results, words of the user, and what the agent keeps as anchors."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.helpers.bodies import words

__all__ = [
    "BENCHMARK_STEP",
    "COMPACT_STEP",
    "DIFF",
    "DIFF_STEP",
    "FREEZE",
    "P99_LINE",
    "READ_STEP",
    "STEPS",
    "TRIM_STEP",
    "Step",
    "script",
]

STEPS = 70
DIFF_STEP, BENCHMARK_STEP, TRIM_STEP, COMPACT_STEP, READ_STEP = 20, 38, 41, 55, 62
FREEZE = "One more thing: do not touch the billing module until Friday, its audit is still running."
P99_LINE = "p99: redis 14210 req/s, in-process queue 4730 req/s (3.0x) at 64 workers"
DIFF = """--- a/orders/handler.py
+++ b/orders/handler.py
@@ -41,7 +41,8 @@ def place_order(request):
-    receipt = fulfil(order)          # blocks for up to 9 s
-    return ok(receipt)
+    job = queue.enqueue("fulfil", order.id)
+    return accepted(job.id)
"""


@dataclass
class Step:
    """One step.

    Attributes:
        says: the user's words before it.
        tool: name, and its arguments.
        result: what came back.
        rules, decisions, work: anchors that the agent gives with the next Fit: id to text; of work: id to (text, state).
    """

    tool: str
    arguments: dict[str, str]
    result: str
    says: str = ""
    rules: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, str] = field(default_factory=dict)
    work: dict[str, tuple[str, str]] = field(default_factory=dict)


def script() -> list[Step]:
    """All steps, from 1; the first element is step 1."""
    steps = [_plain(number) for number in range(1, STEPS + 1)]

    def step(number: int) -> Step:
        return steps[number - 1]

    step(1).says = "Please move the order service from the synchronous handler to an async queue. The tests must stay green."
    step(1).work = {
        "handler": ("handler enqueues instead of blocking", "IN_PROGRESS"),
        "worker": ("worker process with retries", "OPEN"),
        "runbook": ("runbook for draining the queue", "OPEN"),
    }
    step(3).says = FREEZE
    step(3).rules = {"billing-freeze": FREEZE}
    step(DIFF_STEP).tool, step(DIFF_STEP).arguments = "bash", {"command": "git diff orders/handler.py"}
    step(DIFF_STEP).result = DIFF + "\n" + words(3_500, "after the diff")
    step(DIFF_STEP).work = {"handler": ("", "DONE")}
    step(BENCHMARK_STEP).tool, step(BENCHMARK_STEP).arguments = "bash", {"command": "python bench/queues.py --workers 64"}
    step(BENCHMARK_STEP).result = words(6_000, "warm-up") + f"\n{P99_LINE}\n" + words(6_000, "cool-down")
    step(BENCHMARK_STEP).decisions = {"queue": "Redis rather than an in-process queue: three times the throughput at p99"}
    step(48).work = {"worker": ("", "DONE")}
    step(50).says = "Looks good so far. Also write the runbook, please."
    return steps


def _plain(number: int) -> Step:
    """Everyday work."""
    if number % 7 == 0:
        return Step("bash", {"command": f"pytest tests/test_orders.py -q -k part{number}"}, f"{number} passed in 1.2s\n")
    if number % 5 == 0:
        path = f"orders/part_{number}.py"
        return Step("write_file", {"path": path, "content": words(1_500, f"new {number}")}, f"wrote {path}")
    return Step("read_file", {"path": f"orders/part_{number}.py"}, words(4_000, f"old {number}"))
