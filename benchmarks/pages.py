"""Tables of the docs that show recorded runs: ours and others side by side, and what corpora take.

`python -m benchmarks.pages` fills the pages between their marks, from `benchmarks/results` and from what
`python -m studies` and `python -m studies explanations` recorded. It measures nothing.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import clustering, imdb, tables
from benchmarks.classifier_page import explanation_table
from benchmarks.report import fill_all
from benchmarks.results import Result, Row, number
from hardmax._files import written_whole
from hardmax.figures.shared import read_results

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs"
EXPLAINED = ("hardmax", "hardmax-even", "lime", "shap-partition", "shap-permutation", "leave-one-out", "random")
SIZES = (100, 1000, 10_000)
CLUSTERERS = ("hardmax", clustering.UNTOLD, "KMeans", "HDBSCAN", "AffinityPropagation")
GPU = (  # how the names of cases begin
    "forward, bfloat16, batch 64, n = 4096, d = 64, against SDPA",
    "forward and backward, bfloat16, batch 64, n = 4096, d = 64, against SDPA",
    "forward and backward, bfloat16, batch 64, n = 4096, d = 64, causal, against SDPA",
    "forward and backward, bfloat16, batch 8, n = 16384, d = 128, against SDPA",
    "forward and backward, bfloat16, batch 256, n = 1024, d = 64, against SDPA",
    "forward, bfloat16, batch 64, n = 4096, d = 64, every key 2 times, against SDPA",
    "forward, bfloat16, batch 256, n = 1024, d = 64, against SDPA",
    "forward, bfloat16, batch 512, n = 512, d = 64, against SDPA",
    "forward and backward, bfloat16, batch 512, n = 512, d = 64, against SDPA",
    "exact sets, bfloat16, batch 64, n = 4096, d = 64, against matmul and argmax",
)

Table = Callable[[], str]


def recorded(name: str) -> dict[str, Any]:
    """What `python -m benchmarks ... --out` wrote."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def cases(file: str = "cpu") -> dict[str, Result]:
    """Every recorded case by its name."""
    return kinds(file)[0][1]


def kinds(file: str = "cpu") -> list[tuple[str, dict[str, Result]]]:
    """The instructions allowed, and every recorded case by its name, for each kind of machine that was measured."""
    documents = tables.recorded(ROOT / "benchmarks" / "results" / f"{file}.json")
    return [(tables.kind(one), {case["name"]: Result.from_dict(case) for case in one["cases"]}) for one in documents]


def against(peers: Sequence[str], names: Iterable[str], file: str = "cpu") -> str:
    """A line for each of the peers in each case: our time, theirs, and how many times as fast ours is."""
    (_, found), *more = kinds(file)
    lines = _head("what", "ours, ms", "the other", "its ms", "times as fast", *_again(more, *TIMES))
    for name in names:
        ours, *others = found[name].rows
        for row in others:
            if row.method.startswith(tuple(peers)) and row.ratio is not None and ours.seconds and row.seconds:
                cells = [found[name].title, ours.milliseconds, row.label, row.milliseconds, row.times]
                for _, again in more:
                    first, same = (_row(again, name, method) for method in (ours.method, row.method))
                    cells += [first.milliseconds, same.milliseconds, same.times]
                lines.append(_line(cells))
    return _once(lines)


TIMES = ("ours, ms", "its ms", "times as fast")


def _again(more: Sequence[tuple[str, Any]], *columns: str) -> list[str]:
    """Columns for further kinds of machine."""
    return [f"{column}, {kind}" for kind, _ in more for column in columns]


def _row(found: dict[str, Result], case: str, method: str) -> Row:
    """The row of a method, empty where it was not measured."""
    rows = found[case].rows if case in found else []
    return next((row for row in rows if row.method == method), Row(method))


def accuracy_of_flows() -> str:
    """Errors of loops and of `simulate` on the same flow, beside their times."""
    (_, found), *more = kinds()
    lines = _head("flow", "method", "ms", *_again(more, "ms"), "largest error")
    for name in ("polytope_flow", "hyperplane_flow"):
        for row in found[name].rows:
            times = [row.milliseconds, *(_row(again, name, row.method).milliseconds for _, again in more)]
            lines.append(_line((found[name].title, row.method, *times, row.facts["error"].removeprefix("error "))))
    return _once(lines)


def explanations() -> str:
    """The explanations of LIME, SHAP and ours."""
    found = read_results("explanations")
    return explanation_table(found | {"rows": [row for row in found["rows"] if row["method"] in EXPLAINED]})


def small(kind: str, key_of: dict[str, str], methods: Sequence[str], sizes: Sequence[int] = SIZES) -> str:
    """Files of some sizes, classes even or not; a column has one number of all methods, in their order."""
    lines = _head("texts", "rows", *key_of)
    rows = [row for row in read_results("small") if kind in row["variant"] and row["rows"] in sizes]
    for row in rows:
        texts = row["variant"].rpartition(",")[0].removesuffix(f", {kind}")
        cells = []
        for key in key_of.values():
            values = [row["methods"][method][key][0] for method in methods]
            cells.append(" / ".join(f"{value:.2g}" if key == "seconds" else f"{value:.3f}" for value in values))
        lines.append(_line((texts, f"{row['rows']:,}", *cells)))
    return "\n".join(lines)


EVEN = {"accuracy": "accuracy", "log loss": "log_loss", "calibration error": "ece", "training seconds": "seconds"}
UNEVEN = {"mean F1": "f1", "accuracy": "accuracy"}


def answers() -> str:
    """What a thousand answers cost, with and without reasons."""
    (_, found), *more = kinds()
    lines = _head("1,000 texts as long as reviews", "ms", *_again(more, "ms"))
    names = {"explain_many, labels": "hardmax: labels, and what each token adds"}
    names |= {"and every token as text": "hardmax: the same, with every token as text"}
    for row in found["classifier_explain"].rows:
        if row.seconds is not None:
            again = (_row(other, "classifier_explain", row.method).milliseconds for _, other in more)
            lines.append(_line((names.get(row.method, row.method), row.milliseconds, *again)))
    return "\n".join(lines)


def clusters() -> str:
    """Adjusted Rand index of some clusterers on every data set."""
    rows = {(row["data"], row["method"]): row for row in recorded("clustering")["rows"]}
    lines = _head("points", "n, d, clusters", *CLUSTERERS)
    for data in dict.fromkeys(data for data, _ in rows):
        first = rows[data, "hardmax"]
        shape = f"{first['n']:,}, {first['d']}, {first['clusters']}"
        lines.append(_line((data, shape, *(f"{rows[data, method]['ARI']:.3f}" for method in CLUSTERERS))))
    return "\n".join(lines)


def many_points() -> str:
    """Seconds of the processor and memory of clusterers on many points."""
    lines = _head("points", "method", "seconds of the processor", "MB beside the data", "clusters found")
    for row in recorded("clustering_sizes")["rows"]:
        cells = (f"{row['n']:,} {row['data']}", row["method"], f"{row['processor']:.3g}", f"{row['peak']:,.0f}")
        lines.append(_line((*cells, str(row["found"]))))
    return "\n".join(lines)


def on_a_gpu() -> str:
    """Hardmax attention against softmax attention, where we win and where we lose."""
    lines = _head("what", "how", "ours, ms", "the other, ms", "times as fast")
    for case in GPU:
        for row in recorded("gpu")["rows"]:
            if row["case"].startswith(case):
                values = (number(row[key]) for key in ("ours ms", "other ms", "times as fast"))
                lines.append(_line((row["case"], row["how"], *values)))
    return _once(lines)


def tiny() -> str:
    """One layer of a hundred tokens, where the start of a call is most of it."""
    lines = _head("one layer, 100 Gaussian tokens", "best of our kernels, ms", "FAISS, ms")
    rows = [row for row in recorded("scaling")["rows"] if row["n"] == 100 and row["tokens"] == "gaussian"]
    for d in dict.fromkeys(row["d"] for row in rows):
        ours = min(row["seconds"] for row in rows if row["d"] == d and row["method"] != "FAISS")
        faiss = min(row["seconds"] for row in rows if row["d"] == d and row["method"] == "FAISS")
        lines.append(_line((f"d = {d}", number(1e3 * ours), number(1e3 * faiss))))
    return "\n".join(lines)


def corpus_rows() -> str:
    """Files of some sizes: how much memory, and how much disk."""
    lines = _head("rows", "largest process, MB", "the client, MB", "answers with reasons, bytes a row")
    for row in recorded("corpora_rows")["rows"]:
        cells = (f"{row[key]:,.0f}" for key in ("rows", "child MB", "client MB"))
        lines.append(_line((*cells, f"{row['answers MB'] * 1e6 / row['rows']:.0f}")))
    return "\n".join(lines)


def a_billion() -> str:
    """What follows for 10^9 texts on 160 workers, from rows a second of one worker; computed, not run."""
    beside = {row["what"]: float(row["measured"].split()[0].replace(",", "")) for row in recorded("corpora")["rows"]}
    largest = max(recorded("corpora_rows")["rows"], key=lambda row: row["rows"])
    short, share = beside["files on one worker, beyond the start"], beside["files against the loop"]
    long = share * 1000 / (cases()["classifier_explain"].rows[0].seconds or 1)
    lines = _head("10^9 texts", "rows a second and worker", "core-hours", "minutes on 160 workers", "answers, GB")
    size = largest["answers MB"] / largest["rows"] * 1e6  # GB of 10^9 rows
    for what, rate, answers in (("made reviews", short, f"{size:,.0f}"), ("as long as film reviews", long, "")):
        cells = (f"{rate:,.0f}", f"{1e9 / rate / 3600:,.0f}", f"{1e9 / rate / 160 / 60:,.0f}")
        lines.append(_line((what, *cells, answers)))
    return "\n".join(lines)


LOOPS = ("plane_gaussian", "plane_duplicated", "gaussian", "slow_ball", "all_leaders")
SEARCHES = (
    "plane_gaussian",
    "plane_circle",
    "space_gaussian",
    "space_sphere",
    "d16_gaussian_large",
    "d16_sphere_large",
)
SEARCHES += ("d128_gaussian_large", "d128_sphere", "d768_gaussian")
PAGES: dict[str, dict[str, Table]] = {
    "compare/papers-code": {
        "loops": lambda: against(("loop over tokens", "triple loop"), LOOPS),
        "flows": accuracy_of_flows,
        "steps": lambda: against(("the paper's step",), ("classifier_step_2", "classifier_step_16")),
    },
    "compare/lime-and-shap": {"explanations": explanations},
    "compare/tfidf-logistic-regression": {
        "imdb": lambda: imdb.markdown(recorded("imdb")),
        "even": lambda: small("even", EVEN, ("hardmax", "TF-IDF")),
        "uneven": lambda: small("90:10", UNEVEN, ("hardmax", "TF-IDF", "TF-IDF, balanced")),
        "answers": answers,
    },
    "compare/clusterers": {
        "clusters": clusters,
        "seconds": lambda: against(
            ("KMeans", "HDBSCAN", "AffinityPropagation"), ("clustering_5000", "clustering_20000"), "clustering_speed"
        ),
        "sizes": many_points,
    },
    "compare/faiss-and-flashattention": {
        "searches": lambda: against(("FAISS",), SEARCHES),
        "tiny": tiny,
        "training": lambda: against(("softmax", "scaled_dot_product"), ("training_step",)),
        "gpu": on_a_gpu,
    },
    "how-to/gpu": {"gpu": on_a_gpu},
    "corpora": {"rows": corpus_rows, "billion": a_billion},
}


def filled(name: str, text: str) -> str:
    """A page with each of its tables between its mark and the next end mark."""
    return fill_all(text, PAGES[name], "benchmarks.pages")


TEXTS = ("method", "the other", "how", "n, d, clusters")  # columns of words; the others but the first are numbers


def _head(*columns: str) -> list[str]:
    return [_line(columns), f"|---|{''.join('---|' if name in TEXTS else '---:|' for name in columns[1:])}"]


def _once(lines: list[str]) -> str:
    """The lines as a table; what begins like the line before it does not say so again."""
    starts = [line.split(" | ")[0] for line in lines]
    again = [i for i in range(3, len(lines)) if starts[i] == starts[i - 1]]
    return "\n".join(f"| {lines[i].removeprefix(starts[i])}" if i in again else lines[i] for i in range(len(lines)))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for name in PAGES:
        path = FOLDER / f"{name}.md"
        text = filled(name, path.read_text(encoding="utf-8"))
        with written_whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
