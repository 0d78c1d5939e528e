"""Decides which of the papers' claims hold, by the kept runs, the tables and the benchmarks.

    python -m binaries.claims
    python -m binaries.claims --paper=d4pg --scale=two_cores
    python -m binaries.claims --output=results/tables --overview=results/README.md

Each verdict is computed by a rule that is printed with it. Runs that are still going on, or were
killed, do not count.
"""

import argparse
from collections.abc import Sequence
import pathlib
import shutil
import textwrap

import pandas

from common.experiments import overview, selection
from common.experiments.arguments import add_choice_of_runs, add_directory, add_reported
from common.experiments.claims import Basis, Claim, Evidence, Finding, Verdict
from common.experiments.paper import Paper
from common.experiments.runs import KeptRuns
from common.experiments.selection import scale_in_words
from common.reporting import markdown
from common.reporting.command_line import Parser, exit_with, fail
from common.reporting.progress import LiveLine, shortened
from common.reporting.reported import Reported
from common.reporting.user_error import UserError
import reproductions

_WIDTH = 100
"""Characters of a line that is printed, at most; on a narrower terminal those that it has."""
_BEGINNING = (
    "Computed by `make results`; nothing is typed in. A verdict is about the scale that it names "
    "and the tasks counted there, not about the paper's sizes. [How a claim is "
    "decided](../../docs/verdicts.md)."
)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.claims", description=__doc__)
    add_choice_of_runs(
        parser,
        reproductions.PAPERS,
        "for each claim the nearest to the paper's that decides it, smoke never",
    )
    add_directory(parser, "--benchmarks", "results/benchmarks", "of the benchmarks' JSON files")
    add_reported(parser)
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="DIR",
        help="write claims.md and claims.csv there instead of printing",
    )
    parser.add_argument(
        "--overview",
        type=pathlib.Path,
        metavar="FILE",
        help="renew the overview in this file, for example results/README.md",
    )
    arguments = parser.parse_args(argv)
    if arguments.overview is not None and (arguments.paper or arguments.scale):
        fail("--overview is of all papers and scales: leave --paper and --scale out")
    if not arguments.benchmarks.is_dir():
        fail(f"--benchmarks={arguments.benchmarks} is no directory")
    return arguments


def _rows(papers: Sequence[Paper], findings: overview.Findings) -> pandas.DataFrame:
    return pandas.DataFrame(
        [
            {
                "paper": paper.title,
                "claim": claim.name,
                "what it says": claim.text,
                "source": claim.source,
                "tested by": claim.experiment or "-",
                "decided by": str(claim.test.basis),
                "verdict": str(finding.verdict),
                "outcome": finding.outcomes or "-",
                "complete": finding.is_complete,
                "scale": finding.scale or "-",
                "coverage": finding.coverage or "-",
                "numbers": finding.numbers or "-",
                "evidence": finding.evidence,
                "rule": claim.test.rule,
            }
            for paper in papers
            for claim, finding in findings[paper.name]
        ]
    )


def _markdown(rows: pandas.DataFrame) -> str:
    rules = {rule: number for number, rule in enumerate(dict.fromkeys(rows["rule"]), start=1)}
    rows = rows.assign(rule=[rules[rule] for rule in rows["rule"]])
    is_open, basis = rows["verdict"] == Verdict.OPEN, rows["decided by"]
    parts = [
        "# What the papers claim, and what holds",
        textwrap.fill(_BEGINNING, 100, break_long_words=False, break_on_hyphens=False),
        _count(rows),
        "## Decided by training runs",
    ]
    by_runs = rows[~is_open & (basis == Basis.RUNS)]
    columns = [
        "paper",
        "claim",
        "what it says",
        "verdict",
        "outcome",
        "coverage",
        "numbers",
        "rule",
    ]
    words = [_verdict(row) for row in by_runs.to_dict("records")]
    parts += _with_evidence(by_runs.assign(verdict=words), columns)
    unsure = rows[is_open & (basis == Basis.RUNS) & rows["complete"]]
    columns = ["paper", "claim", "what it says", "scale", "outcome", "coverage", "numbers", "rule"]
    parts += [
        "## Not decided by all of their runs",
        "Every run that a scale has for these claims is there, and they do not tell.",
        *_with_evidence(unsure, columns),
    ]
    columns = ["paper", "claim", "what it says", "source", "verdict", "evidence", "rule"]
    by_benchmark = rows[~is_open & (basis == Basis.BENCHMARK)]
    parts += ["## Decided by benchmarks", _table(by_benchmark[columns]) or "None yet."]
    parts.append("## Not yet decided")
    own = basis == Basis.PAPER
    columns = ["claim", "what it says", "source", "tested by", "evidence", "rule"]
    for title, of in rows[is_open & ~own].drop(unsure.index).groupby("paper", sort=False):
        parts.append(markdown.details(f"{title}: {len(of)} claims", _table(of[columns])))
    columns = ["paper", "claim", "what it says", "source", "verdict", "evidence", "rule"]
    parts += [
        "## The papers' own numbers",
        "These claims compare numbers that a paper prints with each other. They say whether it "
        "agrees with itself, and nothing about this code. " + _counted(rows[own]),
        markdown.details(f"{own.sum()} claims", _table(rows[own][columns])),
        "## Rules",
        markdown.details(
            f"{len(rules)} rules", "\n".join(f"{number}. {rule}" for rule, number in rules.items())
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _table(rows: pandas.DataFrame) -> str:
    """Returns a table; "" without rows."""
    return markdown.table(rows, rows.to_numpy().tolist()) if len(rows) else ""


def _with_evidence(rows: pandas.DataFrame, columns: list[str]) -> list[str]:
    """Returns a table of some columns, and one of the evidence to unfold."""
    if rows.empty:
        return ["None yet."]
    evidence = _table(rows[["paper", "claim", "evidence"]])
    return [_table(rows[columns]), markdown.details("Their evidence", evidence)]


def _verdict(row: dict[str, str]) -> str:
    """Returns the verdict with its scale."""
    scale = "" if row["scale"] == "-" else row["scale"]
    return Finding(Verdict(row["verdict"]), "", scale).words


def _counted(rows: pandas.DataFrame) -> str:
    held, failed, undecided = ((rows["verdict"] == verdict).sum() for verdict in Verdict)
    return f"{held} hold, {failed} do not, {undecided} are not yet decided."


def _count(rows: pandas.DataFrame) -> str:
    """Returns a sentence on the claims of each basis, with the scales of those decided by runs."""
    is_own = rows["decided by"] == Basis.PAPER
    words = [f"{(~is_own).sum()} claims need evidence."]
    for basis in (Basis.RUNS, Basis.BENCHMARK):
        of = rows[rows["decided by"] == basis]
        if len(of):
            decided = of[of["verdict"] != Verdict.OPEN]
            scales = decided["scale"].value_counts(sort=False).drop("-", errors="ignore")
            at = ", ".join(f"{number} at {scale_in_words(name)}" for name, number in scales.items())
            words.append(f"By {basis}: {_counted(of)}" + f" Of those decided, {at}." * bool(at))
    if is_own.any():
        words.append(
            f"{is_own.sum()} more are about {Basis.PAPER}, which are no evidence of this code: "
            f"{_counted(rows[is_own])}"
        )
    return " ".join(words)


def _print(rows: pandas.DataFrame) -> None:
    width = min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)

    def say(text: str, indent: str = "", hanging: str = "") -> None:
        # Words stay whole: commands and paths are there to be copied.
        options = {"break_long_words": False, "break_on_hyphens": False}
        indents = {"initial_indent": indent, "subsequent_indent": indent + hanging}
        print(textwrap.fill(text, width, **indents, **options))

    for row in rows.to_dict("records"):
        verdict = _verdict(row).upper()
        say(f"{row['paper']} {row['claim']} ({row['source']}): {verdict}", hanging="  ")
        decided = f"Decided by {row['decided by']}."
        for text in (row["what it says"], row["evidence"], row["rule"], decided):
            say(text, "    ")
    say(_count(rows))


class _Judging(LiveLine):
    """The claim that is judged, on a terminal."""

    def __init__(self, total: int):
        self._done, self._total, self._name = 0, total, ""
        super().__init__()

    def judge(self, paper: Paper, claim: Claim, evidence: Evidence) -> Finding:
        """Returns the verdict on the next claim."""
        self._name = f": {paper.title} {claim.name}"
        self.refresh()
        finding = claim.judge(paper, evidence)
        self._done, self._name = self._done + 1, ""
        return finding

    def line(self, width: int | None) -> str:
        """See base class."""
        text = f"{self._done} of {self._total} claims judged{self._name}"
        return text if width is None else shortened(text, width)


def main(argv: list[str] | None = None) -> None:
    """Judges all claims, and prints or writes the verdicts."""
    arguments = _arguments(argv)
    kept, numbers = KeptRuns(arguments.runs), Reported(arguments.reported)
    evidence = Evidence(kept, arguments.scale, numbers, arguments.benchmarks)
    papers = reproductions.papers(arguments.paper)
    selection.check_scale(papers, kept, arguments.scale)
    claims = {paper.name: reproductions.claims(paper.name) for paper in papers}
    with _Judging(sum(map(len, claims.values()))) as judging:
        findings = {
            paper.name: [
                (claim, judging.judge(paper, claim, evidence)) for claim in claims[paper.name]
            ]
            for paper in papers
        }
        judging.refresh()
    if arguments.overview is not None:
        overview.renew(arguments.overview, overview.text(papers, kept, findings, numbers))
        print(arguments.overview)
    rows = _rows(papers, findings)
    if arguments.output is None:
        _print(rows)
    else:
        arguments.output.mkdir(parents=True, exist_ok=True)
        csv = rows.to_csv(index=False, lineterminator="\n")
        for name, text in (("claims.md", _markdown(rows)), ("claims.csv", csv)):
            (arguments.output / name).write_text(text)
            print(arguments.output / name)


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
