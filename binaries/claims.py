"""Says which of the papers' claims hold, by the runs, tables and benchmarks that are here.

    python -m binaries.claims
    python -m binaries.claims --paper=d4pg --scale=two_cores
    python -m binaries.claims --output=results/tables --overview=results/README.md

Each verdict is computed by a rule that is printed with it; nothing is typed in. Runs that are still
going on, or were killed, are not counted.
"""

import argparse
from collections.abc import Sequence
import pathlib
import textwrap

import pandas

from common.experiments import claims, overview, pairs, selection
from common.experiments.arguments import add_choice_of_runs, add_reported
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.checked_rows import Once
from common.experiments.claims import Basis, Verdict
from common.experiments.registry import Paper, UnknownError, papers
from common.experiments.reported_numbers import ReportedNumbers
from common.experiments.runs import KeptRuns
from common.reporting.command_line import Parser, exit_with, fail

_HEAD = "# What the papers claim, and what holds\n\n" + "\n\n".join(
    textwrap.fill(paragraph, 100)
    for paragraph in (
        "Computed by `python -m binaries.claims`. A verdict is about what was run: the evidence "
        "says on how many tasks, with how many seeds and for how long. Only verdicts decided by "
        f"{Basis.RUNS} or by a {Basis.BENCHMARK} are evidence of this code; those by {Basis.PAPER} "
        "say whether the paper agrees with itself.",
        f"A final return is {selection.FINAL}. Methods are compared where their runs have the same "
        "budget, at the time that all runs of both on a task reach, and on tasks that at least one "
        f"of them learns: it ends more than {pairs.MARGIN:.0%} of the scale above its first value. "
        "The scale is 1000 on the Control Suite, a human's score on Atari, the larger of both "
        f"values elsewhere. Sure means at {CONFIDENCE:.0%}, by the bootstrap and by Student's t; "
        "the evidence has both intervals. A method has levelled off if it gains no more than "
        f"{pairs.MARGIN:.0%} of the scale in the last third of its runs.",
    )
)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.claims", description=__doc__)
    add_choice_of_runs(
        parser,
        "for each claim the nearest to the paper's with two seeds of what it compares, smoke never",
    )
    parser.add_argument(
        "--benchmarks",
        type=pathlib.Path,
        metavar="DIR",
        default=pathlib.Path("results/benchmarks"),
        help="where the benchmarks wrote; default results/benchmarks",
    )
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
    return arguments


def _rows(chosen: Sequence[Paper], findings: overview.Findings) -> pandas.DataFrame:
    return pandas.DataFrame(
        [
            {
                "paper": of.title,
                "claim": claim.name,
                "what it says": claim.text,
                "source": claim.source,
                "tested by": claim.experiment or "-",
                "decided by": str(claim.test.basis),
                "verdict": str(finding.verdict),
                "evidence": finding.evidence,
                "rule": claim.test.rule,
            }
            for of in chosen
            for claim, finding in findings[of.name]
        ]
    )


def _markdown(rows: pandas.DataFrame) -> str:
    rules = {rule: number for number, rule in enumerate(dict.fromkeys(rows["rule"]), start=1)}
    parts = [_HEAD, _count(rows)]
    for title, of in rows.groupby("paper", sort=False):
        table = of.assign(rule=[str(rules[rule]) for rule in of["rule"]]).drop(columns="paper")
        parts.append(f"## {title}\n\n" + _plain_grid(table))
    numbered = "\n".join(f"{number}. {rule}" for rule, number in rules.items())
    return "\n\n".join([*parts, f"## Rules\n\n{numbered}"]) + "\n"


def _plain_grid(rows: pandas.DataFrame) -> str:
    """A Markdown table without padding: cells are sentences."""
    lines = [list(rows), ["---"] * len(rows.columns), *rows.to_numpy().tolist()]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _count(rows: pandas.DataFrame) -> str:
    """A sentence on all claims, and one on those of each basis."""

    def count(of: pandas.DataFrame) -> str:
        counts = of["verdict"].value_counts()
        held, failed, undecided = (counts.get(verdict, 0) for verdict in Verdict)
        return f"{held} hold, {failed} do not, {undecided} are not yet decided."

    parts = [f"{len(rows)} claims: {count(rows)}"]
    parts += [
        f"By {basis}: {count(of)}"
        for basis in Basis
        if len(of := rows[rows["decided by"] == basis])
    ]
    return " ".join(parts)


def _print(rows: pandas.DataFrame) -> None:
    for row in rows.to_dict("records"):
        print(f"{row['paper']} {row['claim']} ({row['source']}): {row['verdict'].upper()}")
        for text in (
            row["what it says"],
            row["evidence"],
            row["rule"],
            f"Decided by {row['decided by']}.",
        ):
            print(textwrap.indent(textwrap.fill(text, 100), "    "))
    print(_count(rows))


def main(argv: list[str] | None = None) -> None:
    """Judges, and prints or writes; ends with one line on a user's mistake."""
    arguments = _arguments(argv)
    kept = KeptRuns(arguments.runs, Once())
    numbers = ReportedNumbers(kept.warn, arguments.reported)
    evidence = claims.Evidence(kept, arguments.scale, numbers, arguments.benchmarks, kept.warn)
    try:
        chosen = papers(arguments.paper)
        if arguments.paper:
            selection.check_scale(*chosen, kept, arguments.scale)
        else:
            selection.check_scale_of_any(chosen, kept, arguments.scale)
        findings = {
            of.name: [(claim, claim.judge(of, evidence)) for claim in claims.of(of.name)]
            for of in chosen
        }
        rows = _rows(chosen, findings)
        if arguments.output is None:
            _print(rows)
        else:
            arguments.output.mkdir(parents=True, exist_ok=True)
            texts = {
                "claims.md": _markdown(rows),
                "claims.csv": rows.to_csv(index=False, lineterminator="\n"),
            }
            for name, text in texts.items():
                (arguments.output / name).write_text(text)
                print(arguments.output / name)
        if arguments.overview is not None:
            overview.renew(arguments.overview, overview.text(chosen, kept, findings, numbers))
            print(arguments.overview)
    except BrokenPipeError:
        raise  # see `exit_with`
    except (UnknownError, overview.OverviewError, OSError) as error:
        fail(str(error))


if __name__ == "__main__":
    exit_with(main)
