"""Links into the documentation of other projects, without asking them: the few names
that our pages mention.
"""

import zlib
from pathlib import Path

NAMES = {  # project: its address, the page of a name, and the names with their roles
    "python": (
        "https://docs.python.org/3/",
        "library/{module}.html#{name}",
        {"fractions.Fraction": "class", "pathlib.Path": "class"},
    ),
    "numpy": (
        "https://numpy.org/doc/stable/",
        "reference/generated/{name}.html",
        {
            "numpy.ndarray": "class",
            "numpy.random.Generator": "class",
            "numpy.random.SeedSequence": "class",
        },
    ),
    "scipy": (
        "https://docs.scipy.org/doc/scipy/",
        "reference/generated/{name}.html",
        {"scipy.sparse.csr_array": "class", "scipy.integrate.solve_ivp": "function"},
    ),
    "matplotlib": (
        "https://matplotlib.org/stable/",
        "api/_as_gen/{name}.html",
        {"matplotlib.figure.Figure": "class", "matplotlib.axes.Axes": "class"},
    ),
    "pandas": (
        "https://pandas.pydata.org/docs/",
        "reference/api/{name}.html",
        {"pandas.DataFrame": "class"},
    ),
    "sklearn": (
        "https://scikit-learn.org/stable/",
        "modules/generated/{name}.html",
        {
            "sklearn.cluster.AffinityPropagation": "class",
            "sklearn.cluster.HDBSCAN": "class",
            "sklearn.cluster.KMeans": "class",
        },
    ),
}


def mapping(folder: Path) -> dict[str, tuple[str, str]]:
    """What `intersphinx_mapping` wants, with inventories written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for project, (_, page, names) in NAMES.items():
        (folder / f"{project}.inv").write_bytes(inventory(project, page, names))
    return {
        project: (address, str(folder / f"{project}.inv"))
        for project, (address, *_) in NAMES.items()
    }


def inventory(project: str, page: str, names: dict[str, str]) -> bytes:
    """Names and where they are, in the format that Sphinx reads."""
    head = (
        f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# The rest"
        " is compressed using zlib.\n"
    )
    lines = [
        f"{name} py:{role} 1"
        f" {page.format(name=name, module=name.rpartition('.')[0])} -\n"
        for name, role in names.items()
    ]
    return head.encode() + zlib.compress("".join(lines).encode())
