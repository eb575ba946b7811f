"""What a changed statement would go on with of a savepoint, operator by operator, and why: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.graph.state_identity import ASPECTS, Aspect, StateIdentity
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity
from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.lineage import Claim
from sqlstream.runtime.jobmanager.checkpoints.restored_state import restorable_checkpoint
from sqlstream.runtime.jobmanager.checkpoints.state_claims import claims_of, unclaimed, without_state
from sqlstream.specs import (
    AggregatePhase,
    BackfillSpec,
    DeduplicateSpec,
    GroupAggregateSpec,
    JoinSpec,
    RankSpec,
    SinkSpec,
    SourceSpec,
    Spec,
    ValuesSpec,
    WatermarkAssignerSpec,
    WindowAggregateSpec,
    WindowKind,
    WindowRankSpec,
)

IGNORES = "execution.state-recovery.ignore-unclaimed-state"
TTL = "table.exec.state.ttl"

KEPT, EVOLVED, EMPTY, DROPPED = "kept", "evolved", "begins empty", "dropped"
GOES_ON, ANEW = "goes on", "begins anew"
_SOURCES = SourceSpec | ValuesSpec | BackfillSpec

SAME, CHANGED, NEW = "same", "changed", "new"


class Finding(msgspec.Struct, frozen=True):
    """One operator. `kind` is "state", "source" or "table", and `verdict` one of the words above; `before` is the operator of the
    savepoint whose state it has, or in whose place it is. `effect` says what becomes of rows that are in a table. `nbytes` is the
    size of the state, -1 where unknown."""

    kind: str
    verdict: str
    operator: str
    title: str
    before: str = ""
    reasons: tuple[str, ...] = ()
    effect: str = ""
    nbytes: int = -1


class Upgrade(msgspec.Struct, frozen=True):
    """`refusals` say why the statement would not start, `advice` is what one can do, and `steps` how the job is upgraded."""

    place: str
    is_refused: bool
    findings: tuple[Finding, ...]
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def of(self, kind: str) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.kind == kind)


def upgrade_of(saved: StoredCheckpoint, job: JobGraph, place: str, sizes: Mapping[int, int]) -> Upgrade:
    """What the job would go on with; `sizes` are the bytes of saved operators, by their ids."""
    manifest = saved.manifest
    refusals: list[str] = []
    advice: list[str] = []
    try:
        restorable_checkpoint(saved, job, is_owned=False, ignores_unclaimed=True)
        claims = claims_of(manifest, job)
    except SqlStreamError as error:
        told = ErrorInfo.of(error)
        refusal = f"{told.code}: {told.message}"
        return Upgrade(place, True, (), (refusal,), advice=(told.hint,) if told.hint else ())
    lost, empty = unclaimed(manifest, claims), without_state(job, claims)
    pairs = _pairs(lost, empty)
    findings = tuple(_findings(job, claims, lost, pairs, sizes))
    if lost and not options.get(job.config, IGNORES):
        refusals.append("SS6204: no operator of the statement takes what is dropped")
        advice.append(f"SET '{IGNORES}' = 'true' leaves that out")
    advice += _advice(empty, pairs)
    notes = tuple(_notes(manifest, job, findings))
    return Upgrade(place, bool(refusals), findings, tuple(refusals), notes, tuple(advice))


def _findings(
    job: JobGraph,
    claims: Mapping[int, Claim],
    lost: Iterable[OperatorIdentity],
    pairs: Mapping[int, OperatorIdentity],
    sizes: Mapping[int, int],
) -> Iterator[Finding]:
    """In the order of the plan, then what is dropped."""
    stands_in = {old.id: id for id, old in pairs.items()}
    present = _stateful(job)
    empty = [id for id in present if id not in claims]
    since = ", with the rows behind the savepoint alone" if _all_sources_go_on(job, claims) else ""
    for operator in (o for v in job.vertices for o in v.operators):
        state, claim = operator.state, claims.get(operator.id)
        if state is None or isinstance(operator.spec, WatermarkAssignerSpec):
            continue
        old = claim.operator if claim is not None else pairs.get(operator.id)
        before = old.title if old is not None else ""
        nbytes = sizes.get(old.id, -1) if old is not None else -1
        if isinstance(operator.spec, SinkSpec):
            begun = [s.sql for o in empty if (s := present[o].state) is not None and _feeds_some(s, state)]
            if begun:
                begun = [f"state begins empty{since}: {'; '.join(begun)}"]
            verdict, reasons, effect = _of_table(operator, old, begun)
            yield Finding("table", verdict, operator.name, operator.spec.table, before, reasons, effect)
        elif isinstance(operator.spec, _SOURCES):
            is_shared = claim is not None and list(claims.values()).count(claim) > 1
            verdict, reasons = _of_source(state, claim, old, is_shared)
            yield Finding("source", verdict, operator.name, state.title, before, reasons)
        elif claim is None:
            reasons = _why_empty(state, old)
            yield Finding("state", EMPTY, operator.name, state.title, before, reasons, nbytes=nbytes)
        else:
            verdict, reasons = _of_kept(state, claim.operator.state)
            yield Finding("state", verdict, operator.name, state.title, before, reasons, nbytes=nbytes)
    for old in lost:
        kind = "source" if old.name.startswith("Source") else "state"
        new = present[stands_in[old.id]].state if stands_in.get(old.id) in present else None
        why = (
            "no operator of the statement is like it"
            if new is None
            else f"{new.sql} stands in its place, and begins empty",
        )
        yield Finding(kind, DROPPED, old.name, old.title, "", why, nbytes=sizes.get(old.id, -1))


def _stateful(job: JobGraph) -> dict[int, ChainedOperator]:
    """What keeps rows."""
    others = SinkSpec | WatermarkAssignerSpec | _SOURCES
    return {
        o.id: o
        for v in job.vertices
        for o in v.operators
        if o.state is not None and not isinstance(o.spec, others)
    }


def _feeds_some(state: StateIdentity, sink: StateIdentity) -> bool:
    return not set(sink.feeds).isdisjoint(state.feeds)


def _all_sources_go_on(job: JobGraph, claims: Mapping[int, Claim]) -> bool:
    sources = (o for v in job.vertices for o in v.operators if isinstance(o.spec, _SOURCES))
    return all(o.id in claims for o in sources)


def _why_empty(state: StateIdentity, old: OperatorIdentity | None) -> tuple[str, ...]:
    if old is None:
        return ("there was no operator like it",)
    if old.state is None or not old.state.aspects:
        return (f"it was {old.title}",)
    return tuple(_differences(old.state, state)) or ("it is computed in another way",)


def _of_kept(state: StateIdentity, old: StateIdentity | None) -> tuple[str, tuple[str, ...]]:
    if old is None:
        return KEPT, ()
    reasons = []
    for before, after in _compared(old, state):
        if after.name == "filter" and (added := _missing(after.parts, before.parts)):
            reasons.append(f"keys that {_list(added)} leaves out keep their state, and are read no more")
    orders = (n.order(o) for o, n in zip(old.rows, state.rows, strict=True))
    if old.parts != state.parts or any(order != tuple(range(len(order))) for order in orders):
        return EVOLVED, ("its columns get other names or places", *reasons)
    return KEPT, tuple(reasons)


def _of_source(
    state: StateIdentity, claim: Claim | None, old: OperatorIdentity | None, is_shared: bool
) -> tuple[str, tuple[str, ...]]:
    if claim is None:
        if old is None:
            return ANEW, ("the savepoint has no position in this table",)
        return ANEW, ("its position counts rows, or is of files, of other options or another filter",)
    was = claim.operator.state
    if is_shared and was is not None and set(state.feeds).isdisjoint(was.feeds):
        return GOES_ON, (f"where {was.title} stands: what it feeds alone has not seen the rows before",)
    return GOES_ON, ()


def _of_table(
    sink: ChainedOperator, old: OperatorIdentity | None, begun: list[str]
) -> tuple[str, tuple[str, ...], str]:
    """Whether rows mean what they meant, and what becomes of those that are there."""
    if sink.state is None:
        return SAME, (), ""
    if old is None or old.state is None:
        return NEW, (), "it gets what changes from the upgrade on; rows of before are not written into it"
    found = [*_differences(old.state, sink.state), *begun]
    if not found:
        return SAME, (), ""
    until = "as they are" if sink.input_modes[0].is_insert_only else "until their keys change"
    before = "rows from before the upgrade stay"
    for condition in _unequal(old.state, sink.state):
        if condition.name == "filter":
            before = "rows from before the upgrade were written under the old condition, and stay"
            if condition.parts and not sink.input_modes[0].is_insert_only:
                until = "until a row of their key passes the new one"
    return CHANGED, tuple(found), f"{before} {until}"


def _pairs(lost: Iterable[OperatorIdentity], empty: Iterable[ChainedOperator]) -> dict[int, OperatorIdentity]:
    """The dropped operator in whose place each one is that begins empty, by the id of that: the one of its family with the most
    in common."""
    scores = sorted(
        (
            (-_common(old.state, new.state), old.id, new.id, old)
            for old in lost
            for new in empty
            if _family(old.name, old.state) == _family(new.name, new.state)
        ),
        key=lambda found: found[:3],
    )
    pairs: dict[int, OperatorIdentity] = {}
    for _, _, new_id, old in scores:
        if new_id not in pairs and old not in pairs.values():
            pairs[new_id] = old
    return pairs


def _family(name: str, state: StateIdentity | None) -> str:
    """What kind of operator it is, by what it means: ROW_NUMBER may be computed by several."""
    names = {a.name for a in state.aspects} if state is not None else set()
    for aspect in ("calls", "kind", "limit", "order"):
        if aspect in names:
            return {"limit": "order"}.get(aspect, aspect)
    return name.partition("[")[0].removeprefix("Global")


def _common(old: StateIdentity | None, new: StateIdentity | None) -> int:
    if old is None or new is None:
        return 0
    parts = [{(a.name, a.side, digest) for a in s.aspects for digest, _ in a.parts} for s in (old, new)]
    return 2 * len(parts[0] & parts[1]) + (old.feeds == new.feeds)


# What differs between two states, in words.


def _differences(old: StateIdentity, new: StateIdentity) -> Iterator[str]:
    for before, after in _compared(old, new):
        if text := _difference(before, after):
            side = f" on the {after.side}" if after.side else ""
            yield f"{ASPECTS.get(after.name, after.name)}{side}: {text}"


def _unequal(old: StateIdentity, new: StateIdentity) -> list[Aspect]:
    return [after for before, after in _compared(old, new) if _difference(before, after)]


def _compared(old: StateIdentity, new: StateIdentity) -> Iterator[tuple[Aspect, Aspect]]:
    """The same aspects of both, with no parts where one does not have it."""
    before, after = ({(a.name, a.side): a for a in s.aspects} for s in (old, new))
    for name, side in dict.fromkeys((*before, *after)):
        nothing = Aspect(name, (), side)
        yield before.get((name, side), nothing), after.get((name, side), nothing)


def _difference(old: Aspect, new: Aspect) -> str:
    gone, come = _missing(old.parts, new.parts), _missing(new.parts, old.parts)
    if not gone and not come:
        return (
            f"in another order, {_list(new.parts)}" if new.name == "keys" and old.parts != new.parts else ""
        )
    if not gone:
        return f"{_list(come)} is new"
    if not come:
        return f"{_list(gone)} is gone"
    if _list(gone) == _list(come):
        return f"{_list(come)} {'reads other rows' if new.name == 'rows' else 'is computed in another way'}"
    return f"{_list(come)} instead of {_list(gone)}"


def _missing(
    parts: tuple[tuple[str, str], ...], others: tuple[tuple[str, str], ...]
) -> list[tuple[str, str]]:
    """Those of `parts` that are not among the others, as often as they are there more."""
    left = Counter(digest for digest, _ in others)
    found = []
    for digest, text in parts:
        if left[digest]:
            left[digest] -= 1
        else:
            found.append((digest, text))
    return found


def _list(parts: Iterable[tuple[str, str]]) -> str:
    return ", ".join(text for _, text in parts)


# What follows for who upgrades.


def _notes(manifest: CheckpointManifest, job: JobGraph, findings: tuple[Finding, ...]) -> Iterator[str]:
    before = {t for v in manifest.vertices for o in v.operators if o.state is not None for t in o.state.feeds}
    after = {t for v in job.vertices for o in v.operators if o.state is not None for t in o.state.feeds}
    for table in sorted(before - after - {""}):
        yield f"table {table} is written no more"
    if any(f.kind == "state" and f.verdict in (KEPT, EVOLVED) for f in findings):
        ttls = [options.get(config, TTL) for config in (manifest.config, job.config)]
        if ttls[0] != ttls[1]:
            yield f"{TTL} is another: it counts from the last change of an entry, also of one that is kept"
    files = {a.name: a.digest for a in manifest.artifacts}
    for artifact in job.artifacts:
        if files.get(artifact.name, artifact.digest) != artifact.digest:
            yield f'file "{artifact.name}" is another: rows of before were computed with that of then'


def _advice(empty: Iterable[ChainedOperator], pairs: Mapping[int, OperatorIdentity]) -> Iterator[str]:
    found: dict[str, None] = {}
    for operator in empty:
        state, old = operator.state, pairs.get(operator.id)
        if state is None or isinstance(operator.spec, _SOURCES):
            continue
        differs = {a.name for a in _unequal(old.state, state)} if old is not None and old.state else set()
        if differs == {"filter"}:
            found[
                f"{state.sql} keeps its state when the filter below it stays, and more is filtered above it"
            ] = None
        if differs == {"calls"}:
            beside = "in a statement set, an INSERT of its own for the new calls begins empty"
            found[f"{beside}, while the one of before keeps its state"] = None
        if _is_built_from_history(operator.spec):
            found["INSERT … WITH BACKFILL FROM a history of the table begins with the rows of before"] = None
        found["without the savepoint the statement begins with the first rows of its tables"] = None
    yield from found


def _is_built_from_history(spec: Spec | None) -> bool:
    """Whether WITH BACKFILL can build the state of such an operator."""
    match spec:
        case WindowAggregateSpec() if spec.window.kind is WindowKind.SESSION:
            return False
        case GroupAggregateSpec() | WindowAggregateSpec():
            return spec.phase is AggregatePhase.GLOBAL
        case RankSpec() | WindowRankSpec() | DeduplicateSpec() | JoinSpec():
            return True
    return False
