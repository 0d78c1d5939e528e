"""The commands on the pages name programs, flags and files that exist."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results/README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("reproductions/**/README.md")),
]
OURS = re.compile(
    r"python (?:-m (?P<module>(?:binaries|common)\.[\w.]+)|(?P<script>tests/\S+\.py))"
)
SOURCES = "\n".join(
    path.read_text()
    for folder in ("binaries", "common", "tests/environments", "tests/roles")
    for path in sorted((ROOT / folder).rglob("*.py"))
)
NOT_IN_SOURCES = {
    *("help", "flagfile", "config"),  # of absl and ml_collections
    *("mem", "gres", "signal"),  # of Slurm
}


def commands(page):
    """The lines of a page's indented blocks and its `inline` code, continued lines joined."""
    text = page.read_text()
    blocks = re.findall(r"^ {4}(.+)$", text, re.M)
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(blocks)).splitlines()
    return [line.partition(" # ")[0] for line in [*joined, *re.findall(r"`([^`\n]+)`", text)]]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_commands(page):
    for command in commands(page):
        for found in OURS.finditer(command):
            if found["module"]:
                assert importlib.util.find_spec(found["module"]), command
            else:
                assert (ROOT / found["script"]).exists(), command
        if OURS.search(command) or command.startswith("--"):
            for flag in re.findall(r"(?<=--)[a-z]\w*", command):
                names = f"(--)?({flag}|{flag.removeprefix('no')})"  # a boolean may be turned off
                known = flag in NOT_IN_SOURCES or re.search(rf'"{names}=?"', SOURCES)
                assert known, f"--{flag} in: {command}"
        for target in re.findall(r"^make (\w+)", command):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M), command
        for file in re.findall(r"--flagfile=(\w\S*)", command):
            assert (ROOT / file).exists(), command
