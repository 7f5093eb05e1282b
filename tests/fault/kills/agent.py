"""One agent of the kill test: a seeded script of work, each request repeated until it is answered, and sent to a twin as well."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any

import grpc

from tests.fault.kills.truth import Truth, shape
from tests.helpers.bodies import History, history, words
from tests.helpers.client import Failure, Sidecar, tight
from trimtab.v1 import common_pb2, context_pb2, session_pb2

__all__ = ["Died", "Killable", "KillAgent"]

_CUT_OFF = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}
LIMITS = tight(
    60_000, 30_000, compact_target_bytes=25_000, compact_min_saving_bytes=1, keep_unit_count=2, externalize_bytes=20_000
)
MOST_ITEMS = 300  # of a session; then a new one begins, so that a step late in a long run costs what an early one does
PINNED = ("tool_0", "tool_1")
NOTES = "## Accomplished\n- looked at files\n## In progress\n- none\n## Next steps\n- go on\n## Facts to keep\n- none\n"


class Died(Exception):
    """The run is over."""


class Killable:
    """The sidecar that is killed: agents wait here while it is down."""

    def __init__(self) -> None:
        """Down."""
        self.up = threading.Event()
        self.waiting = 0  # agents that wait
        self._lock = threading.Lock()
        self.over = False
        self.sidecar: Sidecar | None = None

    def call(self, ask: Callable[[Sidecar], Any]) -> Any:
        """Ask until it is answered. A refusal is an answer: it is raised."""
        while True:
            self._wait()
            if self.over:
                raise Died
            sidecar = self.sidecar
            if sidecar is None:
                continue
            try:
                return ask(sidecar)
            except grpc.RpcError as error:
                assert isinstance(error, grpc.Call)
                failure = Failure.of(error)
                if failure.reason or error.code() not in _CUT_OFF:
                    raise
                self.up.clear() if sidecar is self.sidecar else None
            except ValueError:  # the channel was closed under it
                self.up.clear() if sidecar is self.sidecar else None

    def _wait(self) -> None:
        with self._lock:
            self.waiting += 1
        self.up.wait()
        with self._lock:
            self.waiting -= 1


class KillAgent(threading.Thread):
    """Works until the run is over."""

    def __init__(self, number: int, seed: int, killable: Killable, twin: Sidecar | None, with_model: bool) -> None:
        """Its sessions are its own; with a model endpoint, what a kill makes unknown is not the twin's to follow."""
        super().__init__(name=f"agent-{number}", daemon=True)
        self.number = number
        self.rand = random.Random(f"{seed}.{number}")
        self.ended: dict[str, Truth] = {}  # by session: what stays true of those that nobody works on any more
        self.killable = killable
        self.twin = None if with_model else twin
        self.with_model = with_model
        self.serial = 0
        self.ops = 0
        self.failure: str = ""
        self._begin()

    def _begin(self) -> None:
        """A new session."""
        self.history: History = history(("openai-chat", "anthropic-messages")[self.number % 2]).user(f"task {self.number}: go")
        self.truth = Truth()
        self.session_id = f"kills-{self.number}-{len(self.ended)}"
        self.ref = common_pb2.SessionRef(session_id=self.session_id)

    def run(self) -> None:
        """Work."""
        try:
            self._fit()
            while True:
                self._step()
                self.ops += 1
                if len(self.history.items) > MOST_ITEMS:
                    self.ended[self.session_id] = self.truth
                    self._begin()
                    self._fit()
        except Died:
            return
        except BaseException as error:
            self.failure = f"{self.session_id}: {type(error).__name__}: {error}"

    def _step(self) -> None:
        choice = self.rand.random()
        if choice < 0.45:
            self._work_and_fit()
        elif choice < 0.75:
            self._work_and_record()
        elif choice < 0.90:
            self._compact()
        elif choice < 0.94:
            self._roll_back()
        else:
            self._read()

    def _mark(self) -> str:
        self.serial += 1
        return f"{self.session_id}-{self.serial}"

    # Requests ---------------------------------------------------------------------------------------------------------

    def _both(self, ask: Callable[[Sidecar], Any], same: Callable[[Any], object]) -> Any:
        """Ask the sidecar that is killed, then the twin, and compare the answers."""
        try:
            answer = self.killable.call(ask)
        except grpc.RpcError as error:
            answer = Failure.of(error)
        if self.twin is not None:
            try:
                other = ask(self.twin)
            except grpc.RpcError as error:
                other = Failure.of(error)
            mine, its = (each.reason if isinstance(each, Failure) else same(each) for each in (answer, other))
            if mine != its:
                raise AssertionError(f"another answer than an uninterrupted run gives: {mine!r:.600} and {its!r:.600}")
        return answer

    def _fit(self, **fields: Any) -> context_pb2.FitResponse:
        body = self.history.body()

        def ask(sidecar: Sidecar) -> context_pb2.FitResponse:
            return sidecar.fit(self.session_id, body, format=self.history.format_name, limits=LIMITS, **fields)

        def same(answer: context_pb2.FitResponse) -> object:
            return answer.outcome, answer.revision, answer.item_count, answer.history_digest.hex(), answer.body or body

        answer = self._both(ask, same)
        if isinstance(answer, Failure):
            raise AssertionError(f"Fit was refused: {answer}")
        self.truth.artifacts |= {each.artifact_id for each in answer.reductions if each.artifact_id}
        self.truth.revision = max(self.truth.revision, answer.revision)
        return answer

    def _new_call(self) -> tuple[str, int]:
        """The model calls a tool. Its id, and the item."""
        name = f"tool_{self.rand.randrange(20)}"
        arguments = {"path": f"src/{self.serial}.py", "text": words(self.rand.choice([40, 3_000]), self.serial)}
        self.truth.contents |= {json.dumps(arguments), json.dumps(arguments, separators=(",", ":"))}
        self.history.call((name, arguments))
        return name, len(self.history.items) - 1

    def _result(self) -> None:
        text = words(self.rand.choice([200, 2_000, 6_000, 30_000]), f"{self.session_id}.{self.serial}")
        self.truth.contents.add(text)
        self.history.results(text)

    def _work_and_fit(self) -> None:
        mark = self._mark()
        name, item = self._new_call()
        self._result()
        if self.rand.random() < 0.2:
            self.history.answer(f"done with {mark}").user(f"then do {mark}")
        fields: dict[str, Any] = {}
        if self.rand.random() < 0.4:
            state = common_pb2.EFFECT_STATE_SETTLED
            place = common_pb2.CallRef(item_index=item, call_index=0)
            fields["receipts"] = [common_pb2.Receipt(call=place, state=state, idempotency_key=mark, detail=f"detail {mark}")]
            told = self.truth.ask((item, 0), (state, mark, f"detail {mark}", b""))
        if name in PINNED and self.rand.random() < 0.5:
            fields["pins"] = [context_pb2.Pin(tool_name=name)]
            self.truth.asked_pins.add(name)
        if self.rand.random() < 0.2:
            fields["anchors"] = common_pb2.Anchors(constraints=[common_pb2.Constraint(id=mark, text=f"rule {mark}")])
            self.truth.asked_anchors[mark] = f"rule {mark}"
        self._fit(**fields)
        if "receipts" in fields:
            self.truth.receipts[(item, 0)] = told
        if "pins" in fields:
            self.truth.pins.add(name)
        if "anchors" in fields:
            self.truth.anchors[mark] = f"rule {mark}"

    def _record(self, mark: str, first: int, **fields: Any) -> None:
        items = json.dumps(self.history.items[first:], separators=(",", ":"), ensure_ascii=False).encode()
        request = context_pb2.RecordRequest(session=self.ref, request_id=mark, items=items, first_item_index=first, **fields)

        def ask(sidecar: Sidecar) -> context_pb2.RecordResponse:
            try:
                return sidecar.context.Record(request, timeout=60)
            except grpc.RpcError as error:
                if Failure.of(error).reason != "INVALID_FIELD":
                    raise
                # A kill took items of which the journal was not durable yet: they are told again, as an agent does.
                body = self.history.body(messages=self.history.items[:first])
                sidecar.fit(self.session_id, body, format=self.history.format_name, limits=LIMITS)
                return sidecar.context.Record(request, timeout=60)

        def same(answer: context_pb2.RecordResponse) -> object:
            return answer.revision, answer.item_count, answer.history_digest.hex()

        answer = self._both(ask, same)
        if isinstance(answer, Failure):
            raise AssertionError(f"Record was refused: {answer}")
        self.truth.made(answer.revision, f"Record {mark}")

    def _work_and_record(self) -> None:
        """Pending before the tool runs; its result after; then the next Fit repeats both."""
        mark = self._mark()
        first = len(self.history.items)
        self._fit()  # what a kill took of a journal that was not durable is told again
        _, item = self._new_call()
        told = self.truth.ask((item, 0), (common_pb2.EFFECT_STATE_PENDING, mark, "", b""))
        place = common_pb2.CallRef(item_index=item, call_index=0)
        pending = common_pb2.Receipt(call=place, state=common_pb2.EFFECT_STATE_PENDING, idempotency_key=mark)
        self._record(f"{mark}-call", first, receipts=[pending])
        self.truth.receipts[(item, 0)] = told
        self._result()
        settled = common_pb2.Receipt(call=place, state=common_pb2.EFFECT_STATE_SETTLED, idempotency_key=mark)
        told = self.truth.ask((item, 0), (common_pb2.EFFECT_STATE_SETTLED, mark, "", b""))
        self._record(f"{mark}-result", item + 1, receipts=[settled])
        self.truth.receipts[(item, 0)] = told
        self._fit()

    def _compact(self) -> None:
        mark = f"compact-{self._mark()}"
        self.truth.asked_attempts.add(mark)
        kinds = [context_pb2.SUMMARIZER_LEDGER, context_pb2.SUMMARIZER_LEDGER, context_pb2.SUMMARIZER_CALLER]
        # A range that a kill has spent is closed to models: records alone take it out of the way.
        with_model = [context_pb2.SUMMARIZER_MODEL, context_pb2.SUMMARIZER_LEDGER]
        summarizer = self.rand.choice(with_model if self.with_model else kinds)
        request = context_pb2.CompactRequest(
            session=self.ref,
            request_id=mark,
            body=self.history.body(),
            boundary=f"stage {mark}",
            force_mid_stage=True,
            ignore_pressure=True,
            summarizer=summarizer,
            focus=f"focus-{mark}.",
        )

        def ask(sidecar: Sidecar) -> context_pb2.CompactResponse:
            return sidecar.context.Compact(request, timeout=60)

        def same(answer: context_pb2.CompactResponse) -> object:
            summary, plan = answer.checkpoint.summary, answer.summary_request
            return answer.outcome, answer.kept_reason, answer.detail, answer.revision, summary, plan, answer.after.total_bytes

        answer = self._both(ask, same)
        if isinstance(answer, Failure) and answer.reason == "SUMMARIZER_NOT_CONFIGURED":
            return  # this life has no model
        if isinstance(answer, Failure):
            raise AssertionError(f"Compact was refused: {answer}")
        if answer.outcome == context_pb2.COMPACT_OUTCOME_PLANNED:
            self.truth.planned[mark] = answer.summary_request
            finish = context_pb2.FinishCompactRequest(session=self.ref, attempt_id=mark, text=NOTES.encode())
            answer = self._both(
                lambda sidecar: sidecar.context.FinishCompact(finish, timeout=60).compact, lambda each: same(each)
            )
            if isinstance(answer, Failure):
                raise AssertionError(f"FinishCompact was refused: {answer}")
            self.truth.planned.pop(mark)
        if answer.outcome == context_pb2.COMPACT_OUTCOME_COMMITTED:
            self.truth.checkpoints[answer.checkpoint.checkpoint_id] = shape(answer.checkpoint)
            self.truth.made(answer.checkpoint.revision, f"checkpoint {answer.checkpoint.checkpoint_id}")
        self._fit()

    def _roll_back(self) -> None:
        live = [name for name in self.truth.checkpoints if name not in self.truth.taken_back]
        if not live:
            return
        request = session_pb2.RollbackRequest(session=self.ref, request_id=f"back-{self._mark()}", checkpoint_id=live[-1])
        answer = self._both(
            lambda sidecar: sidecar.sessions.Rollback(request, timeout=60),
            lambda each: (list(each.checkpoint_ids), each.revision),
        )
        if isinstance(answer, Failure):
            raise AssertionError(f"Rollback was refused: {answer}")
        self.truth.taken_back |= set(answer.checkpoint_ids)
        self.truth.made(answer.revision, request.request_id)
        self._fit()

    def _read(self) -> None:
        for artifact_id in self.rand.sample(sorted(self.truth.artifacts), min(2, len(self.truth.artifacts))):
            text = self.killable.call(lambda sidecar, name=artifact_id: sidecar.read(self.session_id, name))
            if text.decode() not in self.truth.contents:
                raise AssertionError(f"artifact {artifact_id} is no text that the agent had")
