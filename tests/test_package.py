"""What the package promises as a whole."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hardmax as hm

ROOT = Path(__file__).parents[1]


def test_import_loads_nothing_optional() -> None:
    heavy = ("matplotlib", "flint", "typer", "rich", "torch", "sklearn", "numba", "imageio_ffmpeg", "transformers")
    heavy += ("plotly", "cvxpy", "clarabel", "dask", "distributed", "pyarrow", "pandas")
    heavy += ("scipy.sparse", "scipy.spatial", "scipy.integrate", "scipy.linalg", "scipy.special", "scipy.optimize")
    code = f"import hardmax, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_extra_says_what_to_install() -> None:
    code = "import sys; sys.modules['flint'] = None; import hardmax as hm; hm.limit([[1.0]], hm.Hardmax(1, exact=True))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "hardmax.MissingExtra: `exact=True` needs python-flint: pip install 'hardmax[exact]'." in done.stderr


@pytest.mark.parametrize("package", ["sklearn", "safetensors"])
def test_a_classifier_says_what_to_install(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import hardmax as hm; hm.pretrained('imdb')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"needs {package}: pip install 'hardmax[text]'." in done.stderr


def test_without_flint_the_default_is_still_exact() -> None:
    code = (
        "import sys; sys.modules['flint'] = None; import hardmax as hm;"
        "print(hm.limit([[1, 1], [1, -1], [-1, 0], [0.5, 0]], hm.Hardmax(1)).exact()[3])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[Fraction(1, 1) Fraction(0, 1)]"


def test_completion_offers_the_public_names() -> None:
    functions = {
        "hardmax_attention",
        "hardmax_layers",
        "inspect",
        "interactive",
        "playground",
        "predict_files",
        "pretrained",
        "sweep",
    }
    modules = {"control", "draw", "scale", "text"}
    classes = {"HardmaxAttention", "HardmaxClassifier", "HardmaxClustering"}
    assert set(dir(hm)) == {*hm.__all__, "__version__", *classes, *functions, *modules}
    assert callable(hm.inspect)
    assert callable(hm.interactive)
    assert hm.draw.plot_tokens
    assert hm.draw.movie


@pytest.mark.parametrize("name", hm.REMOVED)
def test_a_removed_name_says_what_replaces_it(name: str) -> None:
    with pytest.raises(ImportError, match=rf"`hardmax\.{name}` was removed"):
        getattr(hm, name)


def test_public_names_exist() -> None:
    assert all(hasattr(hm, name) for name in hm.__all__)
    assert list(hm.__all__) == sorted(hm.__all__)


def test_the_citation_has_the_version_and_both_papers() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {hm.__version__}" in text
    assert "2407.01602" in text
    assert "2305.05465" in text


def test_extras_state_ranges_and_constraints_pin_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert not [entry for entries in [project["dependencies"], *extras.values()] for entry in entries if "==" in entry]
    assert extras["all"] == ["hardmax[app,cluster,control,encoders,exact,excel,fast,movies,notebook,scale,text]"]
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
