"""Verdicts on claims as tables: a row a claim, and a row a number that a verdict hangs on.

The columns are explained in docs/verdicts.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import math
import pathlib
import shutil
import textwrap

import pandas

from common.evidence import tables
from common.evidence.claims import Basis, Claim, Evidence, Finding, Measured, NamedEffect, Verdict
from common.evidence.paper import Paper
from common.reporting.progress import LiveLine, shortened

Findings = Mapping[str, Sequence[tuple[Claim, Finding]]]
"""The claims of each paper, by its name, with their findings."""
Row = dict[str, str]
"""Cells by column; a cell that lacks is empty."""

RUNS = ("scale", "tasks", "paper tasks", "other tasks", "seeds")
"""The columns of the runs that decide a claim."""
NUMBERS = ("number", "value", "outcome", "exploratory")
"""The columns of the numbers of a claim."""
_BOUNDS = ("from", "to")
_CLAIM = ("paper", "claim", "says", "verdict")
_OF_NUMBERS = (
    *("paper", "claim", "number", "value", "low", "high", "unit", *_BOUNDS),
    *("over", "measure", "outcome", "exploratory", "tasks", "seeds", "seeds needed"),
)
_WIDTH = 100
"""Characters of a line that is printed, at most; on a narrower terminal those that it has."""


def judge(
    papers: Sequence[Paper], claims: Mapping[str, Sequence[Claim]], evidence: Evidence
) -> Findings:
    """Returns the findings on all claims; shows on a terminal which claim is judged.

    Args:
      papers: of the claims.
      claims: by the papers' names.
      evidence: to decide by.
    """
    findings: dict[str, list[tuple[Claim, Finding]]] = {paper.name: [] for paper in papers}
    with _Judging(sum(map(len, claims.values()))) as judging:
        for paper in papers:
            for claim in claims[paper.name]:
                judging.begins(f"{paper.title} {claim.name}")
                findings[paper.name].append((claim, claim.judge(paper, evidence)))
        judging.begins("")
    return findings


class _Judging(LiveLine):
    """The claim that is judged, on a terminal."""

    def __init__(self, total: int):
        self._begun, self._total, self._name = 0, total, ""
        super().__init__()

    def begins(self, name: str) -> None:
        self._begun, self._name = self._begun + 1, name
        self.refresh()

    def line(self, width: int | None) -> str:
        """See base class."""
        text = f"claims {self._begun - 1}/{self._total} {self._name}".rstrip()
        return text if width is None else shortened(text, width)


def claim_rows(papers: Iterable[Paper], findings: Findings) -> list[Row]:
    """Returns a row for each claim."""
    return [
        _claim_row(paper, claim, finding)
        for paper in papers
        for claim, finding in findings[paper.name]
    ]


def number_rows(papers: Iterable[Paper], findings: Findings) -> list[Row]:
    """Returns a row for each number that the verdicts hang on."""
    return [
        {**dict.fromkeys(_OF_NUMBERS, ""), "paper": paper.title, "claim": claim.name, **row}
        for paper in papers
        for claim, finding in findings[paper.name]
        for row in _numbers(claim, finding)
    ]


def write(
    papers: Sequence[Paper], findings: Findings, directory: pathlib.Path
) -> list[pathlib.Path]:
    """Writes claims.csv, claims_numbers.csv and claims.md, and returns these files."""
    rows, numbers = claim_rows(papers, findings), number_rows(papers, findings)
    texts = {
        "claims.md": _page(rows, numbers),
        "claims.csv": _csv(rows),
        "claims_numbers.csv": _csv(numbers),
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text)
    return [directory / name for name in texts]


def show(papers: Sequence[Paper], findings: Findings) -> None:
    """Prints all claims, and how many have which verdict."""
    width = min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)
    rows, numbers = claim_rows(papers, findings), number_rows(papers, findings)

    def say(text: str, indent: str = "") -> None:
        # Words stay whole: commands and paths are there to be copied.
        options = {"break_long_words": False, "break_on_hyphens": False}
        indents = {"initial_indent": indent, "subsequent_indent": indent + "  "}
        print(textwrap.fill(text, width, **indents, **options))

    for row in rows:
        say(f"{row['paper']} {row['claim']}: {row['verdict'].upper()}")
        for column in [column for column in row if column not in ("paper", "claim", "verdict")]:
            if row[column]:
                say(f"{column}: {row[column]}", "    ")
        for number in _of_claim(row, numbers):
            name = number["number"] or "effect"
            say(f"{name}: {value_cell(number)} {number['outcome']}".rstrip(), "    ")
    for basis, *counts in _counts(rows):
        by_verdict = (f"{count} {verdict}" for verdict, count in zip(Verdict, counts))
        say(f"{basis}: {', '.join(by_verdict)}")


def joined(rows: Iterable[Row], numbers: Sequence[Row]) -> Iterator[Row]:
    """Yields each claim's row with its first number, and a row for each of its other numbers."""
    for row in rows:
        shown = [
            {name: number[name] for name in (*NUMBERS, *_BOUNDS)} | {"value": value_cell(number)}
            for number in _of_claim(row, numbers)
        ]
        yield row | (shown[0] if shown else {})
        yield from shown[1:]


def table(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Returns a table in Markdown of some columns."""
    return tables.markdown_table(
        columns, [[row.get(column, "") for column in columns] for row in rows]
    )


def value_cell(number: Row) -> str:
    """Returns a number with its unit and its interval: "+17.8 % [+14.4, +21.1]"."""
    interval = f"[{number['low']}, {number['high']}]" if number["low"] else ""
    return " ".join(filter(None, (number["value"], number["unit"], interval)))


def _claim_row(paper: Paper, claim: Claim, finding: Finding) -> Row:
    coverage, missing, needed = finding.coverage, finding.missing, finding.seeds_needed
    lacks = missing if missing is not None and missing.missing else None
    is_exploratory = bool(finding.effects) and finding.is_exploratory
    return {
        "paper": paper.title,
        "claim": claim.name,
        "says": claim.says,
        "source": claim.source,
        "experiment": claim.experiment,
        "basis": str(claim.test.basis),
        "verdict": str(finding.verdict),
        **dict(zip(RUNS, (finding.scale, *map(str, coverage or [""] * len(RUNS))))),
        "exploratory": "yes" if is_exploratory else "",
        "complete": "yes" if finding.is_complete else "",
        "seeds needed": str(needed) if needed and finding.verdict is Verdict.OPEN else "",
        "runs at": lacks.scale if lacks else "",
        "made": str(lacks.made) if lacks else "",
        "missing": str(lacks.missing) if lacks else "",
        "hours": f"{lacks.hours:.1f}" if lacks and math.isfinite(lacks.hours) else "",
        "commands": "; ".join(lacks.commands) if lacks else "",
        "lacks": finding.lacks,
        "rule": claim.rule,
    }


def _numbers(claim: Claim, finding: Finding) -> Iterator[Row]:
    for named in finding.effects:
        measure = claim.test.at_scale(finding.scale).measure.__name__
        yield _effect_row(named) | {"measure": measure}
    least, most = claim.test.bounds if isinstance(claim.test, Measured) else ("", "")
    for name, number in finding.numbers.items():
        yield {"number": name, "value": f"{number:.6g}", "from": str(least), "to": str(most)}


def _effect_row(named: NamedEffect) -> Row:
    factor, digits, unit = (1, 2, "log10") if named.is_logarithm else (100, 1, "%")
    effect = named.effect
    value, low, high = (
        f"{factor * number:+.{digits}f}" for number in (effect.estimate, effect.low, effect.high)
    )
    least, most = (f"{factor * bound:g}" for bound in named.part.bounds)
    return {
        "number": named.name,
        "value": value,
        "low": low,
        "high": high,
        "unit": unit,
        "from": least,
        "to": most,
        "over": str(named.part.over),
        "outcome": str(effect.outcome),
        "exploratory": "" if effect.is_confirmed else "yes",
        "tasks": str(effect.tasks),
        "seeds": str(effect.seeds),
        "seeds needed": str(effect.seeds_needed or ""),
    }


def _of_claim(row: Row, numbers: Iterable[Row]) -> list[Row]:
    of = (row["paper"], row["claim"])
    return [number for number in numbers if (number["paper"], number["claim"]) == of]


def _csv(rows: Sequence[Row]) -> str:
    return pandas.DataFrame(rows).to_csv(index=False, lineterminator="\n")


def _counts(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Returns each basis with its number of claims by verdict."""
    counts = pandas.DataFrame(rows).value_counts(["basis", "verdict"])
    return [
        (str(basis), *(str(counts.get((basis, verdict), 0)) for verdict in Verdict))
        for basis in Basis
    ]


def _page(rows: Sequence[Row], numbers: Sequence[Row]) -> str:
    def of(basis: Basis, is_open: bool, is_complete: bool) -> list[Row]:
        wanted = (basis, is_open, is_complete)
        return [
            row
            for row in rows
            if (row["basis"], row["verdict"] == Verdict.OPEN, row["complete"] != "") == wanted
        ]

    columns = (*_CLAIM, *NUMBERS, *RUNS)
    open_rows = of(Basis.RUNS, True, False) + of(Basis.BENCHMARK, True, False)
    open_columns = ("claim", "says", "source", "experiment")
    open_columns += ("runs at", "made", "missing", "hours", "commands", "lacks", "rule")
    parts = [
        "# What the papers claim, and what holds",
        "Written by `make results`. [The rules and the columns](../../docs/verdicts.md).",
        tables.markdown_table(("basis", *Verdict), _counts(rows)),
        "## Decided by runs",
        table(columns, joined(of(Basis.RUNS, False, False), numbers)),
        "## Not decided by all of their runs",
        table((*columns, "seeds needed"), joined(of(Basis.RUNS, True, True), numbers)),
        "## Decided by benchmarks",
        table(
            (*_CLAIM, "number", "value", *_BOUNDS, "rule"),
            joined(of(Basis.BENCHMARK, False, False), numbers),
        ),
        "## Not yet decided",
    ]
    for paper in dict.fromkeys(row["paper"] for row in open_rows):
        of_paper = [row for row in open_rows if row["paper"] == paper]
        parts.append(tables.details(f"{paper}: {len(of_paper)}", table(open_columns, of_paper)))
    return "\n\n".join(parts) + "\n"
