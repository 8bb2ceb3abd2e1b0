"""Builds the documentation site in build/site:  python docs/make_site.py

The site has the same tree as the repository, with README.md as its first page, so that a link works in both. Notebooks
become pages, and formulas (```math) become MathML, which browsers draw themselves: no script, no fonts, no network.
"""

import base64
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert

ROOT = Path(__file__).parent.parent
_LINKED = "src/focops/studies/published.toml"
"""What a page of results links to, besides pages."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Of a terminal, as they stand in the plain text of an output."""
_MATH = re.compile(r"^```math\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


def build(folder: Path) -> None:
    """Make the site in `folder`/site from pages in `folder`/pages; any warning, also of a link, is an error."""
    pages = folder / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    pages.mkdir(parents=True)
    shutil.copy(ROOT / "README.md", pages / "index.md")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, pages / name)
    for part in ("docs", "results"):
        shutil.copytree(ROOT / part, pages / part, ignore=shutil.ignore_patterns("*.py", "*.json*", "*.jsonl", "__*"))
    (pages / _LINKED).parent.mkdir(parents=True)
    shutil.copy(ROOT / _LINKED, pages / _LINKED)
    for notebook in pages.rglob("*.ipynb"):
        notebook.with_suffix(".md").write_text(_page(notebook))
    for page in pages.rglob("*.md"):
        page.write_text(_with_formulas(page.read_text()).replace(".ipynb)", ".md)"))
    settings = (ROOT / "zensical.toml").read_text().replace('paths = ["src"]', f'paths = ["{ROOT / "src"}"]')
    (folder / "zensical.toml").write_text(settings)
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=True)


def _with_formulas(text: str) -> str:
    return _MATH.sub(lambda found: f'<div class="formula">{convert(found[1], display="block")}</div>', text)


def _page(notebook: Path) -> str:
    """An executed notebook as Markdown; pictures go into files beside it."""
    parts = []
    for number, cell in enumerate(nbformat.read(notebook, as_version=4).cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [_output(output, notebook.with_name(f"{notebook.stem}-{number}.png")) for output in cell.outputs]
    return "\n\n".join(part for part in parts if part) + "\n"


def _output(output: Any, picture: Path) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![]({picture.name})"
    text = output.get("text") or data.get("text/plain", "")
    text = _COLOURS.sub("", text).rstrip()
    return f"```text\n{text}\n```" if text else ""


if __name__ == "__main__":
    build(ROOT / "build")
