"""Sphinx's settings for `make docs`: a site of the pages that there are, and of the docstrings.

Nothing is written for the site. Its front page is README.md with a table of contents in reading
order. Below the page of a paper are its results and its further READMEs.
"""

import pathlib
import re
import shutil

from sphinx.application import Sphinx

ROOT = pathlib.Path(__file__).parents[1]

project = "Replay-based deep reinforcement learning, reproduced"
html_title = "Replay-based deep RL, reproduced"
html_theme = "furo"
extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.napoleon", "sphinxcontrib.mermaid"]
myst_fence_as_directive = ["mermaid"]  # as GitHub shows them
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "reproductions/**.md", "results/**.md", "docs/api/**.rst"]
exclude_patterns = ["results/runs"]
myst_heading_anchors = 6  # the anchors that GitHub gives
html_copy_source = False

# The sources are read, not imported: the site needs none of the packages of the programs.
autoapi_dirs = [str(ROOT / name) for name in ("common", "reproductions", "binaries")]
autoapi_root = "docs/api"
autoapi_python_use_implicit_namespaces = True
autoapi_options = ["members", "show-inheritance", "show-module-summary"]
autoapi_add_toctree_entry = False
autoapi_keep_files = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # an attribute in a docstring and in the class is one
napoleon_use_rtype = False  # the first of several values is no type
default_role = "code"  # `name` in a docstring
suppress_warnings = ["autoapi.python_import_resolution"]  # of packages that are not there

CONTENTS = {
    "Using it": "docs/running\ndocs/python\ndocs/own_environment\ndocs/environments\n"
    "docs/files\ndocs/glossary",
    "The papers": "reproductions/*/README",
    "Results": "results/README\nresults/benchmarks\ndocs/verdicts\ndocs/experiments\n"
    "docs/campaign\nresults/tables/*",
    "Large runs": "docs/clusters\ndocs/failures\ndocs/benchmarks",
    "Development": "docs/parts\nCONTRIBUTING\ndocs/adding_a_paper\nCHANGELOG",
    "API": "docs/api/*/index",
}
"""The site's sections, with their pages in reading order; a page in none of them is a warning."""


def _toctree(pages: str, caption: str = "") -> str:
    options = f":caption: {caption}\n:hidden:\n" if caption else ""
    return f"\n```{{toctree}}\n:glob:\n:maxdepth: 1\n{options}\n{pages}\n```\n"


def _more_of_paper(folder: pathlib.PurePath) -> str:
    """Returns the pages below a paper's README, as seen from its folder."""
    pages = [f"/results/{folder.name}"]
    for page in sorted((ROOT / folder).glob("**/*.md")):
        if page != ROOT / folder / "README.md":
            pages.append(str(page.relative_to(ROOT / folder).with_suffix("")))
    return "\n".join(pages)


def _extend(app: Sphinx, name: str, source: list[str]) -> None:
    """Adds to the source of a page what only the site shows there."""
    folder = pathlib.PurePath(name).parent
    if name == root_doc:
        source[0] += "".join(_toctree(pages, caption) for caption, pages in CONTENTS.items())
    elif pathlib.PurePath(name) == pathlib.PurePath("reproductions", folder.name, "README"):
        source[0] += "\n## More pages\n" + _toctree(_more_of_paper(folder))


def _plain_docstring(app: Sphinx, what: str, name: str, member, options, lines: list[str]) -> None:
    """Makes reStructuredText of a docstring, of whose marks ours have only `code` and blocks."""
    text = re.sub(  # each of several values that are returned begins a line
        r"^Returns:\n(?: {2}.*\n?|\n)+",
        lambda found: re.sub(r"(?<!:)\n(?= {2}\w+: )", "\n\n", found[0]),
        "\n".join(lines),
        flags=re.M,
    )
    parts = re.split(r"(`[^`]*`|(?<=\n\n)(?: {4}.*(?:\n|$))+)", text)
    parts[::2] = [re.sub(r"[|*\\]|_(?!\w)", r"\\\g<0>", text) for text in parts[::2]]
    parts[1::2] = [f"{code}\\ " if code[0] == "`" else f"::\n\n{code}" for code in parts[1::2]]
    lines[:] = "".join(parts).split("\n")
    if what in ("attribute", "data", "property"):
        lines[0] = f": {lines[0]}"  # else Napoleon takes the words before a colon for a type


def _name_front_page(app: Sphinx, exception: Exception | None) -> None:
    if exception is None:
        shutil.copy(
            pathlib.Path(app.outdir, f"{root_doc}.html"), pathlib.Path(app.outdir, "index.html")
        )


def setup(app: Sphinx) -> None:
    """Connects the functions above."""
    app.connect("autodoc-process-docstring", _plain_docstring, priority=100)  # before napoleon
    app.connect("source-read", _extend)
    app.connect("build-finished", _name_front_page)
