"""Runs the operators of a SELECT in one thread, with several subtasks of each recursive query, which take turns at random."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from greenlet import getcurrent, greenlet
from job_in_a_thread import RETRACT, JobInAThread
from operator_harness import restored

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.stream_graph import Exchange, ExchangeKind, StreamNode
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.operators.operator import Operator
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.taskmanager.peer_channels import PeerChannels
from sqlstream.runtime.taskmanager.result_partition import splitter
from sqlstream.specs import IterateSpec, MutualIterateSpec

Act = Callable[[Operator[Any], Any], None]


class Subtasks:
    """Several subtasks of one operator, in the place of one: each batch is split by the keys of its input, and whoever waits for
    its peers goes on in a turn of its own. State: the operators, the turns that wait, and who was called."""

    def __init__(
        self,
        node: StreamNode,
        contexts: Sequence[Any],
        snapshots: Sequence[OperatorSnapshot],
        fate: random.Random,
    ) -> None:
        assert isinstance(node.spec, IterateSpec | MutualIterateSpec)
        self._fate = fate
        count = self._count = len(contexts)
        self._called = [False] * count
        self._turns: list[greenlet | None] = [None] * count
        of_inputs = node.spec.placements[-JobInAThread.inputs(node) :]
        self._split = [splitter(Exchange(ExchangeKind.HASH, k), count, 0, 128) for k in of_inputs]
        channels = {(a, b): Channel(1 << 20) for a in range(count) for b in range(count) if a != b}
        for channel in channels.values():
            channel.connect()
        self.operators: list[Operator[Any]] = []
        for n, context in enumerate(contexts):
            others = {m: (channels[n, m], channels[m, n]) for m in range(count) if m != n}
            if others:
                context.peers = PeerChannels(n, others, 128, lambda n=n: self._call(n), _wait)
            self.operators.append(restored(node.spec, context, snapshots, n, count))

    def _call(self, subtask: int) -> None:
        self._called[subtask] = True

    def on_batch(self, rows: pa.RecordBatch, input_index: int, output: Any) -> None:
        for subtask, act in self.acts(rows, input_index).items():
            self._run(output, {subtask: act})

    def acts(self, rows: pa.RecordBatch, input_index: int) -> dict[int, Act]:
        """By subtask, that it gets its rows."""
        return {
            subtask: lambda o, out, part=part: o.on_batch(part, input_index, out)
            for subtask, part, _, _ in self._split[input_index].split(rows)
        }

    def flush(self, output: Any) -> None:
        self._of_all(output, lambda operator, out: operator.flush(out))

    def on_end_of_input(self, input_index: int, output: Any) -> None:
        self._of_all(output, lambda operator, out: operator.on_end_of_input(input_index, out))

    def _of_all(self, output: Any, act: Act) -> None:
        self._run(output, dict.fromkeys(range(self._count), act))

    def _run(self, output: Any, acts: Mapping[int, Act]) -> None:
        """Until nobody waits and nobody is called."""
        self.run([output] * self._count, acts)

    def run(self, outputs: Sequence[Any], acts: Mapping[int, Act]) -> None:
        """With an output of each subtask."""
        left = dict(acts)
        while open_ := [n for n in range(self._count) if self._turns[n] or self._called[n] or n in left]:
            n = self._fate.choice(open_)
            turn = self._turns[n]
            if turn is None:
                act = left.pop(n, None)
                if act is None:
                    self._called[n] = False
                    act = _flush
                turn = greenlet(lambda act=act, n=n: act(self.operators[n], outputs[n]))
            turn.switch()
            self._turns[n] = None if turn.dead else turn


def _flush(operator: Operator[Any], output: Any) -> None:
    operator.flush(output)


def _wait(event: threading.Event) -> None:
    while not event.is_set():
        getcurrent().parent.switch()


class JobOfSubtasks(JobInAThread):
    """A job whose recursive queries have as many subtasks as `parallelism` says, where they may have several. After a restore it
    has another number of them. State: that of `JobInAThread`."""

    def __init__(
        self,
        text: str,
        tables: Mapping[str, Sequence[str]],
        parallelisms: Sequence[int],
        seed: int,
        mode: ChangelogMode = RETRACT,
        **settings: str,
    ) -> None:
        self._fate = random.Random(seed)
        self._parallelisms = list(parallelisms)
        super().__init__(text, tables, mode, **settings)

    def made(self, node: StreamNode, snapshots: Sequence[OperatorSnapshot] = ()) -> Any:
        if not isinstance(node.spec, IterateSpec | MutualIterateSpec) or not node.spec.placements:
            return super().made(node, snapshots)
        contexts = [self.context(node) for _ in range(self._parallelisms[0])]
        return Subtasks(node, contexts, snapshots, self._fate)

    def restore(self) -> None:
        self._parallelisms.append(self._parallelisms.pop(0))
        super().restore()
