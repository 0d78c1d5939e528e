"""`make pages` writes the tables of hyperparameters."""

import dataclasses
import shutil

import pytest

from binaries import pages
from common.config import Config, Settings, field
from common.program import flags
from common.reporting.records import with_part
from common.user_error import UserError
from reproductions.d4pg.config import AGENT


@dataclasses.dataclass
class Example(Config):
    """Hyperparameters of each kind."""

    size: int = field(50_000, minimum=1)
    """Of a |thing|."""
    rate: float = field(1e-6, above=0, maximum=1)
    """Not in the paper; ours."""
    kind: str = field("fifo", choices=("fifo", "priority"))
    """Section 3."""
    is_odd: bool = field(False)
    """Section 4."""
    sizes: tuple[int, ...] = field((300, 20), above=0)
    """Appendix A."""


AGENT_7 = dataclasses.replace(
    AGENT,
    settings=Settings(Example, {"plain": {}}, default="plain"),
    num_actors=lambda config, setting: 7,
    num_actors_flag="num_workers",
    num_actors_help="Workers (section 2).",
)
TABLE = r"""
| `--config.` | Default | Allowed | Meaning and source |
|---|---|---|---|
| `size` | `50_000` | at least 1 | Of a \|thing\|. |
| `rate` | `1e-6` | in (0, 1] | Not in the paper; ours. |
| `kind` | `"fifo"` | fifo or priority | Section 3. |
| `is_odd` | `False` |  | Section 4. |
| `sizes` | `(300, 20)` | above 0 | Appendix A. |
| `--num_workers` | `7` | at least 1 | Workers (section 2). |
"""
BEGIN, END = f"{pages.BEGIN}\n", f"{pages.END}\n"


def test_what_is_committed_is_what_is_written():
    stale = [str(path) for path, text in pages.pages().items() if path.read_text() != text]
    assert not stale, "run `make pages` and commit what it changes"


def test_only_files_that_differ_are_written(tmp_path, monkeypatch, capsys):
    copy = tmp_path / "reproductions"
    for path, text in pages.pages().items():
        target = copy / path.relative_to(pages.REPRODUCTIONS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        if path.parent.name == "d4pg":
            target.write_text(text.replace("`0.99`", "`1`"))
    monkeypatch.setattr(pages, "REPRODUCTIONS", copy)
    pages.main([])
    assert capsys.readouterr().out.split() == ["reproductions/d4pg/README.md"]
    for path, text in pages.pages().items():
        assert path.read_text() == text
    pages.main([])
    assert not capsys.readouterr().out


def test_a_table_is_put_between_the_markers(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"Before.\n{BEGIN}old\n{END}After.\n")
    written = with_part(page, pages.BEGIN, pages.END, flags.table(AGENT_7))
    assert written == f"Before.\n{BEGIN}{TABLE}\n{END}After.\n"
    page.write_text(written)
    assert with_part(page, pages.BEGIN, pages.END, flags.table(AGENT_7)) == written


@pytest.mark.parametrize("text", ["", BEGIN, END + BEGIN, BEGIN + END + END, 2 * (BEGIN + END)])
def test_a_page_without_its_markers(text, tmp_path):
    page = tmp_path / "README.md"
    page.write_text(text)
    with pytest.raises(UserError, match=f"{page} needs exactly one line .*{BEGIN.strip()}"):
        with_part(page, pages.BEGIN, pages.END, "new")
