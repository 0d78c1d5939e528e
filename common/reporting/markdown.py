"""Markdown that GitHub shows."""

from collections.abc import Iterable


def table(header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Returns a table without padding, since its cells may be sentences."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    cells = (" | ".join(str(cell).replace("|", "\\|") for cell in line) for line in lines)
    return "\n".join(f"| {line} |" for line in cells)


def details(summary: str, text: str) -> str:
    """Returns a text that is folded below its summary."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"
