"""Pages: every link leads somewhere, commands name what exists, numbers are those measured."""

import importlib.util
import json
import pathlib
import re

import pytest

# Links.

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "reproductions/**/*.md", "results/**/*.md")
    for path in ROOT.glob(pattern)
)
GENERATED = ROOT / "results" / "tables"
IN_CODE = re.compile(r"\b(docs/\w+\.md|CONTRIBUTING\.md|[\w/]*README\.md)\b")


def text_of(page):
    """The text of a page without its code: blocks that are fenced or indented, and `inline`."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    text = re.sub(r"(?<=\n)\n(?: {4}.*\n|\n)+", "\n", text)
    return re.sub(r"`[^`\n]*`", "code", text)


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", text_of(page))


def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    found = []
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for title in re.findall(r"^#{1,6} (.+?)\s*$", text, re.M):
        title = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower()
        anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        again = sum(
            re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in found
        )
        found.append(f"{anchor}-{again}" if again else anchor)
    return found


def target(page, link):
    """The path that a relative link names, and its anchor."""
    file, _, anchor = link.partition("#")
    return ((page.parent / file).resolve() if file else page), anchor


def is_relative(link):
    return not re.match(r"[a-z]+:", link)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page):
    for link in links(page):
        if not is_relative(link):
            assert re.fullmatch(r"https://[\w.-]+(/\S*)?", link), link
            continue
        path, anchor = target(page, link)
        assert path.exists() and path.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(path), link


def test_every_page_can_be_reached_from_the_readme():
    reached, open_ = set(), [ROOT / "README.md"]
    while open_:
        page = open_.pop()
        if page not in reached:
            reached.add(page)
            named = (target(page, link)[0] for link in links(page) if is_relative(link))
            open_ += [path for path in named if path.suffix == ".md"]
    written = {page for page in PAGES if GENERATED not in page.parents}
    assert written <= reached, sorted(str(page) for page in written - reached)


def test_pages_that_code_names_exist():
    files = [ROOT / "Makefile", *ROOT.glob("docs/*.yaml")]
    for folder in ("common", "binaries", "reproductions", "tests"):
        files += ROOT.glob(f"{folder}/**/*.py")
    for file in files:
        for name in IN_CODE.findall(file.read_text()):
            assert (ROOT / name).exists() or (file.parent / name).exists(), f"{file}: {name}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


# Commands.

PAGES_WITH_COMMANDS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results/README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("reproductions/**/*.md")),
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


@pytest.mark.parametrize(
    "page", PAGES_WITH_COMMANDS, ids=[str(page.relative_to(ROOT)) for page in PAGES_WITH_COMMANDS]
)
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


# Numbers of results/benchmarks.

BENCHMARKS = (ROOT / "results/benchmarks.md").read_text()
APEX = " ".join((ROOT / "reproductions/apex/README.md").read_text().split())
MEASURED = {
    row["name"]: row
    for file in ("two_cores.json", "workers.json", "aql.json", "refer.json")
    for row in json.loads((ROOT / "results/benchmarks" / file).read_text())
}
SHOWN = re.findall(r"^\| `([\w/]+)` \| [^|]+ \| (.+?) \| (.+?) \| (.+?) \|$", BENCHMARKS, re.M)


def is_rounded(text, value):
    """Whether `text`, such as "1,350" or "2.57", is `value` rounded to its number of places."""
    number = text.replace(",", "")
    return f"{value:.{len(number.partition('.')[2])}f}" == number


def test_every_row_is_shown_once():
    assert sorted(name for name, *_ in SHOWN) == sorted(MEASURED)


@pytest.mark.parametrize("name, ours, peer, ratio", SHOWN, ids=[name for name, *_ in SHOWN])
def test_a_row_is_the_one_that_was_measured(name, ours, peer, ratio):
    row = MEASURED[name]
    value, _, unit = ours.partition(" ")
    assert is_rounded(value, row["value"]) and unit == row["unit"]
    if row["peer"] is None:
        assert (peer, ratio) == ("-", "-")
    else:
        whose, _, number = peer.partition(": ")
        assert whose == row["peer"]
        assert is_rounded(number, row["peer_value"]) and is_rounded(ratio, row["ratio"])


def test_decoding_is_two_thirds_of_what_the_image_learner_loses():
    updates, alone = (MEASURED["learner/apex_dqn_batch512"][key] for key in ("value", "peer_value"))
    lost = 1 / updates - 1 / alone
    assert f"takes {1000 * lost:.0f} ms longer" in BENCHMARKS


@pytest.mark.parametrize(
    "sentence, name",
    [
        ("a process of 32 games made {:,.0f} ", "actor/pong_wall"),
        ("served {:.0f} rounds a second", "image_replay/service_loop"),
        ("It makes {:.1f} updates a second", "learner/apex_dqn_batch512"),
        ("{:.1f} in bfloat16", "learner/apex_dqn_batch512_bfloat16"),
    ],
)
def test_apex_cites_what_was_measured(sentence, name):
    assert sentence.format(MEASURED[name]["value"]) in APEX
