"""What the threads of this process are doing: their stacks at one moment, or sampled over some seconds."""

from __future__ import annotations

import collections
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from types import FrameType

from sqlstream.messages.stacks import RequestStacks, SampledStack, StacksReply, TaskStacks, ThreadStack


def answer_stacks(request: RequestStacks, tasks: Mapping[str, threading.Thread]) -> StacksReply:
    """`tasks` are the threads of the tasks that run here, by execution id. Takes as long as the samples do."""
    if not request.execution_ids:
        return StacksReply(threads=thread_stacks())
    return StacksReply(tasks=_sample(request, {id: tasks[id] for id in request.execution_ids if id in tasks}))


def thread_stacks() -> tuple[ThreadStack, ...]:
    """The stacks of all threads."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return tuple(
        ThreadStack(names.get(ident, str(ident)), "".join(traceback.format_stack(frame)))
        for ident, frame in sys._current_frames().items()
    )


def _sample(request: RequestStacks, threads: Mapping[str, threading.Thread]) -> tuple[TaskStacks, ...]:
    """A thread that had the processor for at least half of the time since the sample before is taken to run. Kernels release the
    interpreter's lock, so that a thread may run while others hold it; its Python frame is that of the call."""
    seen: dict[str, collections.Counter[tuple[tuple[str, ...], bool]]] = {
        id: collections.Counter() for id in threads
    }
    used = {id: _cpu_ns(thread) for id, thread in threads.items()}
    taken_ns = time.monotonic_ns()
    for _ in range(request.samples):
        time.sleep(request.interval_ms / 1000)
        frames = sys._current_frames()
        elapsed_ns, taken_ns = time.monotonic_ns() - taken_ns, time.monotonic_ns()
        for id, thread in threads.items():
            frame = frames.get(thread.ident or 0)
            if frame is None or not thread.is_alive():
                continue
            before, used[id] = used[id], _cpu_ns(thread)
            seen[id][_calls(frame, request.depth), used[id] - before >= elapsed_ns / 2] += 1
        # A frame keeps all its variables alive.
        del frames, frame
    return tuple(TaskStacks(id, _counted(counts)) for id, counts in seen.items())


def _counted(counts: collections.Counter[tuple[tuple[str, ...], bool]]) -> tuple[SampledStack, ...]:
    stacks = dict.fromkeys(frames for frames, _ in counts)
    return tuple(SampledStack(frames, counts[frames, True], counts[frames, False]) for frames in stacks)


def _calls(frame: FrameType | None, depth: int) -> tuple[str, ...]:
    found: list[str] = []
    while frame is not None and len(found) < depth:
        module = frame.f_globals.get("__name__", "?")
        found.append(f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(reversed(found))


def _cpu_ns(thread: threading.Thread) -> int:
    """The processor time of a thread so far; 0 where the system does not tell."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/schedstat") as stream:
            return int(stream.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
