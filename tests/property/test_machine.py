"""A machine over a real sidecar: an agent that does, in any order, all that agents do, and a sidecar that dies at any moment.

After each step the journal holds what was acknowledged, byte for byte; revisions never go back and none is given twice; what Fit
answers holds the invariants (`Oracle`, and `wrong` where a summary is in the body); the same body gives the same bytes again,
after a death too; Recover tells the acknowledged receipts and anchors, and gives the body that Fit gave.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from typing import Any, ClassVar

import grpc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from sidecar.core.types import Format
from store import failpoints
from tests.helpers.bodies import TYPED, History, history, words
from tests.helpers.client import Failure, Sidecar
from tests.helpers.compacting import FORMATS, wrong
from tests.helpers.oracle import Oracle
from tests.rpc.running import Running, ref
from trimtab.v1 import common_pb2, context_pb2, session_pb2

SETTINGS = settings(
    max_examples=int(os.environ.get("TRIMTAB_EXAMPLES", "50")),  # more for a long run
    stateful_step_count=30,
    deadline=None,
    derandomize="TRIMTAB_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
_NUMBERS = itertools.count()
STATES = [number for _, number in common_pb2.EffectState.items() if number]
PENDING, NOT_STARTED = common_pb2.EFFECT_STATE_PENDING, common_pb2.EFFECT_STATE_NOT_STARTED
WAITING, UNKNOWN = common_pb2.EFFECT_STATE_WAITING, common_pb2.EFFECT_STATE_UNKNOWN
SETTLED, FAILED = common_pb2.EFFECT_STATE_SETTLED, common_pb2.EFFECT_STATE_FAILED
CLOSED = ("Not run:", "Interrupted:")
LOOSE = common_pb2.Limits(soft_bytes=1 << 30, target_bytes=1 << 29, min_saving_bytes=1, externalize_bytes=0, keep_unit_count=1)
TIGHT = common_pb2.Limits(soft_bytes=6000, target_bytes=3000, min_saving_bytes=1, externalize_bytes=4000, keep_unit_count=1)
SIZES = st.sampled_from([0, 40, 900, 5000])
COMMITTED, KEPT = context_pb2.COMPACT_OUTCOME_COMMITTED, context_pb2.COMPACT_OUTCOME_KEPT


NEEDED: dict[str, Callable[[Any], bool]] = {
    "works": lambda self: bool(self.items),
    "rewinds": lambda self: len(self.items) > 1,
    "edits": lambda self: len(self.items) > 1,
    "fits": lambda self: bool(self.items),
    "receipt": lambda self: bool(self.told),
    "recovers": lambda self: self.exists,
    "closes": lambda self: self.sent_for is not None,
    "compacts": lambda self: self.sent_for is not None,
    "rolls_back": lambda self: self.compacted,
    "is_deleted": lambda self: self.exists,
}
BOOL = st.booleans()
WORKS = st.tuples(st.just("works"), st.lists(SIZES, min_size=1, max_size=3), st.sampled_from([True, True, True, False]))
FITS = st.tuples(st.just("fits"), BOOL, st.sampled_from(["", "", "ship", "mend"]))
ACTIONS = st.one_of(
    st.tuples(st.just("says"), SIZES),
    WORKS,
    WORKS,
    WORKS,
    FITS,
    FITS,
    FITS,
    st.tuples(st.just("rewinds"), st.integers(1, 4)),
    st.tuples(st.just("edits"), st.integers(0, 30)),
    st.tuples(st.just("limits_change"), BOOL),
    st.tuples(st.just("records"), st.lists(SIZES, min_size=1, max_size=2), st.sampled_from(STATES), BOOL),
    st.tuples(st.just("receipt"), st.integers(0, 30), st.sampled_from(STATES)),
    st.tuples(st.just("recovers")),
    st.tuples(st.just("closes"), BOOL),
    st.tuples(st.just("compacts"), BOOL, BOOL),
    st.tuples(st.just("compacts"), BOOL, BOOL),
    st.tuples(st.just("rolls_back"), st.integers(0, 5)),
    st.tuples(st.just("dies")),
    st.tuples(st.just("dies_with_a_call_on_its_way")),
    st.tuples(st.sampled_from(["is_deleted", "recovers", "recovers", "recovers"])),
)


class Place(Running):
    """A sidecar that can lose what waits to be written."""

    def die(self) -> None:
        """What is not durable by now never will be."""
        failpoints.configure("before_commit=error:EIO")
        try:
            self.stop()
        finally:
            failpoints.configure("")
        self.start()


def _written(item: Any) -> bytes:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode()


class Machine(RuleBasedStateMachine):
    """One session. `items` is what the agent holds; `told` is what the session was told last, which the store must hold."""

    place: ClassVar[Place]
    format_name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.format: Format = FORMATS[self.format_name]
        self.begin()

    def begin(self) -> None:
        self.session_id = f"m{next(_NUMBERS)}"
        self.script: History = history(self.format_name)
        self.items: list[bytes] = []
        self.told: list[bytes] = []
        self.durable: list[list[bytes]] = [[]]  # what the branch may be once the process has died, newest last
        self.revision = 0
        self.given: dict[int, str] = {}  # by revision: what made it
        self.sent = b""  # the body answered last
        self.sent_for: list[bytes] | None = None  # the raw items that it stands for
        self.limits = TIGHT if next(_NUMBERS) % 2 else LOOSE
        self.goal = ""
        self.receipts: dict[str, tuple[int, str]] = {}  # newest state and key, by call id
        self.closed: set[str] = set()  # calls whose newest receipt is one that closed them
        self.ever_closed: set[str] = set()  # calls that were closed, whatever was told of them since
        self.held: set[str] = set()  # of these, those of which the agent had said that nobody knows
        self.late: set[str] = set()  # calls whose newest receipt came after their result
        self.requests = 0
        self.compacted = False
        self.result: Any = None
        self.exists = False
        front = {"model": "m", "max_tokens": 9}
        self.front = _written(front)[:-1] + b',"messages":['
        self.back = b'],"stream":true}'
        self.says(40)
        for size in (900, 40, 2000):
            self.works([size], True)

    # What `wrong` asks of a client

    def body(self, items: list[bytes] | None = None) -> bytes:
        return self.front + b",".join(self.items if items is None else items) + self.back

    def live(self) -> list[tuple[str, str, set[int]]]:
        listed = self.place.sessions.ListCheckpoints(session_pb2.ListCheckpointsRequest(session=ref(self.session_id)))
        return [
            (each.checkpoint_id, each.summary.decode(), {at for r in each.items for at in range(r.start, r.end)})
            for each in listed.checkpoints
            if each.live
        ]

    # What was acknowledged

    @property
    def sidecar(self) -> Sidecar:
        return Sidecar(self.place.channel)

    def request_id(self) -> str:
        self.requests += 1
        return f"q{self.requests}"

    def moved(self, revision: int, what: str, *, must: bool = False) -> None:
        """A revision was told."""
        assert revision >= self.revision + must, f"{what}: {revision} after {self.revision}"
        if revision > self.revision:
            assert revision not in self.given
            self.given[revision] = what
        self.revision = revision

    def keeps(self, items: list[bytes], durable: bool) -> None:
        """The session was told a history."""
        self.told = list(items)
        self.durable = [self.told] if durable else [*self.durable, self.told]
        self.exists = True
        self.journal_holds()

    def journal_holds(self) -> None:
        assert self.sidecar.items(self.session_id) == self.told

    def calls(self, items: list[bytes]) -> dict[str, int]:
        """Item of each call, by id."""
        found: dict[str, int] = {}
        for at, raw in enumerate(items):
            item = json.loads(raw)
            blocks = item["content"] if isinstance(item["content"], list) else []
            found |= {call["id"]: at for call in item.get("tool_calls") or ()}
            found |= {block["id"]: at for block in blocks if block["type"] == "tool_use"}
        return found

    def results(self, items: list[bytes]) -> dict[str, str]:
        """What each result says, by call id."""
        found: dict[str, str] = {}
        for raw in items:
            item = json.loads(raw)
            blocks = item["content"] if isinstance(item["content"], list) else []
            if item["role"] == "tool":
                found[item["tool_call_id"]] = item["content"]
            found |= {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}
        return found

    def take(self) -> None:
        """What the script made is the agent's."""
        self.items += [_written(item) for item in self.script.items]
        self.script.items.clear()

    def ends_with_user(self) -> bool:
        return bool(self.items) and json.loads(self.items[-1])["role"] == "user"

    @rule(action=ACTIONS)
    def acts(self, action: tuple[Any, ...]) -> None:
        """One rule for all: rules by themselves would be switched off by turns, and little would be compacted."""
        name, *values = action
        if name in NEEDED and not NEEDED[name](self):
            return
        getattr(self, name)(*values)

    # Growing

    def says(self, size: int) -> None:
        if self.ends_with_user():
            self.script.answer("well")
            self.take()
        self.script.user(words(size + 1, len(self.items)))
        self.take()

    def works(self, sizes: list[int], answered: bool) -> None:
        """A turn with calls, most often with its results."""
        ids = [f"{self.session_id}-{next(_NUMBERS)}" for _ in sizes]
        self.script.call(*[("read_file", {"path": "x" * (size % 1000)}) for size in sizes], ids=ids)
        if answered:
            self.script.results(*[words(size + 1, id) for size, id in zip(sizes, ids, strict=True)])
        self.take()

    def rewinds(self, count: int) -> None:
        del self.items[max(len(self.items) - count, 1) :]

    def edits(self, at: int) -> None:
        """One item of a person, said anew: a branch."""
        people = [n for n, raw in enumerate(self.items) if json.loads(raw)["role"] == "user" and b"tool_result" not in raw]
        self.script.user(words(60, next(_NUMBERS)))
        self.items[people[at % len(people)]] = _written(self.script.items.pop())

    def limits_change(self, tight: bool) -> None:
        self.limits = TIGHT if tight else LOOSE

    # Fit

    def fits(self, adopt: bool, goal: str) -> None:
        arrived = self.body()
        if adopt and self.sent_for is not None and self.items[: len(self.sent_for)] == self.sent_for:
            arrived = b",".join([self.sent[: -len(self.back)], *self.items[len(self.sent_for) :]]) + self.back
        before = self.revision
        answer = self.sidecar.fit(
            self.session_id, arrived, format=self.format_name, limits=self.limits, anchors=common_pb2.Anchors(goal=goal)
        )
        self.result, self.sent, self.sent_for = answer, answer.body or arrived, list(self.items)
        self.moved(answer.revision, "fit")
        self.goal = goal or self.goal
        durable = answer.journal_durable or answer.revision > before or goal not in ("", self.goal)
        self.keeps(self.items, durable)
        assert answer.item_count == len(self.items)
        folded = any(each.checkpoint_id for each in answer.reductions)
        if folded or self.compacted:
            assert wrong(self, arrived) == []  # type: ignore[arg-type]
        else:
            judge = Oracle(self.format_name, self.body(), self.sent, answer, self.sidecar.reader(self.session_id), asked=arrived)
            assert judge.problems() == []
        if self.limits is LOOSE and not answer.totals and arrived == self.body():  # a rollback puts items back
            assert answer.body == b""
        self.again()

    def again(self) -> None:
        """The raw body gives the same bytes, whatever the limits, and moves nothing."""
        answer = self.sidecar.fit(self.session_id, self.body(), format=self.format_name, limits=LOOSE)
        assert (answer.body or self.body(), answer.revision) == (self.sent, self.revision)
        known = self.known()
        assert known.body == self.sent

    # Record and Recover

    def records(self, sizes: list[int], state: int, then: bool) -> None:
        """A turn before it runs, each call with a receipt; its results after."""
        if self.items != self.told:
            self.fits(False, "")
        ids = [f"{self.session_id}-{next(_NUMBERS)}" for _ in sizes]
        if not self.items:
            self.script.user("go")
        self.script.call(*[("deploy", {"to": "x"}) for _ in sizes], ids=ids)
        self.record(ids, state)
        if then:
            self.script.results(*[words(size + 1, id) for size, id in zip(sizes, ids, strict=True)])
            self.record([], 0)

    def record(self, ids: list[str], state: int) -> None:
        receipts = [common_pb2.Receipt(call=common_pb2.CallRef(call_id=id), state=state, idempotency_key=id) for id in ids]
        request = context_pb2.RecordRequest(
            session=ref(self.session_id),
            request_id=self.request_id(),
            format=int(self.format),
            items=_written(self.script.items),
            receipts=receipts,
            expected_revision=self.revision,
        )
        answer = self.place.context.Record(request)
        self.moved(answer.revision, "record", must=True)
        self.take()
        self.receipts |= {id: (state, id) for id in ids}
        self.closed.difference_update(ids)
        self.held.difference_update(ids)
        self.late.difference_update(ids)
        self.keeps(self.items, True)
        assert self.place.context.Record(request) == answer
        request.request_id = self.request_id()
        with pytest.raises(grpc.RpcError) as caught:  # another writer, at the revision before
            self.place.context.Record(request)
        failure = Failure.of(caught.value)
        assert (failure.reason, failure.details["revision"]) == ("REVISION_CONFLICT", str(self.revision))

    def receipt(self, which: int, state: int) -> None:
        ids = sorted(self.calls(self.told))
        if not ids:
            return
        id = ids[which % len(ids)]
        key = f"k{next(_NUMBERS)}"
        given = common_pb2.Receipt(call=common_pb2.CallRef(call_id=id), state=state, idempotency_key=key)
        request = context_pb2.RecordRequest(session=ref(self.session_id), request_id=self.request_id(), receipts=[given])
        self.moved(self.place.context.Record(request).revision, "receipt", must=True)
        self.receipts[id] = (state, key)
        self.closed.discard(id)
        self.held.discard(id)
        (self.late.add if id in self.results(self.told) else self.late.discard)(id)
        self.keeps(self.told, True)

    def recovers(self) -> None:
        self.known()

    def known(self) -> context_pb2.RecoverResponse:
        """What Recover tells is what was acknowledged."""
        request = context_pb2.RecoverRequest(session=ref(self.session_id), include_body=self.sent_for is not None)
        known: context_pb2.RecoverResponse = self.place.context.Recover(request)
        self.durable = [self.told]  # it waits for what is on its way
        assert (known.revision, known.item_count, known.anchors.goal) == (self.revision, len(self.told), self.goal)
        there, results = self.calls(self.told), self.results(self.told)
        said = {each.call.call_id: (each.state, each.idempotency_key) for each in known.receipts}
        real = {id for id, text in results.items() if id not in self.ever_closed or not text.startswith(CLOSED)}
        final = real | {id for id in results if self.receipts.get(id, (0, ""))[0] in (SETTLED, FAILED)}
        over = self.closed.intersection(real)  # a real result ended what closed them
        assert {id: said.get(id) for id in self.receipts if id in there and id not in over} == {
            id: receipt for id, receipt in self.receipts.items() if id in there and id not in over
        }
        assert {each.call.call_id for each in known.open_calls} == set(there) - final
        return known

    def closes(self, adopt: bool) -> None:
        """What died is said as it is; the agent goes on with that, or with its own history."""
        request = context_pb2.RecoverRequest(
            session=ref(self.session_id),
            close_interrupted=True,
            include_body=True,
            request_id=self.request_id(),
            expected_revision=self.revision,
        )
        before = self.results(self.told)
        known = self.place.context.Recover(request)
        assert self.place.context.Recover(request) == known
        self.moved(known.revision, "close")
        now = self.sidecar.items(self.session_id)
        assert [raw for raw in now if raw in self.told] == self.told  # nothing went
        self.keeps(now, True)
        for each in known.open_calls:
            id = each.call.call_id
            state, key = self.receipts.get(id, (0, ""))
            assert each.receipt.idempotency_key == key
            assert bool(each.closed_by) == (state != WAITING and id not in before)
            if each.closed_by and id not in self.closed:
                self.receipts[id] = (each.receipt.state, key)
                self.closed.add(id)
                self.ever_closed.add(id)
                self.late.discard(id)
                if state == UNKNOWN:
                    self.held.add(id)
        if adopt:
            self.items = list(now)
            self.sent, self.sent_for = known.body, list(now)

    # Compact

    def compacts(self, bring: bool, rederive: bool) -> None:
        request = context_pb2.CompactRequest(
            session=ref(self.session_id),
            request_id=self.request_id(),
            body=self.body() if bring else b"",
            force_mid_stage=True,
            ignore_pressure=True,
            mode=2 if rederive else 1,
            limits=common_pb2.Limits(compact_target_bytes=1, compact_min_saving_bytes=1),
        )
        answer = self.place.context.Compact(request)
        committed = answer.outcome == COMMITTED
        assert committed or answer.outcome == KEPT
        self.moved(answer.revision, "compact", must=committed)
        if bring:
            self.keeps(self.items, True)
        if committed:
            self.compacted = True
            assert self.place.context.Compact(request).checkpoint == answer.checkpoint
            covered = {at for each in answer.checkpoint.items for at in range(each.start, each.end)}
            self.only_settled(covered)

    def only_settled(self, covered: set[int]) -> None:
        """What a checkpoint covers has its final results, in it, and no receipt says otherwise."""
        inside = [self.told[at] for at in sorted(covered)]
        results = self.results(inside)
        for id in self.calls(inside):
            assert id in results, f"{id} is covered without its result"
            state = self.receipts.get(id, (0, ""))[0]
            if id in self.ever_closed and results[id].startswith(CLOSED):
                assert state in (SETTLED, FAILED)  # what closed it, and what is known
            elif id in self.closed:
                assert id not in self.held
            else:
                assert state not in (WAITING, UNKNOWN) and not (id in self.late and state in (PENDING, NOT_STARTED))

    def rolls_back(self, which: int) -> None:
        live = self.live()
        if not live:
            return
        checkpoint = live[which % len(live)][0]
        request = session_pb2.RollbackRequest(
            session=ref(self.session_id), request_id=self.request_id(), checkpoint_id=checkpoint, expected_revision=self.revision
        )
        answer = self.place.sessions.Rollback(request)
        assert checkpoint in answer.checkpoint_ids
        self.moved(answer.revision, "rollback", must=True)
        assert self.place.sessions.Rollback(request) == answer
        self.journal_holds()

    # The end, of a process and of a session

    def dies(self) -> None:
        self.place.die()
        if not self.exists:
            return
        now = self.sidecar.items(self.session_id) if self.sidecar.exists(self.session_id) else []
        assert now in self.durable, "the journal holds what nobody told, or lacks what was acknowledged"
        self.told, self.durable, self.exists = now, [now], bool(now)
        if self.exists and self.sent_for is not None and self.sent_for == now:
            self.known()

    def dies_with_a_call_on_its_way(self) -> None:
        """A Fit whose journal is never written: it may be lost whole, and nothing else."""
        if self.exists and self.items:
            self.script.answer("lost") if self.ends_with_user() else self.script.user("lost")
            extra = [*self.items, *map(_written, self.script.items)]
            self.script.items.clear()
            failpoints.configure("before_commit=error:EIO")
            try:
                self.sidecar.fit(self.session_id, self.body(extra), format=self.format_name)
            except grpc.RpcError as error:
                assert Failure.of(error).reason in ("STORE_FAILED", "STORE_FULL")
        self.dies()

    def is_deleted(self) -> None:
        assert self.sidecar.delete(self.session_id)
        assert not self.sidecar.exists(self.session_id)
        self.begin()


@pytest.mark.slow
@pytest.mark.parametrize("format_name", TYPED)
def test_machine(format_name: str) -> None:
    with Place() as place:
        kind = type("Machine", (Machine,), {"place": place, "format_name": format_name})
        run_state_machine_as_test(kind, settings=SETTINGS)
