"""Every example of the gallery runs and shows something."""

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
from tests import certificates
from tests.processes import occupied_port

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))
ARGUMENTS = {
    "control_leaders": ["1"],
    "outside_the_hypotheses": ["2"],
}  # a small number of tasks, of runs
SLOW = {
    "corpus_in_parts",
    "cylinder_flow",
    "hard_heads",
    "inspect_minilm",
    "polytope",
    "reviews_evolution",
    "topics_of_comments",
}
GALLERY = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
]  # `make docs` runs every example, these included


def _name(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_of_the_papers_is_in_the_gallery(figure: str) -> None:
    """One example names the command that writes the figure, and draws it by the same
    functions.
    """
    command = rf"hardmax\s+reproduce\s+(# )?{figure}\b"  # may contain a line break
    (source,) = [
        text for text in map(Path.read_text, EXAMPLES) if re.search(command, text)
    ]
    compute, draw = FIGURES[figure].compute, FIGURES[figure].draw
    assert f"from {draw.__module__} import" in source
    assert f" {compute.__name__}(" in source
    assert f"figure = {draw.__name__}(" in source


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=GALLERY if path.stem in SLOW else [])
        for path in EXAMPLES
    ],
    ids=_name,
)
def test_an_example_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Run an example in this process, where torch and Matplotlib are loaded; check the
    certificates of its limits.
    """
    mpl.use("Agg")
    limits = certificates.collect_limits(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), *ARGUMENTS.get(path.stem, [])])
    monkeypatch.setattr(plt, "show", lambda: None)
    try:
        with occupied_port(8787):  # the default port of Dask's dashboard
            names = runpy.run_path(str(path), run_name="__main__")
        shown = [thing for thing in names.values() if isinstance(thing, Movie | Page)]
        assert plt.get_fignums() or shown
    finally:
        plt.close("all")
    certificates.assert_accepted(limits)
    out = capsys.readouterr().out
    assert out
    files = re.findall(r"[\w./-]+\.(?:png|svg|gif|mp4|html|npz|json)\b", out)
    assert all(Path(name).is_file() for name in files), files


def test_an_example_runs_as_a_script(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name != "DISPLAY"
    } | {"MPLBACKEND": "Agg"}
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples" / "see_it" / "figure1_half_space.py"),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_page_is_shown_once_and_promises_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the scraper of the site: a page stays under its name while later blocks run."""
    pytest.importorskip("sphinx_gallery")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    gallery = importlib.import_module("extensions.gallery")
    images = iter(())  # asking for the name of one would end the test
    names = {"page": Page("<p>tokens</p>")}
    block = {
        "example_globals": names,
        "src_file": "examples/see_it/some.py",
        "image_path_iterator": images,
    }
    shown = [gallery.shown(None, block, {"src_dir": str(tmp_path)}) for _ in range(2)]
    assert shown[0].count("<iframe") == 1
    assert shown[1] == ""
    assert [
        path
        for path in (tmp_path / "static" / "live").iterdir()
        if "see_it-some" in path.name
    ]
