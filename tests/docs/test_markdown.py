"""Pages: links lead somewhere, commands name what exists, numbers are measured, words are plain."""

import ast
from collections.abc import Iterator
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


def name_of(page):
    return str(page.relative_to(ROOT))


def without_code(text):
    """A page's text without code: blocks that are fenced or indented, and `inline`."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"(?<=\n)\n(?: {4}.*\n|\n)+", "\n\n", text)
    return re.sub(r"`[^`\n]+`", "code", text)


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text()))


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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
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

WRITTEN = sorted(
    path
    for pattern in (
        *("*.md", "docs/*.md", "reproductions/**/*.md"),
        *("results/README.md", "results/benchmarks.md"),
    )
    for path in ROOT.glob(pattern)
)
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


@pytest.mark.parametrize("page", sorted({*WRITTEN} - {ROOT / "CHANGELOG.md"}), ids=name_of)
def test_commands(page):
    """A changelog has the commands of its time."""
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


# English: phrases of this project's former idiom do not come back.

NUMBER = r"(?:\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|fifty|hundred)"
# By name: the phrase as an expression, and what to write instead.
IDIOM = {
    "beside": (r"\bbeside\b", "while, compared with, next to, in addition to"),
    "mid-sentence ', too'": (
        r", too(?=[,;:]| (?!many\b|much\b|few\b|little\b|\w+ (?:to|for)\b))",
        "also, before the verb",
    ),
    "as many": (
        r"(?<!times )(?<!twice )(?<!half )\bas many\b(?! (?:\w+ ){0,3}as\b)",
        "the same number of, equally many",
    ),
    "of ours": (r"\bof ours\b", "our, of this repository"),
    "is no": (r"(?<!\bthere )\bis no (?!(?:longer|more|less|better|higher)\b)", "is not a"),
    "some NUMBER": (rf"\bsome {NUMBER}\b(?! of\b)", "about NUMBER"),
    "thrice": (r"\bthrice\b", "three times"),
    "ever so often": (r"\bever so often\b", "how often, as a number"),
    "at at": (r"\bat at\b", "measured at, checked at"),
    "behind which": (r"\b(?:behind|beside) which\b", "a second sentence"),
    "a heading 'came out'": (r"^#+ [^\n]*\bcame out\b", "Results"),
}
PATTERNS = {name: re.compile(phrase, re.I | re.M) for name, (phrase, _instead) in IDIOM.items()}


def found(text: str) -> Iterator[tuple[str, str]]:
    """Yields each phrase of the idiom in a text by its name, with the words around it."""
    for name, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            around = text[max(0, match.start() - 40) : match.end() + 30]
            yield name, " ".join(around.split())


def joined(text: str) -> str:
    """Returns a text whose paragraphs, items and docstrings are a line each."""
    return re.sub(r"(?<=\S)[ \t]*\n[ \t]*(?=[^\s#|-])", " ", text)


# What is not prose, and what replaces it in a page, one after the other: first what is generated.
GENERATED_PARTS = (
    (r"^<!-- hyperparameters: written by[\s\S]*?^<!-- end of hyperparameters -->", ""),
    (r"^<!-- Generated by `make results`[\s\S]*?^<!-- End of what is generated -->", ""),
    (r"^(\| `[\w/]+` \| [^|\n]+ \|)(?: [^|\n]+ \|){3}$", r"\1"),  # numbers of a benchmark's record
)
LINK_TARGET = r"(?<=\])\([^)\s]+\)"
QUOTATION = r"(?<![*\w])\*(?![*\s])(?:[^*\n]|\n(?!\n))+(?<![*\s])\*(?![*\w])"


def prose(text: str) -> str:
    """Returns what somebody has written in a page, without code, links and quotations."""
    for pattern, instead in GENERATED_PARTS:
        text = re.sub(pattern, instead, text, flags=re.M)
    text = re.sub(LINK_TARGET, "", without_code(text))
    return joined(re.sub(QUOTATION, "quotation", text))


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_a_page_is_in_plain_english(page):
    phrases = list(found(prose(page.read_text())))
    lines = [f"{key} ({IDIOM[key][1]}): ... {around} ..." for key, around in phrases]
    assert not phrases, "\n".join(lines)


def strings() -> Iterator[tuple[str, str]]:
    """Yields the path and every string of the programs, docstrings and parts of messages alike."""
    for folder in ("binaries", "common", "reproductions", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path == pathlib.Path(__file__):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield str(path.relative_to(ROOT)), node.value


def test_docstrings_and_messages_are_in_plain_english():
    phrases = [
        f"{path}: {name} ({IDIOM[name][1]}): ... {around} ..."
        for path, string in strings()
        for name, around in found(joined(string))
    ]
    assert not phrases, "\n".join(phrases)


NO_NOUN = re.compile(r"^ +\*{0,2}\w+: (?:of|those|that|by|one) .*", re.M)
"""A description that relies on the name of its argument or attribute: "seed: of the actors"."""


def test_descriptions_of_arguments_have_a_noun():
    entries = [
        f"{path}: {entry}" for path, string in strings() for entry in NO_NOUN.findall(string)
    ]
    assert not entries, "\n".join(entries)
