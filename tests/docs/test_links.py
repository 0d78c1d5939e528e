"""Every link of every Markdown page leads somewhere, and every page can be reached."""

import pathlib
import re

import pytest

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
        again = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", one) is not None for one in found)
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
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160


def test_headings_that_are_alike_have_different_anchors(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# `--role`: [by hand](x.md)\n\n## Run\n\n## Run\n\n    # no heading\n")
    assert anchors(page) == ["--role-by-hand", "run", "run-1"]
