"""`python -m studies.pages`: fill every table of the docs that shows recorded runs. It
measures nothing.

The records are in `benchmarks/results`, and those of the classifier's studies beside
the figures.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu, report
from benchmarks.machine import RESULTS, ROOT
from benchmarks.registry import Result, Row
from pandas import read_csv

from hardmax.figures.shared import read_results
from studies import attention, classifier_page, encoders, mean_field
from studies.measure import STUDIES, mark

EXPLAINERS = (
    "hardmax",
    "hardmax-even",
    "lime",
    "shap-partition",
    "shap-permutation",
    "leave-one-out",
    "random",
)
GPU_CASES = (  # how the names of cases begin
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
GPU_MODES = "CUDA graph", "eager"
LOOPS = ("plane_gaussian", "plane_duplicated", "gaussian", "slow_ball", "all_leaders")
SEARCHES = (
    "plane_gaussian",
    "plane_circle",
    "space_gaussian",
    "d16_gaussian_large",
)
SEARCHES += ("d16_sphere_large", "d128_gaussian_large", "d128_sphere", "d768_gaussian")
EVEN = {
    "accuracy": "accuracy",
    "log loss": "log_loss",
    "calibration error": "ece",
    "training seconds": "seconds",
}
UNEVEN = {"mean F1": "f1", "accuracy": "accuracy"}
Table = Callable[[], str]


def record(name: str) -> dict[str, Any]:
    """Read a recorded study."""
    return read_json(RESULTS / f"{name}.json")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def kinds(file: str = "cpu") -> list[tuple[str, dict[str, Result]]]:
    """Return the instructions and the cases of each kind of machine that was measured."""
    return [
        (report.kind(each), report.cases_by_name(each))
        for each in report.documents(RESULTS / f"{file}.json")
    ]


def _row(cases: dict[str, Result], case: str, method: str) -> Row:
    """Return the row of a method, empty if it was not measured."""
    rows = cases[case].rows if case in cases else []
    return next((row for row in rows if row.method == method), Row(method))


def against(peers: Sequence[str], names: Iterable[str], file: str = "cpu") -> str:
    """Return a line for each of the peers in each case: our time, theirs, and the
    ratio, for each kind of machine.
    """
    measured = kinds(file)
    columns = ["what", "the other"]
    for kind, _ in measured:
        end = f", {kind}" if len(measured) > 1 else ""
        columns += [f"ours, ms{end}", f"its ms{end}", f"times as fast{end}"]
    body = []
    for name in names:
        title, (ours, *others) = measured[0][1][name].title, measured[0][1][name].rows
        for row in others:
            if row.method.startswith(tuple(peers)) and row.ratio is not None:
                cells: list[Any] = []
                for _, cases in measured:
                    first, peer = (
                        _row(cases, name, method)
                        for method in (ours.method, row.method)
                    )
                    cells += [
                        report.milliseconds(first),
                        report.milliseconds(peer),
                        report.times(peer),
                    ]
                body.append([title, row.label, *cells])
                title = ""  # printed once
    return report.lines(columns, body, ["the other"])


def flow_accuracy() -> str:
    """Return errors of loops and of `simulate` on the same flow, with their times."""
    measured = kinds()
    columns = [
        "flow",
        "method",
        *(f"ms, {kind}" for kind, _ in measured),
        "largest error",
    ]
    body = []
    for name in ("polytope_flow", "hyperplane_flow"):
        title = measured[0][1][name].title
        for row in measured[0][1][name].rows:
            times = [
                report.milliseconds(_row(cases, name, row.method))
                for _, cases in measured
            ]
            body.append(
                [title, row.method, *times, row.facts["error"].removeprefix("error ")]
            )
            title = ""
    return report.lines(columns, body, ["method"])


def answers() -> str:
    """Return what a thousand answers cost, with and without reasons."""
    measured = kinds()
    names = {"explain_many, labels": "hardmax: labels, and what each token adds"}
    names |= {"and every token as text": "hardmax: the same, with every token as text"}
    rows = [
        row.method
        for row in measured[0][1]["classifier_explain"].rows
        if row.seconds is not None
    ]
    columns = [
        "1,000 texts as long as reviews",
        *(f"ms, {kind}" for kind, _ in measured),
    ]
    times = lambda method: [  # noqa: E731
        report.milliseconds(_row(cases, "classifier_explain", method))
        for _, cases in measured
    ]
    return report.lines(
        columns, ([names.get(method, method), *times(method)] for method in rows)
    )


def explanations() -> str:
    """Return the explanations of LIME, SHAP and ours."""
    found = read_results("explanations")
    rows = [row for row in found["rows"] if row["method"] in EXPLAINERS]
    return classifier_page.explanation_table(found | {"rows": rows})


def small_files(kind: str, key_of: dict[str, str], methods: Sequence[str]) -> str:
    """Return files of some sizes with even or uneven classes; a cell has one number for
    each method.
    """
    body = []
    for row in read_results("small"):
        if kind in row["variant"] and row["rows"] in (100, 1000, 10_000):
            cells = []
            for key in key_of.values():
                digits = ".2g" if key == "seconds" else ".3f"
                found = (row["methods"].get(method, {}).get(key) for method in methods)
                cells.append(
                    " / ".join(
                        "-" if each is None else format(each[0], digits)
                        for each in found
                    )
                )
            body.append(
                [
                    row["variant"].rpartition(",")[0].removesuffix(f", {kind}"),
                    row["rows"],
                    *cells,
                ]
            )
    return report.lines(["texts", "rows", *key_of], body)


def on_a_gpu() -> str:
    """Return hardmax attention against softmax attention."""
    columns = [
        "what",
        *(
            f"{what}, {how}"
            for how in GPU_MODES
            for what in ("ours, ms", "other, ms", "times as fast")
        ),
    ]
    body = []
    for case in GPU_CASES:
        rows = {
            row["how"]: row
            for row in record("gpu")["rows"]
            if row["case"].startswith(case)
        }
        keys = ("ours ms", "other ms", "times as fast")
        body.append(
            [
                case,
                *(
                    rows[how][key] if how in rows else None
                    for how in GPU_MODES
                    for key in keys
                ),
            ]
        )
    return report.lines(columns, body)


def flows_on_a_gpu() -> str:
    """Return flows against the same integrator in plain torch."""
    rows = []
    for row in record("gpu")["rows"]:
        what, _, peer = row["case"].partition(
            ", against plain torch, whose tokens differ by "
        )
        if peer:
            cells = (
                what.removeprefix("flow, "),
                row["ours ms"],
                row["other ms"],
                row["times as fast"],
            )
            rows.append([*cells, peer])
    return report.lines(
        ["flow", "ours, ms", "plain torch, ms", "times as fast", "difference"], rows
    )


def largest_products_on_a_gpu() -> str:
    """Return the argmax alone, d = 64, against kernels without an error bound: one line
    for each size.
    """
    times: dict[str, dict[str, float]] = {}
    for row in record("gpu")["rows"]:
        what, _, peer = row["case"].partition(", against ")
        if what.startswith(
            ("largest product, bfloat16", "largest product, float32")
        ) and what.endswith("d = 64"):
            line = times.setdefault(
                what.removeprefix("largest product, "), {"ours": row["ours ms"]}
            )
            line[peer.split()[0]] = row["other ms"]
    columns = [
        "what",
        "ours, ms",
        "fused kernel, ms",
        "times as fast",
        "torch.compile, ms",
        "times as fast",
    ]
    rows = [
        [
            what,
            t["ours"],
            t["a"],
            t["a"] / t["ours"],
            t["torch.compile"],
            t["torch.compile"] / t["ours"],
        ]
        for what, t in times.items()
    ]
    return report.lines(columns, rows)


def tiny() -> str:
    """Return one layer of a hundred tokens, for which starting the call takes most of
    the time.
    """
    rows = [
        row
        for row in record("scaling")["rows"]
        if row["n"] == 100 and row["tokens"] == "gaussian"
    ]

    def best(d: int, is_faiss: bool) -> float:
        wanted = (
            row
            for row in rows
            if row["d"] == d and (row["method"] == "FAISS") == is_faiss
        )
        return 1e3 * min(row["seconds"] for row in wanted)

    columns = ["one layer, 100 Gaussian tokens", "best of our kernels, ms", "FAISS, ms"]
    dimensions = dict.fromkeys(row["d"] for row in rows)
    return report.lines(
        columns, ([f"d = {d}", best(d, False), best(d, True)] for d in dimensions)
    )


def file_sizes() -> str:
    """Return memory and disk space of predicting files of some sizes."""
    columns = {
        "rows": "rows",
        "largest process, MB": "child MB",
        "the client, MB": "client MB",
        "answers with reasons, bytes a row": lambda row: round(
            row["answers MB"] * 1e6 / row["rows"]
        ),
    }
    return report.table(record("corpora_rows")["rows"], columns)


PAGES: dict[str, dict[str, Table]] = {  # the tables of a page by name
    "docs/compare/papers-code.md": {
        "loops": lambda: against(("loop over tokens", "triple loop"), LOOPS),
        "flows": flow_accuracy,
        "steps": lambda: against(
            ("the paper's step",), ("classifier_step_2", "classifier_step_16")
        ),
    },
    "docs/compare/lime-and-shap.md": {
        "explanations": explanations,
        "rationales": lambda: encoders.rationales_table(
            read_json(encoders.RATIONALES_TABLE)
        ),
    },
    "docs/compare/text-classifiers.md": {
        "even": lambda: small_files(
            "even", EVEN, ("hardmax", "TF-IDF", "NB-SVM", "embeddings")
        ),
        "uneven": lambda: small_files(
            "90:10", UNEVEN, ("hardmax", "TF-IDF", "TF-IDF, balanced")
        ),
        "encoders on sentences": lambda: encoders.markdown(
            read_json(encoders.TABLE), "sentences"
        ),
        "encoders on reviews": lambda: encoders.markdown(
            read_json(encoders.TABLE), "reviews"
        ),
        "encoder costs": lambda: encoders.costs_table(read_json(encoders.COSTS_TABLE)),
        "negation": lambda: encoders.negation_table(read_json(encoders.NEGATION_TABLE)),
        "ablations": lambda: classifier_page.ablation_table(read_results("ablations")),
        "paper": lambda: classifier_page.paper_table(read_results("paper")),
        "answers": answers,
    },
    "docs/compare/faiss-and-flashattention.md": {
        "searches": lambda: against(("FAISS",), SEARCHES),
        "tiny": tiny,
        "training": lambda: against(
            ("softmax", "scaled_dot_product"), ("training_step",)
        ),
        "gpu": on_a_gpu,
        "products": largest_products_on_a_gpu,
    },
    "benchmarks/README.md": {"rows": file_sizes},
    "docs/classifier.md": {"settings": classifier_page.settings_table},
    "docs/how-to/gpu.md": {"flows on a GPU": flows_on_a_gpu},
    "docs/studies/mean_field.md": {
        "mean_field": lambda: mean_field.markdown(read_json(mean_field.RECORD))
    },
    "docs/studies/attention.md": {
        "attention": lambda: attention.markdown(read_csv(attention.TABLE))
    },
}


def tables() -> dict[str, dict[str, str]]:
    """Return every recorded table: the table by mark, by page."""
    found: dict[str, dict[str, str]] = {}

    def add(page: str, begin: str, table: str) -> None:
        found.setdefault(page, {})[begin] = table

    for page, named in PAGES.items():
        for name, make in named.items():
            add(page, f"<!-- made by python -m studies.pages: {name} -->", make())
    for name, study in STUDIES.items():
        if study.table is not None:
            add(study.page, mark(name), study.table(record(name)))
    readme = "benchmarks/README.md"
    add(readme, report.BEGIN, report.markdown(report.documents(RESULTS / "cpu.json")))
    add(readme, report.FLOWS, report.markdown(report.documents(RESULTS / "flows.json")))
    add(
        "docs/compare/clusterers.md",
        report.BEGIN,
        report.markdown(report.documents(RESULTS / "clustering_speed.json")),
    )
    add(readme, report.GPU, gpu.markdown(record("gpu")))
    return found


def fill_page(page: str, named: dict[str, str]) -> str:
    """Return the text of a page with its tables."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for begin, table in named.items():
        text = report.fill(text, table, begin)
    return text


if __name__ == "__main__":
    for page, named in tables().items():
        (ROOT / page).write_text(fill_page(page, named), encoding="utf-8")
