"""Forest plots: the effects of a paper's claims, with their intervals."""

from collections.abc import Iterable
import pathlib

from common.experiments.claims import Claim, Finding, NamedEffect
from common.experiments.effects import CONFIDENCE, MARGIN
from common.experiments.paper import Paper
from common.figures import forest

NAME = "effects"
"""The end of the files' names."""


def has_effects(findings: Iterable[tuple[Claim, Finding]]) -> bool:
    """Returns whether there is something to draw."""
    return any(_shown(finding) for _, finding in findings)


def draw(
    paper: Paper, findings: Iterable[tuple[Claim, Finding]], output: pathlib.Path
) -> list[pathlib.Path]:
    """Draws the effects of all claims that have some, and returns the files.

    Args:
      paper: of the claims.
      findings: on them.
      output: directory of the files.
    """
    rows = [
        forest.EffectRow(
            " ".join(filter(None, (claim.name, one.name))),
            *(100 * end for end in (one.effect.estimate, one.effect.low, one.effect.high)),
            str(one.effect.outcome),
        )
        for claim, finding in findings
        for one in _shown(finding)
    ]
    caption = (
        f"Main effects over the tasks of each claim with {CONFIDENCE:.0%} intervals. Grey: within "
        f"{MARGIN:.0%} of the scale. Verdicts, the colours, ask for 99% or 98% (docs/verdicts.md)."
    )
    title = f"{paper.title}: effects of its claims"
    return forest.draw(rows, 100 * MARGIN, title, caption, output / f"{paper.name}_{NAME}")


def _shown(finding: Finding) -> list[NamedEffect]:
    """Returns the effects in parts of the scale: others have no place on its axis."""
    return [one for one in finding.effects if not one.is_logarithm]
