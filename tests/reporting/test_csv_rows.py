"""Tests of common.reporting.csv_rows."""

import errno
import fcntl
import io
import os
from pathlib import Path
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from common.reporting import csv_rows
from common.reporting.csv_rows import (
    CsvError,
    CsvRows,
    GrowingRows,
    NewRows,
    last_row,
    read_numbers,
    read_rows,
)

COLUMNS = ("writer", "number", "text")


def _start(code: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])


def _line_widths(path) -> set[int]:
    """The number of cells of each line, of texts without quotes."""
    return {line.count(",") + 1 for line in path.read_text().splitlines()}


def test_processes_that_start_at_once_append_whole_rows(tmp_path):
    path = tmp_path / "acting.csv"
    code = """
import sys
from common.reporting.csv_rows import CsvRows
rows = CsvRows(sys.argv[1], ("writer", "number", "text"))
for number in range(200):
    rows.append({"text": "x" * (number % 50), "writer": int(sys.argv[2]), "number": number})
"""
    writers = [_start(code, path, writer) for writer in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    assert path.read_text().count("writer,number,text\n") == 1
    assert _line_widths(path) == {3}
    rows = read_rows(path)
    assert len(rows) == 4 * 200
    for _, of_writer in rows.groupby("writer"):
        assert of_writer["number"].tolist() == list(range(200))


def test_a_writer_waits_for_one_that_is_in_the_middle_of_the_header(tmp_path):
    path = tmp_path / "rows.csv"
    code = """
import sys
from common.reporting.csv_rows import CsvRows
print("starts", flush=True)
CsvRows(sys.argv[1], ("writer", "number", "text")).append({"writer": 1, "number": 2, "text": ""})
"""
    with open(path, "wb", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"writer,num")
        command = [sys.executable, "-c", code, str(path)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"starts\n"
        time.sleep(0.3)
        assert path.read_bytes() == b"writer,num"
        file.write(b"ber,text\n")
    assert writer.wait(timeout=30) == 0
    writer.stdout.close()
    assert path.read_text() == "writer,number,text\n1,2,\n"


@pytest.mark.parametrize("torn", ["1", "1,2,", '1,2,"half', f"1,2,{'x' * 50_000}"], ids=len)
def test_torn_last_line_is_left_out_and_repaired(tmp_path, torn):
    path = tmp_path / "rows.csv"
    rows = CsvRows(path, COLUMNS)
    rows.append({"writer": 0, "number": 1, "text": "a"})
    with open(path, "a") as file:
        file.write(torn)
    assert read_rows(path)["number"].tolist() == [1]
    assert last_row(path)["number"] == 1
    rows.append({"writer": 0, "number": 2, "text": "b"})
    assert path.read_text() == "writer,number,text\n0,1,a\n0,2,b\n"


def test_a_malformed_line_is_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("writer,number,text\n0,1,a\n0,2\n0,3,c\n")
    with pytest.raises(CsvError, match="rows.csv:3: 2 cells for 3 columns"):
        read_rows(path)
    path.write_text("writer,number,text\n0,1,a\n0,2\n")
    with pytest.raises(CsvError, match="rows.csv: in the last line: 2 cells for 3 columns"):
        last_row(path)
    with pytest.raises(CsvError, match="cannot be used .Is a directory"):
        last_row(tmp_path)
    with pytest.raises(CsvError, match="cannot be used .Is a directory"):
        CsvRows(tmp_path, COLUMNS)


def test_a_last_row_without_the_numbers_asked_for_is_one_line(tmp_path):
    path = tmp_path / "learner.csv"
    for row, name, found in (
        ("0,many,a", "number", "'many'"),
        ("0,,a", "number", "''"),
        (",,", "writer", "''"),
    ):
        path.write_text(f"writer,number,text\n0,1,a\n{row}\n")
        with pytest.raises(CsvError, match=f"in the last line: {name} is {found}") as caught:
            last_row(path, [name])
        message = str(caught.value)
        assert str(path) in message and "remove the line" in message and "\n" not in message
    with pytest.raises(CsvError, match="csv:1: the header has no column frames"):
        last_row(path, ["frames"])
    path.write_text("writer,number,text\n0,,a\n")
    assert last_row(path, ["writer"]) == {"writer": 0, "number": None, "text": "a"}


def test_numbers_are_checked(tmp_path):
    path = tmp_path / "rows.csv"
    assert list(read_numbers(path, ["number"])) == ["number"] and read_numbers(path, ["a"]).empty
    path.write_text("writer,number,text\n0,1,a\n0,,a\n0,nan,a\n1,2.5,a\n0,to")
    numbers = read_numbers(path, ["number", "writer"], {"text": "a"})
    assert numbers.fillna(-1).to_numpy().tolist() == [[1, 0], [-1, 0], [-1, 0], [2.5, 1]]
    for columns, identity, complaint in (
        (["number", "frames"], {}, "1: the header has no column frames"),
        (["number"], {"writer": "0"}, "5: writer is 1, not 0"),
        (["text"], {}, "2: text is 'a', not a number"),
    ):
        with pytest.raises(CsvError, match=f"rows.csv:{complaint}"):
            read_numbers(path, columns, identity)


def test_torn_header_is_written_anew(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("writer,num")
    assert last_row(path) is None
    with pytest.raises(ValueError, match="no header"):
        read_rows(path)
    CsvRows(path, COLUMNS)
    assert path.read_text() == "writer,number,text\n"
    assert read_rows(path).empty
    assert last_row(path) is None


@pytest.mark.parametrize("code, taken", [(errno.ENOSPC, 0), (errno.EDQUOT, 5), (errno.EIO, 5)])
def test_a_full_disk_skips_the_row_and_another_error_is_raised(tmp_path, monkeypatch, taken, code):
    path, write = tmp_path / "rows.csv", os.write
    rows = CsvRows(path, COLUMNS)
    rows.append({"writer": 0, "number": 1, "text": "a"})
    before = path.read_bytes()
    parts = [taken] if taken else []

    def fail(file, data):
        if parts:
            return write(file, data[: parts.pop()])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", fail)
    row = {"writer": 0, "number": 2, "text": "skipped"}
    if code == errno.EIO:
        with pytest.raises(OSError, match="cannot append a row: .*rows.csv"):
            rows.append(row)
    else:
        rows.append(row)
    assert path.read_bytes() == before
    monkeypatch.undo()
    rows.append({"writer": 0, "number": 3, "text": "b"})
    assert read_rows(path)["number"].tolist() == [1, 3]


def test_a_column_is_added_for_each_new_name(tmp_path):
    path = tmp_path / "rows.csv"
    rows = GrowingRows(path, COLUMNS)
    rows.append({"writer": 0, "number": 1, "text": "a,b"})
    rows.append({"writer": 0, "number": 2, "text": "c", "loss": 0.5, "norm": 3})
    rows.append({"number": 3})
    expected = 'writer,number,text,loss,norm\n0,1,"a,b",,\n0,2,c,0.5,3\n,3,,,\n'
    assert path.read_text() == expected and list(tmp_path.iterdir()) == [path]
    path.write_text(expected + "0,4,to")  # killed
    rows = GrowingRows(path, COLUMNS)
    rows.append({"number": 5, "norm": 4})
    rows.append({"number": 6, "more": 7})
    lines = path.read_text().splitlines()
    assert lines[0] == "writer,number,text,loss,norm,more"
    assert lines[-3:] == [",3,,,,", ",5,,,4,", ",6,,,,7"]
    path.write_text("writer,text,number\n")
    with pytest.raises(CsvError, match="writer,text,number.*writer,number,text"):
        GrowingRows(path, COLUMNS)
    with pytest.raises(CsvError, match="cannot be used .Is a directory"):
        GrowingRows(tmp_path, COLUMNS)


def test_a_table_is_read_at_one_moment_though_a_column_comes(tmp_path, monkeypatch):
    """It had the rows of one moment and the columns of a later one."""
    path = tmp_path / "learner.csv"
    growing = GrowingRows(path, ("number",))
    growing.append({"number": 1})
    numbered = csv_rows.numbered_rows

    def read_and_grow(path):
        rows = numbered(path)
        growing.append({"number": 2, "loss": 0.5})
        return rows

    monkeypatch.setattr(csv_rows, "numbered_rows", read_and_grow)
    assert read_rows(path).to_dict("list") == {"number": [1]}
    monkeypatch.undo()
    assert list(read_rows(path)) == ["number", "loss"]


def test_a_disk_that_is_full_when_a_column_comes_skips_the_row(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    rows = GrowingRows(path, COLUMNS)
    rows.append({"writer": 0, "number": 1, "text": "a"})
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    rows.append({"loss": 1})
    monkeypatch.undo()
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    rows.append({"writer": 0, "number": 3, "loss": 2})
    assert read_rows(path)["number"].tolist() == [1, 3]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES], ids=errno.errorcode.get)
def test_a_file_system_that_takes_nothing_is_one_line(tmp_path, monkeypatch, code):
    rows = CsvRows(tmp_path / "rows.csv", COLUMNS)

    def refuse(path, *_):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(os, "open", refuse)
    for use in (
        lambda: CsvRows(tmp_path / "b.csv", COLUMNS),
        lambda: rows.append(dict.fromkeys(COLUMNS)),
    ):
        with pytest.raises(CsvError, match=f"csv: cannot be used .{os.strerror(code)}"):
            use()


def test_a_row_is_written_whole_where_the_system_takes_it_in_parts(tmp_path, monkeypatch):
    rows, write = CsvRows(tmp_path / "rows.csv", COLUMNS), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    rows.append({"writer": 0, "number": 1, "text": "whole"})
    assert last_row(tmp_path / "rows.csv") == {"writer": 0, "number": 1, "text": "whole"}


def test_a_file_whose_directory_was_moved_is_told_and_not_made_again(tmp_path):
    path = tmp_path / "run" / "rows.csv"
    path.parent.mkdir()
    rows = CsvRows(path, COLUMNS)
    path.parent.rename(tmp_path / "elsewhere")
    with pytest.raises(
        CsvError, match="rows.csv cannot be written, .* give its new path as --workdir"
    ):
        rows.append({"writer": 0, "number": 1, "text": "a"})
    assert not path.parent.exists()


def test_another_header_is_refused_with_file_and_columns(tmp_path):
    path = tmp_path / "learner.csv"
    path.write_text("wall_seconds,loss\n1,2\n")
    with pytest.raises(ValueError, match="learner.csv.*wall_seconds,loss.*writer,number,text"):
        CsvRows(path, COLUMNS)
    assert path.read_text() == "wall_seconds,loss\n1,2\n"
    path.write_text("writer,number,text,more\n")
    with pytest.raises(ValueError, match="more"):
        CsvRows(path, COLUMNS)


@pytest.mark.parametrize(
    "row, words",
    [
        ({"writer": 0, "number": 1, "text": "a\nb"}, r"text is 'a\\nb', not a scalar"),
        ({"writer": 0, "number": np.zeros(2), "text": ""}, "number is .* not a scalar"),
    ],
)
def test_bad_row_is_refused(tmp_path, row, words):
    path = tmp_path / "rows.csv"
    rows = CsvRows(path, COLUMNS)
    with pytest.raises(ValueError, match=words):
        rows.append(row)
    assert path.read_text() == "writer,number,text\n"


def test_values_come_back(tmp_path):
    path = tmp_path / "rows.csv"
    text = 'control:cartpole, "swingup"'
    row = {"int64": 1 << 40, "float32": 0.1, "float64": 1 / 3, "none": None, "text": text}
    written = {"int64": np.int64(1 << 40), "float32": np.float32(0.1), "nan": float("nan")}
    CsvRows(path, [*row, "nan"]).append(row | written)
    found = last_row(path)
    assert np.isnan(found.pop("nan")) and found == row
    frame = read_rows(path)
    assert frame["int64"].dtype == np.int64 and frame["text"].tolist() == [text]
    assert frame[["none", "nan"]].isna().all(axis=None)


def test_last_row_reads_the_tail_of_a_long_file(tmp_path):
    path = tmp_path / "rows.csv"
    assert last_row(path) is None
    CsvRows(path, COLUMNS)
    with open(path, "a") as file:
        file.writelines(f"0,{number},{'x' * 40}\n" for number in range(200_000))
    start = time.perf_counter()
    assert last_row(path) == {"writer": 0, "number": 199_999, "text": "x" * 40}
    assert time.perf_counter() - start < 0.1
    assert os.path.getsize(path) > 5_000_000


@pytest.mark.parametrize("begun", ["", "writer,nu"])
def test_a_file_that_gets_its_header_while_it_is_read_has_no_row_yet(tmp_path, monkeypatch, begun):
    path, opened = tmp_path / "rows.csv", []
    path.write_text(begun)

    class Slow(io.FileIO):
        def readline(self, *arguments):
            line = super().readline(*arguments)
            if not opened:
                opened.append(self)
                CsvRows(path, COLUMNS).append({"writer": 1, "number": 7, "text": "a"})
            return line

    monkeypatch.setattr(csv_rows, "open", Slow, raising=False)
    assert last_row(path) is None
    assert opened and last_row(path) == {"writer": 1, "number": 7, "text": "a"}
    opened.clear()
    path.write_text(begun)
    new = NewRows(path, "number")
    assert opened and new.read() == [(7.0,)]


def test_new_numbers_are_those_of_whole_rows_since_the_last_call(tmp_path):
    path = tmp_path / "rows.csv"
    early = NewRows(path, "number")
    assert early.read() == []
    rows = CsvRows(path, COLUMNS)
    assert early.read() == []
    rows.append({"writer": 0, "number": 1.5, "text": ""})
    late = NewRows(path, "number")
    rows.append({"writer": 1, "number": 2, "text": ""})
    assert (early.read(), late.read()) == ([(1.5,), (2.0,)], [(2.0,)])
    with open(path, "a") as file:
        file.write("0,3,\n0,4")
    assert (early.read(), late.read()) == ([(3.0,)], [(3.0,)])
    with open(path, "a") as file:
        file.write("5,\n0,\n")
    with pytest.raises(CsvError, match="rows.csv: in a new line: 2 cells for 3 columns"):
        early.read()
    rows.append({"writer": 1, "number": None, "text": ""})
    with pytest.raises(CsvError, match="rows.csv: in a new line: number is ''"):
        early.read()
    rows.append({"writer": 1, "number": 6, "text": ""})
    assert early.read() == [(6.0,)]
    both = NewRows(path, "number", "writer")
    rows.append({"writer": 2, "number": 7, "text": ""})
    assert both.read() == [(7.0, 2.0)]


def test_rows_that_follow_a_torn_line_are_new(tmp_path):
    path = tmp_path / "rows.csv"
    rows = CsvRows(path, COLUMNS)
    rows.append({"writer": 1, "number": 1, "text": "a"})
    with open(path, "a") as file:
        file.write("1,23456")  # the power failed
    new = NewRows(path, "number")
    assert new.read() == []
    for number in (3, 4):  # the first one repairs the file
        rows.append({"writer": 1, "number": number, "text": "long enough"})
    assert new.read() == [(3,), (4,)]


@pytest.mark.parametrize(
    "file, columns",
    [
        ("evaluator.csv", csv_rows.EVALUATOR),
        ("acting.csv", csv_rows.ACTING),
        ("learner.csv", csv_rows.LEARNER),
    ],
)
def test_the_glossary_explains_every_column_in_order(file, columns):
    glossary = (Path(__file__).parents[2] / "docs/files.md").read_text()
    section = glossary.partition(f"### `{file}`")[2].partition("\n###")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == columns
