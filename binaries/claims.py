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
import textwrap

import pandas

from common.experiments import contrasts, overview, selection
from common.experiments.arguments import add_choice_of_runs, add_directory, add_reported
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.claims import Basis, Evidence, Verdict
from common.experiments.paper import Paper
from common.experiments.runs import KeptRuns
from common.reporting.command_line import Parser, exit_with, fail
from common.reporting.reported import Reported
from common.reporting.user_error import UserError
import reproductions

_HEAD = "# What the papers claim, and what holds\n\n" + "\n\n".join(
    textwrap.fill(paragraph, 100)
    for paragraph in (
        "Computed by `python -m binaries.claims`. A verdict is about what was run: the evidence "
        "says on how many tasks, with how many seeds and for how long. Only verdicts decided by "
        f"{Basis.RUNS} or by a {Basis.BENCHMARK} are evidence of this code; those by {Basis.PAPER} "
        "say whether the paper agrees with itself.",
        f"A final return is {selection.FINAL}. Methods are compared where their runs have the same "
        "budget, at the time that all runs of both on a task reach, and on tasks that at least one "
        f"of them learns: it ends more than {contrasts.MARGIN:.0%} of the scale above its first value. "
        "The scale is 1000 on the Control Suite, a human's score on Atari, the larger of both "
        f"values elsewhere. Sure means at {CONFIDENCE:.0%}, by the bootstrap and by Student's t; "
        "the evidence has both intervals. A method has levelled off if it gains no more than "
        f"{contrasts.MARGIN:.0%} of the scale in the last third of its runs.",
    )
)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.claims", description=__doc__)
    add_choice_of_runs(
        parser,
        reproductions.PAPERS,
        "for each claim the nearest to the paper's with two seeds of what it compares, smoke never",
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
                "evidence": finding.evidence,
                "rule": claim.test.rule,
            }
            for paper in papers
            for claim, finding in findings[paper.name]
        ]
    )


def _markdown(rows: pandas.DataFrame) -> str:
    rules = {rule: number for number, rule in enumerate(dict.fromkeys(rows["rule"]), start=1)}
    parts = [_HEAD, _count(rows)]
    for title, of in rows.groupby("paper", sort=False):
        table = of.assign(rule=[str(rules[rule]) for rule in of["rule"]]).drop(columns="paper")
        # Without padding, since cells are sentences.
        lines = [list(table), ["---"] * len(table.columns), *table.to_numpy().tolist()]
        cells = (" | ".join(str(cell).replace("|", "\\|") for cell in line) for line in lines)
        parts.append(f"## {title}\n\n" + "\n".join(f"| {line} |" for line in cells))
    numbered = "\n".join(f"{number}. {rule}" for rule, number in rules.items())
    return "\n\n".join([*parts, f"## Rules\n\n{numbered}"]) + "\n"


def _count(rows: pandas.DataFrame) -> str:
    """Returns a sentence on all claims, and one on those of each basis."""
    parts = {f"{len(rows)} claims": rows}
    parts |= {f"By {basis}": rows[rows["decided by"] == basis] for basis in Basis}
    words = []
    for name, part in parts.items():
        held, failed, undecided = ((part["verdict"] == verdict).sum() for verdict in Verdict)
        if len(part):
            counts = f"{held} hold, {failed} do not, {undecided} are not yet decided."
            words.append(f"{name}: {counts}")
    return " ".join(words)


def _print(rows: pandas.DataFrame) -> None:
    for row in rows.to_dict("records"):
        print(f"{row['paper']} {row['claim']} ({row['source']}): {row['verdict'].upper()}")
        decided = f"Decided by {row['decided by']}."
        for text in (row["what it says"], row["evidence"], row["rule"], decided):
            print(textwrap.indent(textwrap.fill(text, 100), "    "))
    print(_count(rows))


def main(argv: list[str] | None = None) -> None:
    """Judges all claims, and prints or writes the verdicts."""
    arguments = _arguments(argv)
    kept, numbers = KeptRuns(arguments.runs), Reported(arguments.reported)
    evidence = Evidence(kept, arguments.scale, numbers, arguments.benchmarks)
    papers = reproductions.papers(arguments.paper)
    selection.check_scale(papers, kept, arguments.scale)
    findings = {
        paper.name: [
            (claim, claim.judge(paper, evidence)) for claim in reproductions.claims(paper.name)
        ]
        for paper in papers
    }
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
