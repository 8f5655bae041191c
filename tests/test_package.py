"""What the package promises as a whole."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hardmax as hm
from hardmax._errors import install_command

ROOT = Path(__file__).parents[1]


def test_import_loads_nothing_optional() -> None:
    heavy = (
        "matplotlib",
        "flint",
        "typer",
        "rich",
        "torch",
        "sklearn",
        "numba",
        "imageio_ffmpeg",
        "transformers",
    )
    heavy += ("plotly", "cvxpy", "clarabel", "dask", "distributed", "pyarrow", "pandas")
    heavy += (
        "scipy.sparse",
        "scipy.spatial",
        "scipy.integrate",
        "scipy.linalg",
        "scipy.special",
        "scipy.optimize",
    )
    code = (
        f"import hardmax, sys; print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


NEEDED = [  # package, code, the end of the error
    (
        "flint",
        "hm.limit([[1.0]], hm.Hardmax(1, exact=True))",
        f"needs python-flint: {install_command('exact')}.",
    ),
    (
        "sklearn",
        "hm.HardmaxClustering",
        f"needs scikit-learn: {install_command('cluster')}.",
    ),
    ("sklearn", "hm.pretrained('imdb')", f"needs sklearn: {install_command('text')}."),
    (
        "cvxpy",
        "hm.control.choose_A([[1.0], [-1.0]], leaders=[0])",
        f"needs CVXPY: {install_command('control')}.",
    ),
    (
        "distributed",
        "hm.sweep('leaders', {'n': [5]}, out='x')",
        f"needs distributed: {install_command('scale')}.",
    ),
    ("torch", "hm.hardmax_attention", f"needs torch: {install_command('torch')}."),
    ("torch", "hm.hardmax_layers", f"needs torch: {install_command('torch')}."),
    (
        "safetensors",
        "hm.pretrained('imdb')",
        f"needs safetensors: {install_command('text')}.",
    ),
]


def run_without(package: str, code: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.modules[{package!r}] = None; import hardmax as hm; {code}"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("package", "code", "end"), NEEDED)
def test_a_missing_extra_names_the_pip_command(
    package: str, code: str, end: str
) -> None:
    error = run_without(package, code).stderr.strip()
    assert "hardmax.MissingExtra: " in error
    assert error.endswith(end)


def find_named_extras() -> set[str]:
    """Return the extras that the package names where it reports a missing one."""
    names = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(getattr(node, "func", None), "id", "")
            if isinstance(node, ast.Call) and called in ("needed_for", "MissingExtra"):
                names |= {
                    value.value for value in node.args[2:] if hasattr(value, "value")
                }
    return names


def test_every_hint_names_an_extra_and_the_source_tree(monkeypatch, tmp_path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = find_named_extras()
    assert {"app", "cluster", "control", "encoders", "exact", "fast", "torch"} < named
    assert named <= set(project["optional-dependencies"])
    for extra in project["optional-dependencies"]:
        error = str(hm.MissingExtra("`this`", "a package", extra))
        # A name alone would be looked up on an index, where hardmax is not.
        assert "pip install 'hardmax" not in error
        assert error.endswith(f"pip install -e '{ROOT}[{extra}]'.")
    installed = tmp_path / "site-packages" / "hardmax" / "_errors.py"
    monkeypatch.setattr("hardmax._errors.__file__", str(installed))
    assert (
        install_command("text") == "pip install '.[text]' in a clone of the repository"
    )


def test_what_needs_no_extra_runs_without_it() -> None:
    assert (
        run_without("cvxpy", "print(hm.control.can_lead([[1.0]]))").stdout.strip()
        == "[ True]"
    )
    done = run_without(
        "flint",
        "print(hm.limit([[1, 1], [1, -1], [-1, 0], [0.5, 0]],"
        " hm.Hardmax(1)).exact()[3])",
    )
    assert done.stdout.strip() == "[Fraction(1, 1) Fraction(0, 1)]"


def test_public_names_exist_and_are_completed() -> None:
    modules = {"control", "draw", "scale", "text"}
    lazy = {
        "HardmaxAttention",
        "HardmaxClassifier",
        "HardmaxClustering",
        "HullCache",
        "hardmax_attention",
    }
    lazy |= {
        "hardmax_layers",
        "inspect",
        "interactive",
        "playground",
        "predict_files",
        "pretrained",
        "sweep",
    }
    assert set(dir(hm)) == {*hm.__all__, "__version__", *lazy, *modules}
    assert all(hasattr(hm, name) for name in dir(hm))
    assert list(hm.__all__) == sorted(hm.__all__)
    assert callable(hm.inspect)
    assert callable(hm.draw.plot_tokens)


def test_files_of_a_release_agree() -> None:
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("CITATION.cff", "CHANGELOG.md", "README.md")
    }
    newest = re.search(r"^## (\S+)", texts["CHANGELOG.md"], re.MULTILINE)
    assert newest is not None
    assert newest[1] == hm.__version__
    assert f"\nversion: {hm.__version__}\n" in texts["CITATION.cff"]
    assert {"2407.01602", "2305.05465"} <= set(
        re.findall(r"\d{4}\.\d{5}", texts["CITATION.cff"])
    )
    assert len(texts["README.md"].splitlines()) <= 70


def test_extras_state_ranges_and_constraints_pin_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert not [
        entry
        for entries in [project["dependencies"], *extras.values()]
        for entry in entries
        if "==" in entry
    ]
    assert extras["all"] == [
        "hardmax[app,cluster,control,encoders,exact,excel,fast,movies,notebook,scale,text]"
    ]
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
