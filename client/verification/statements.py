"""VERIFY and VERIFY JOB as statements of a session."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.client.statements.jobs import known_job
from sqlstream.client.verification.outcome import Verification, verification_text
from sqlstream.client.verification.verify import verify_sinks
from sqlstream.errors import UserError
from sqlstream.planner.bind.sink import bind_sinks
from sqlstream.planner.dialect.statements import Verify, VerifyJob

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Text
    from sqlstream.client.sessions.planning import PlanningSession


def execute_verify(statement: Verify | VerifyJob, session: PlanningSession) -> Text:
    """The answer as text, for each INSERT of a statement set. It is a failure when there is a difference."""
    from sqlstream.client.sessions.outcomes import Text

    found = verifications(statement, session)
    texts = [verification_text(each) for each in found]
    if len(found) > 1:
        texts = [f"{each.statement}: {text}" for each, text in zip(found, texts, strict=True)]
    return Text("\n\n".join(texts), is_failure=not all(each.is_equal for each in found))


def verifications(statement: Verify | VerifyJob, session: PlanningSession) -> list[Verification]:
    """What VERIFY has found, for each sink of the statement. UserError SS6009 for an unknown job, SS6039 for one that another
    session has submitted, and what `verify_sinks` raises."""
    context = session.bind_context()
    if isinstance(statement, Verify):
        return verify_sinks(session, bind_sinks(statement.target, context), context, statement.engine)
    known_job(statement.job_id, statement.id_span, session.cluster)
    submitted = session.submitted(statement.job_id)
    if submitted is None:
        raise UserError(
            "SS6039",
            f'the statement of job "{statement.job_id}" is not known here, so it cannot be verified',
            span=statement.id_span,
        )
    try:
        context = dataclasses.replace(context, config=submitted.config)
        return verify_sinks(session, submitted.sinks, context, statement.engine)
    except UserError as error:
        # Its place is one in the text of the job, which is not at hand.
        error.span = statement.id_span
        raise
