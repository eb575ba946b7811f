"""Flame graphs of a vertex: what its tasks were doing when their stacks were sampled."""

from __future__ import annotations

import dataclasses
import enum
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.errors import SqlStreamError
from sqlstream.messages.rpc import SubtaskDetails, VertexDetails
from sqlstream.messages.stacks import RequestStacks, SampledStack, TaskStacks

ARE_OFF = -2
"""Flink's end timestamp of a flame graph on a cluster where they are turned off."""

IS_AWAITED = -1
"""Flink's end timestamp before the first samples are there."""

VERTICES_MAX = 64
"""How many vertices' samples are kept."""

SAMPLERS_MAX = 8
"""How many TaskManagers are asked for samples at the same time."""

logger = logging.getLogger(__name__)


class FlameGraphNode(TypedDict):
    """`children` are nodes like this one: a schema that refers to itself cannot be written in place."""

    name: str
    value: int
    children: list[dict[str, Any]]


class FlameGraph(TypedDict):
    endTimestamp: int
    data: FlameGraphNode | None


class ThreadKind(enum.Enum):
    """Which samples count: all, those of threads that had a processor, or those of threads that waited."""

    FULL = "full"
    ON_CPU = "on_cpu"
    OFF_CPU = "off_cpu"


@dataclasses.dataclass(frozen=True)
class Samples:
    """Of one vertex, by subtask."""

    end_ms: int
    subtasks: dict[int, tuple[SampledStack, ...]]


class FlameGraphs:
    """Samples the stacks of a vertex's tasks when somebody asks for them. Thread-safe.

    The first answer, and one to samples older than `rest.flamegraph.refresh-interval`, begins new samples and does not wait for
    them. State: the last samples of VERTICES_MAX vertices, and which are being taken."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._found: OrderedDict[tuple[str, str], Samples] = OrderedDict()
        self._under_way: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._sampling = ThreadPoolExecutor(SAMPLERS_MAX, "flame-graph")

    def graph(self, job_id: str, vertex: VertexDetails, kind: ThreadKind, subtask: int | None) -> FlameGraph:
        """The body of Flink's VertexFlameGraph: nodes with the number of samples in which they were called."""
        if not self._view.setting("rest.flamegraph.enabled"):
            return {"endTimestamp": ARE_OFF, "data": None}
        samples = self._samples((job_id, vertex.id), vertex)
        if samples is None:
            return {"endTimestamp": IS_AWAITED, "data": None}
        chosen = samples.subtasks.values() if subtask is None else (samples.subtasks.get(subtask, ()),)
        tree = _tree((stack for stacks in chosen for stack in stacks), kind)
        return {"endTimestamp": samples.end_ms, "data": tree}

    def _samples(self, key: tuple[str, str], vertex: VertexDetails) -> Samples | None:
        with self._lock:
            found, now_ms = self._found.get(key), self._view.now_ms()
            age_ms = now_ms - found.end_ms if found is not None else 0
            is_stale = found is None or age_ms > self._view.setting("rest.flamegraph.refresh-interval")
            if is_stale and key not in self._under_way and len(self._under_way) < VERTICES_MAX:
                self._under_way.add(key)
                self._sampling.submit(self._sample, key, vertex)
            if found is None or age_ms > self._view.setting("rest.flamegraph.cleanup-interval"):
                self._found.pop(key, None)
                return None
            return found

    def _sample(self, key: tuple[str, str], vertex: VertexDetails) -> None:
        try:
            taken = self._take(vertex)
        except SqlStreamError as error:
            logger.info("no flame graph of vertex %s: %s", vertex.id, error)
            taken = None
        finally:
            with self._lock:
                self._under_way.discard(key)
        if taken is not None:
            with self._lock:
                self._found[key] = Samples(self._view.now_ms(), taken)
                self._found.move_to_end(key)
                while len(self._found) > VERTICES_MAX:
                    self._found.popitem(last=False)

    def _take(self, vertex: VertexDetails) -> dict[int, tuple[SampledStack, ...]]:
        """All TaskManagers of the vertex take their samples at the same time."""
        by_task_manager: dict[str, list[SubtaskDetails]] = {}
        for subtask in vertex.subtasks:
            if not subtask.state.is_terminal and subtask.task_manager_id:
                by_task_manager.setdefault(subtask.task_manager_id, []).append(subtask)
        addresses = {t.task_manager_id: t.address for t in self._view.cluster.task_managers()}
        asked = [(addresses[id], subtasks) for id, subtasks in by_task_manager.items() if id in addresses]
        with ThreadPoolExecutor(max(1, min(len(asked), SAMPLERS_MAX)), "flame-graph-part") as pool:
            replies = list(pool.map(lambda part: self._ask(*part), asked))
        indexes = {s.execution_id: s.subtask for s in vertex.subtasks}
        return {indexes[task.execution_id]: task.stacks for tasks in replies for task in tasks}

    def _ask(self, address: str, subtasks: list[SubtaskDetails]) -> tuple[TaskStacks, ...]:
        request = RequestStacks(
            tuple(s.execution_id for s in subtasks),
            self._view.setting("rest.flamegraph.num-samples"),
            self._view.setting("rest.flamegraph.delay-between-samples"),
            self._view.setting("rest.flamegraph.stack-depth"),
        )
        return self._view.cluster.stacks(address, request).tasks


def _tree(stacks: Iterable[SampledStack], kind: ThreadKind) -> FlameGraphNode:
    root: dict[str, Any] = {"name": "root", "value": 0, "children": {}}
    for stack in stacks:
        count = {
            ThreadKind.FULL: stack.on_cpu + stack.off_cpu,
            ThreadKind.ON_CPU: stack.on_cpu,
            ThreadKind.OFF_CPU: stack.off_cpu,
        }[kind]
        node = root
        node["value"] += count
        for name in stack.frames if count else ():
            node = node["children"].setdefault(name, {"name": name, "value": 0, "children": {}})
            node["value"] += count
    return _listed(root)


def _listed(node: dict[str, Any]) -> Any:
    return {**node, "children": [_listed(child) for child in node["children"].values()]}
