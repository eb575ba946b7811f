"""What the shell says of a job that Ctrl-C cancels."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sqlstream.client.following.remarks import Remark, Severity
from sqlstream.client.shell.detached import DetachedJobs
from sqlstream.client.shell.display import Display, ShellDisplay
from sqlstream.client.shell.shell_answers import ShellAnswers
from sqlstream.errors import ExternalError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobStatusReply


@dataclasses.dataclass
class _Result:
    """A job that ends when it is cancelled, but not when it `is_stuck`."""

    job_id: str | None = "j1"
    told: tuple[str, ...] = ()
    is_stuck: bool = False
    is_lost: bool = False
    label: str = "INSERT INTO t"
    cancelled: int = 0

    def cancel(self) -> None:
        self.cancelled += 1

    def wait(self, _timeout_s: float) -> JobStatusReply:
        assert self.cancelled == 1
        if self.is_stuck:
            raise TimeoutError
        return JobStatusReply(str(self.job_id), JobStatus.CANCELED)

    def metrics(self) -> JobMetrics:
        if self.is_lost:
            raise ExternalError("SS6009", "the cluster has gone")
        return JobMetrics(str(self.job_id), JobStatus.CANCELED, {"numRecordsIn": 3}, {})

    def remarks(self) -> list[Remark]:
        return [Remark(Severity.WARNING, text) for text in self.told]


CANCELLED = "INSERT INTO t: job j1 was cancelled\n"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (_Result(), CANCELLED),
        (
            _Result(told=("2 rows were rejected", "1 late row")),
            "warning: 2 rows were rejected\nwarning: 1 late row\n" + CANCELLED,
        ),
        (_Result(told=("unknown",), is_lost=True), CANCELLED),
        (_Result(told=("unknown",), is_stuck=True), CANCELLED),
        (_Result(job_id=None), ""),
    ],
)
def test_a_cancelled_job_is_told_of_after_what_it_warns_of(
    result: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = ShellAnswers(None, ShellDisplay(is_interactive=False), DetachedJobs(None))  # type: ignore[arg-type]
    answers.cancel(result)
    out, err = capsys.readouterr()
    assert (out, err) == ("", said)
    assert result.cancelled == (0 if result.job_id is None else 1)


def test_quiet_leaves_out_notes_with_their_hints_and_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    remarks = [Remark(Severity.WARNING, "a", ("hint: b",)), Remark(Severity.NOTE, "c", ("hint: d",))]
    Display(is_quiet=True).warn(remarks)
    assert capsys.readouterr() == ("", "warning: a\nhint: b\n")
    Display().warn(remarks)
    assert capsys.readouterr() == ("", "warning: a\nhint: b\nnote: c\nhint: d\n")
