"""The beginning of text files, in whole lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.inference import samples
from sqlstream.runtime.inference.samples import _first_lines, _whole_lines, read_samples
from sqlstream.spi.files import FileStatus


def written(directory: Path, *contents: bytes) -> list[FileStatus]:
    found = []
    for number, content in enumerate(contents):
        path = directory / f"{number}.csv"
        path.write_bytes(content)
        found.append(FileStatus(str(path), len(content), 0))
    return found


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        (b"", 1, b""),
        (b"a", 1, b"a"),
        (b"a\n", 1, b"a\n"),
        (b"a\nb", 1, b"a\n"),
        (b"a\nb", 2, b"a\nb"),
        (b"a\nb\nc\n", 2, b"a\nb\n"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b'a\n"b\nc"\nd\n', 2, b"a\n"),
        (b'"a\nb"\nc\n', 1, b'"a\n'),
    ],
)
def test_the_first_lines_end_where_no_quote_is_open(text: bytes, count: int, expected: bytes) -> None:
    assert _first_lines(text, count) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a\nb", b"a\n"),
        (b"ab", b""),
        (b'a\n"b"\nc', b'a\n"b"\n'),
        (b'a\n"b\nc', b"a\n"),
        (b'a\n"b""\n"c\nd', b'a\n"b""\n"c\n'),
        (b'a\n"b""\nc\nd', b"a\n"),
        (b'"b\nc', b'"b\n'),
    ],
)
def test_a_line_that_is_cut_is_left_out_with_its_quoted_value(text: bytes, expected: bytes) -> None:
    assert _whole_lines(text) == expected


def test_files_are_read_with_their_paths_without_marks_and_empty_ones(tmp_path: Path) -> None:
    packed = tmp_path / "p.csv.gz"
    packed.write_bytes(gzip.compress(b"g\n1\n"))
    found = [*written(tmp_path, b"\xef\xbb\xbfa\n1\n", b" \n", b"b"), FileStatus(str(packed), 1, 0)]
    assert read_samples(found, LocalFiles()) == [
        (f"{tmp_path}/0.csv", b"a\n1\n"),
        (f"{tmp_path}/2.csv", b"b"),
        (str(packed), b"g\n1\n"),
    ]


def test_the_bounds_are_shared_by_the_files_that_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "FILES_MAX", 2)
    monkeypatch.setattr(samples, "SAMPLE_LINES", 4)
    monkeypatch.setattr(samples, "SAMPLE_BYTES", 20)
    found = written(tmp_path, b"1\n2\n3\n", b"1234567\n89\n0", b"x\n")
    assert [sample for _, sample in read_samples(found, LocalFiles())] == [b"1\n2\n", b"1234567\n"]
    exact = written(tmp_path, b"12345678\n0", b"1234567890\n")
    assert [sample for _, sample in read_samples(exact[:1], LocalFiles())] == [b"12345678\n0"]
    with pytest.raises(UserError, match="its first line is longer than 10 bytes"):
        read_samples(exact, LocalFiles())


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ((b"",), "it is empty"),
        ((b" \n", b""), "its files are empty"),
        ((b"caf\xe9\n",), "it is no text in UTF-8"),
    ],
)
def test_files_without_text_are_refused(tmp_path: Path, contents: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        read_samples(written(tmp_path, *contents), LocalFiles())
    assert caught.value.code == "SS5024"
