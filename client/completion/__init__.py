"""Completion of SQL: what the name at a cursor may become."""

from sqlstream.client.completion.candidates import Candidate, CandidateKind, Name, OptionName, Vocabulary
from sqlstream.client.completion.complete import complete

__all__ = ["Candidate", "CandidateKind", "Name", "OptionName", "Vocabulary", "complete"]
