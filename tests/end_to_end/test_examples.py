"""Every example of the gallery runs, says why, shows something, and ends in what to try."""

import ast
import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from hardmax.draw.movies import Movie
from hardmax.draw.pages import Page
from hardmax.figures import FIGURES

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))
BRIEFLY = {
    "control_leaders.py": ["1"],  # tasks
    "outside_the_hypotheses.py": ["2"],  # runs
}
AS_A_SCRIPT = "exact_ties"
ELSEWHERE = {"phase"}  # of arXiv 2312.10794: the gallery has the figures of the other two papers
TESTED = "cylinder_flow"  # by test_cylinder_flow.py, part by part
LONG = {"corpus_in_parts", "inspect_minilm", "polytope", "reviews_evolution", "topics_of_comments"}


def _name(path: Path) -> str:
    return path.name


def test_the_gallery_is_large_enough() -> None:
    assert len(EXAMPLES) >= 30


@pytest.mark.parametrize("figure", [name for name in FIGURES if name not in ELSEWHERE])
def test_every_figure_of_the_papers_is_in_the_gallery(figure: str) -> None:
    """An example shows it, and names the command that draws it."""
    command = re.compile(rf"hardmax\s+reproduce\s+(# )?{figure}\b")  # lines may break in it
    assert [path for path in EXAMPLES if command.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", EXAMPLES, ids=_name)
def test_an_example_says_why_and_what_to_try(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    title, line, _, *why = (ast.get_docstring(ast.parse(source)) or "").splitlines()
    assert re.fullmatch("=+", line)
    assert len(line) == len(title) <= 75
    assert len(" ".join(why)) > 150
    last = source.rsplit("# %%\n", 1)[1]
    assert last.startswith("# What to try\n# -----------\n# ")
    assert all(line.startswith("#") for line in last.splitlines())


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem not in {TESTED, *LONG}], ids=_name)
def test_an_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """In this process, where torch and Matplotlib are loaded already, and some of them with less to do."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), *BRIEFLY.get(path.name, [])])
    monkeypatch.setattr(plt, "show", lambda: None)
    try:
        names = runpy.run_path(str(path), run_name="__main__")
        shown = [thing for thing in names.values() if isinstance(thing, Movie | Page)]
        assert plt.get_fignums() or shown
    finally:
        plt.close("all")
    out = capsys.readouterr().out
    assert out
    files = re.findall(r"[\w./-]+\.(?:png|svg|gif|mp4|html|npz|json)\b", out)
    assert all(Path(name).is_file() for name in files), files  # what it says it wrote is there


def test_an_example_runs_as_a_script(tmp_path: Path) -> None:
    """Run one example as a reader starts it; the site runs them all."""
    (path,) = [path for path in EXAMPLES if path.stem == AS_A_SCRIPT]
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"} | {"MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_page_is_shown_once_and_promises_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the scraper of the site: a page stays under its name while later blocks run."""
    pytest.importorskip("sphinx_gallery")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    gallery = importlib.import_module("extensions.gallery")
    images = iter(())  # asking for the name of one would end the test
    names = {"page": Page("<p>tokens</p>")}
    block = {"example_globals": names, "src_file": "examples/see_it/some.py", "image_path_iterator": images}
    shown = [gallery.shown(None, block, {"src_dir": str(tmp_path)}) for _ in range(2)]
    assert shown[0].count("<iframe") == 1
    assert shown[1] == ""
    assert [path for path in (tmp_path / "static" / "live").iterdir() if "see_it-some" in path.name]
