"""What the papers report, for programs that go on if a row of it is malformed."""

import dataclasses
import pathlib

import pandas

from common.experiments.checked_rows import Warn
from common.reporting import reported


@dataclasses.dataclass(frozen=True)
class ReportedNumbers:
    """The CSV files of a directory, by default this repository's results/reported.

    warn: told of each malformed row, with file and line; the row is left out.
    """

    warn: Warn
    directory: pathlib.Path = reported.DIRECTORY

    def has(self, paper: str, source: str) -> bool:
        """Whether the paper's text has numbers of a source, such as "table 2"."""
        rows = reported.read(paper, directory=self.directory, on_malformed=self.warn)
        return source in set(rows["source"])

    def table(self, paper: str, source: str, cells: str = "number") -> pandas.DataFrame:
        """See `reported.table`."""
        return reported.table(
            paper, source, cells, directory=self.directory, on_malformed=self.warn
        )

    def number(self, paper: str, source: str, row: str, column: str) -> float:
        """See `reported.number`."""
        table = self.table(paper, source)
        if row in table.index and column in table and not pandas.isna(table.at[row, column]):
            return float(table.at[row, column])
        raise reported.ReportedError(
            f"{self.directory / paper}.csv has no number of {source} for {row} | {column}"
        )

    def atari_scores(self) -> pandas.DataFrame:
        """See `reported.atari_scores`."""
        return reported.atari_scores(directory=self.directory, on_malformed=self.warn)
