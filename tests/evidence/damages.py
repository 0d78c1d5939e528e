"""Damages of files as disks, editors and other programs leave them; the same ones every time."""

from collections.abc import Iterator
import json
import random
from typing import Any

VALUES = (
    *("null", "true", "-1", "0.5", "9" * 5000, "NaN", "-Infinity", "[]", "[[0]]", '{"a": 1}'),
    *('"text"', '"' + "x" * 5000 + '"', '"a\\nb"'),
)
"""What may stand in the place of a JSON value."""
CELLS = ("", "text", "nan", "inf", "-1", "1e39", "9" * 5000, "9" * 25, '"', "\0", "\u0663,", "x\ry")
"""What may stand in the place of a number in a CSV file."""
_MARK = "the value"


def of_bytes(content: bytes, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Damages of any file."""
    chance, size = random.Random(seed), len(content)
    yield "empty", b""
    yield "only a line break", b"\n"
    for _ in range(4):
        end = chance.randrange(size)
        yield f"cut at {end}", content[:end]
    for _ in range(4):
        at = chance.randrange(size)
        yield f"NULs at {at}", content[:at] + bytes(9) + content[at + 9 :]
        yield f"no UTF-8 at {at}", content[:at] + b"\xff\xc3" + content[at:]
        yield f"other bit at {at}", content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    yield "NULs", bytes(size)
    yield "CR", content.replace(b"\n", b"\r")
    yield "CR and LF", content.replace(b"\n", b"\r\n")
    yield "UTF-16", content.decode(errors="replace").encode("utf-16")
    yield "twice", content * 2


def of_json(content: bytes, each: int = 5) -> Iterator[tuple[str, bytes]]:
    """Damages of a JSON file: at each key, `each` of `VALUES`, and no value."""
    yield from of_bytes(content)
    for value in ("null", "[]", "{}", "7", '"text"'):
        yield value, value.encode()
    chance = random.Random(1)
    tree = json.loads(content)
    for node, key in list(_places(tree)):
        before = node[key]
        node[key] = _MARK
        text = json.dumps(tree)
        for value in chance.sample(VALUES, each):
            yield f"{key}: {value:.20}", text.replace(f'"{_MARK}"', value).encode()
        del node[key]
        yield f"no {key}", json.dumps(tree).encode()
        if isinstance(node, list):
            node.insert(key, before)
        else:
            node[key] = before


def of_csv(content: bytes, each: int = 5) -> Iterator[tuple[str, bytes]]:
    """Damages of a CSV file without quotes: in each column, `each` of `CELLS`, and no column."""
    yield from of_bytes(content)
    chance = random.Random(2)
    table = [line.split(",") for line in content.decode().splitlines()]
    yield "a huge cell", _csv([*table[:-1], ["x" * 200_000, *table[-1][1:]]])
    yield "a cell more", _csv([*table[:-1], [*table[-1], "1"]])
    yield "two columns of a name", _csv([[table[0][0], *table[0][:-1]], *table[1:]])
    yield "an empty line", content.replace(b"\n", b"\n\n", 1)
    for column, name in enumerate(table[0]):
        yield f"no {name}", _csv([row[:column] + row[column + 1 :] for row in table])
        for cell in chance.sample(CELLS, each):
            row = chance.choice([len(table) // 2, len(table) - 1])
            other = [list(line) for line in table]
            other[row][column] = cell
            yield f"{name} in line {row + 1}: {cell!r:.20}", _csv(other)


def _csv(table: list[list[str]]) -> bytes:
    return "".join(f"{','.join(row)}\n" for row in table).encode()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every object or list with each of its keys."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _places(node[key])
