"""EXPLAIN: a statement set at every stage, as text."""

from __future__ import annotations

import json
from collections.abc import Callable

from sqlstream import specs
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.stream_graph import DEFAULT_GROUP, FORWARD, StreamGraph
from sqlstream.planner.physical.description import watermark_columns
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode
from sqlstream.planner.relational.node import explain_relation
from sqlstream.planner.relational.nodes import RelationalNode, Sink, TableScan
from sqlstream.planner.statements.show_create import show_create_table


def explain_plan(
    relational: tuple[Sink, ...],
    optimised: tuple[Sink, ...],
    physical: tuple[PhysicalNode, ...],
    stream_graph: StreamGraph,
    job_graph: JobGraph,
) -> str:
    """Sections as Flink prints them, then the two graphs. The line of a physical operator has the changelog mode of its
    output, the exchange to its consumer, its state, and where its watermark comes from."""
    sections = (
        *inferred_sections(relational),
        ("Abstract Syntax Tree", "\n".join(explain_relation(n) for n in relational)),
        ("Optimized Relational Plan", "\n".join(explain_relation(n) for n in optimised)),
        ("Optimized Physical Plan", explain_physical(physical)),
        ("Stream Graph", explain_stream_graph(stream_graph)),
        ("Job Graph", explain_job_graph(job_graph)),
    )
    return "\n\n".join(f"== {title} ==\n{text}" for title, text in sections) + "\n"


def inferred_sections(sinks: tuple[Sink, ...]) -> tuple[tuple[str, str], ...]:
    """The section with what was inferred from the files that the statement reads by their path, as statements that create such
    tables; none without such files."""
    tables: dict[str, None] = {}
    pending: list[RelationalNode] = list(reversed(sinks))
    seen = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, TableScan) and node.table.is_anonymous:
            tables[show_create_table(node.table).rstrip()] = None
        pending += reversed(node.inputs)
    return (("Inferred Tables", "\n\n".join(tables)),) if tables else ()


def explain_physical(
    sinks: tuple[PhysicalNode, ...], facts: Callable[[PhysicalNode], str] | None = None
) -> str:
    """One tree per sink. An operator with several consumers is printed once, and by its number after that. `facts` of a node
    stand in its line, by default its changelog mode, the origin of its watermark and its state."""
    printer = _PhysicalPrinter(sinks, facts)
    return "\n".join("\n".join(printer.lines(sink, "")) for sink in sinks)


class _PhysicalPrinter:
    def __init__(
        self, sinks: tuple[PhysicalNode, ...], facts: Callable[[PhysicalNode], str] | None = None
    ) -> None:
        self._facts = facts or self._properties
        self._watermarks: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self._printed: set[int] = set()
        readers: dict[int, int] = {}
        pending, seen = list(reversed(sinks)), set()
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            for physical_input in node.inputs:
                child = physical_input.node
                readers[id(child)] = readers.get(id(child), 0) + 1
                if readers[id(child)] == 2:
                    self._numbers[id(child)] = len(self._numbers) + 1
                pending.append(child)

    def lines(self, node: PhysicalNode, arrival: str) -> list[str]:
        number = self._numbers.get(id(node))
        if id(node) in self._printed:
            return [f"Reused(reference_id=[{number}]){arrival}"]
        self._printed.add(id(node))
        mark = f"(reuse_id=[{number}])" if number else ""
        lines = [f"{node.description}{mark}{arrival}{self._facts(node)}"]
        for position, physical_input in enumerate(node.inputs):
            is_last = position == len(node.inputs) - 1
            first, *rest = self.lines(physical_input.node, _arrival(physical_input))
            lines.append(("+- " if is_last else ":- ") + first)
            lines += [("   " if is_last else ":  ") + line for line in rest]
        return lines

    def _properties(self, node: PhysicalNode) -> str:
        facts = [f"changelogMode=[{str(node.settled_mode)[1:-1]}]", f"watermark=[{self._watermark(node)}]"]
        state = "" if node.spec is None else node.spec.kept_state()
        if state:
            facts.append(f"state=[{state}]")
        return " " + ", ".join(facts)

    def _watermark(self, node: PhysicalNode) -> str:
        if isinstance(node.spec, specs.WatermarkAssignerSpec):
            return f"from {', '.join(watermark_columns(node.spec, node.schema))}"
        if id(node) not in self._watermarks:
            is_snapshot = isinstance(node.spec, specs.SnapshotJoinSpec)
            inputs = node.inputs[:1] if is_snapshot else node.inputs
            inherited = {self._watermark(i.node) for i in inputs} - {"none"}
            found = inherited.pop() if len(inherited) == 1 else "least of inputs" if inherited else "none"
            self._watermarks[id(node)] = found
        return self._watermarks[id(node)]


def _arrival(physical_input: PhysicalInput) -> str:
    """The exchange is printed with the operator that sends into it."""
    exchange = physical_input.exchange
    if exchange == FORWARD:
        return ""
    if not exchange.keys:
        return f" => {exchange.kind.value}"
    names = ", ".join(physical_input.node.schema.names[k] for k in exchange.keys)
    return f" => {exchange.kind.value}[{names}]"


def explain_stream_graph(graph: StreamGraph) -> str:
    """One line per operator: parallelism, uid and inputs."""
    lines = []
    for node in graph.nodes:
        inputs = ", ".join(
            f"{e.source}:{e.exchange}" + (f"@{e.ordinal}" if e.ordinal else "") for e in node.inputs
        )
        source = f" <- {inputs}" if inputs else ""
        lines.append(f"{node.name} (parallelism {node.parallelism}, uid {node.uid}){source}")
    return "\n".join(lines)


def explain_job_graph(graph: JobGraph) -> str:
    """One block per vertex: its operators, then its input edges."""
    names = {v.id: v.name for v in graph.vertices}
    lines = [f"Job {graph.name}"]
    for vertex in graph.vertices:
        group = vertex.slot_sharing_group
        said = "" if group == DEFAULT_GROUP else f", slot sharing group {group}"
        lines.append(
            f"Vertex {vertex.id} (parallelism {vertex.parallelism}, key groups {vertex.max_parallelism}{said})"
        )
        lines.append(f"  {vertex.name}")
        for edge in graph.inputs_of(vertex.id):
            lines.append(
                f"  input {edge.ordinal}: {edge.exchange} from {names[edge.source]}, mode {edge.mode}"
            )
    return "\n".join(lines)


def explain_json(graph: StreamGraph) -> str:
    """Flink's JSON_EXECUTION_PLAN: one object per operator, with its predecessors."""
    nodes = [
        {
            "id": node.id,
            "type": node.name,
            "pact": "Operator" if node.inputs else "Data Source",
            "contents": node.description,
            "parallelism": node.parallelism,
            "predecessors": [
                {"id": e.source, "ship_strategy": e.exchange.kind.value, "side": _side(e.ordinal)}
                for e in node.inputs
            ],
        }
        for node in graph.nodes
    ]
    return json.dumps({"nodes": nodes}, indent=2, ensure_ascii=False)


def _side(ordinal: int) -> str:
    return ("first", "second")[ordinal] if ordinal < 2 else f"input {ordinal + 1}"
