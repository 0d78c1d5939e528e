import json

from common.benchmarks import report
from common.benchmarks.report import Bench, Row

ROWS = [
    Row("replay/loop", 4000.0, "loops/s", "cpprb 11", 3200.0),
    Row("replay/bytes_per_raw_byte", 1.0812, "B/B"),
]


def test_json_has_exactly_the_documented_fields(tmp_path):
    path = tmp_path / "rows.json"
    report.write_json(path, ROWS)
    first, second = json.loads(path.read_text())
    assert first == {
        "name": "replay/loop",
        "value": 4000.0,
        "unit": "loops/s",
        "peer": "cpprb 11",
        "peer_value": 3200.0,
        "ratio": 1.25,
    }
    assert [second[field] for field in ("peer", "peer_value", "ratio")] == [None] * 3
    assert report.read_json(path) == ROWS
    assert [file.name for file in tmp_path.iterdir()] == ["rows.json"]


def test_table_is_aligned():
    lines = report.table(ROWS).splitlines()
    end = lines[0].index("value") + len("value")
    assert [line[:end].split()[-1] for line in lines] == ["value", "4,000", "1.08"]
    assert all(line[end] == " " for line in lines)
    assert lines[1].endswith("1.25") and lines[2].endswith("-")


def test_measurements_take_turns_and_returns_medians(capsys):
    order, slow, fast = [], iter([99, 1, 5, 2]), iter([99, 7, 6, 100])

    def measure(name, values):
        order.append(name)
        return next(values)

    medians = Bench(None, repeats=3).in_turns(
        "title", {"a": lambda: measure("a", slow), "b": lambda: measure("b", fast)}
    )
    assert order == ["a", "b"] * 4
    assert medians == {"a": 2, "b": 7}  # the first values are the warm-up's
    captured = capsys.readouterr()
    assert not captured.out and "title 3/3" in captured.err


def test_a_row_is_of_medians_also_of_several_numbers_at_once():
    numbers = {"ours": iter([(3.0, 30.0), (1.0, 10.0), (2.0, 99.0)]), "peer": iter([4.0] * 3)}
    measures = {name: lambda values=values: next(values) for name, values in numbers.items()}
    medians = Bench(None, repeats=3).in_turns("title", measures, warm_up=False)
    assert medians.row("a/b", "s", "ours", "peer") == Row("a/b", 2.0, "s", "peer", 4.0)
    assert medians.row("a/b", "s", "ours", "peer", "it") == Row("a/b", 2.0, "s", "it", 4.0)
    assert medians.row("a/b", "s", "ours", "absent", part=1) == Row("a/b", 30.0, "s")
