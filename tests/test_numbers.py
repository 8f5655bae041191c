"""Every measured number in the prose of the docs follows from a recorded run, or is no measurement, with a reason.

To add a number to a page, add a line to CLAIMS: the page, the words around the number with `{}` in its place, and the
number as it follows from a recorded file. A number that nobody measured, such as a limit or a setting, goes to ALLOWED
with its reason. Tables between `made by` marks and code are tested elsewhere.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from benchmarks import scaling, tables
from studies.classifier import PART

import hardmax as hm
from hardmax.figures.shared import by_start, read_results

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"gallery", "developers.md", "changelog.md", "contributing.md", "command-line.md"}
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if not {*page.parts} & LEFT_OUT]
PAGES.append(ROOT / "benchmarks" / "README.md")

NUMBER = r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
WORD = r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|fifty|hundred|thousand|million)"
UNIT = r"(?:%|percent|ms|s|seconds?|minutes?|hours?|core-\w+|[kMGT]i?B(?:/s)?|bytes|rows/s|times)"
MEASURED = re.compile(
    rf"""(?<![\w.^/-]){NUMBER}(?:\s±\s{NUMBER})?\ ?{UNIT}(?![\w-])   # 1.5 s, 92 %, 300 times
      | (?<![\w-]){WORD}\ (?:times\ as|seconds|minutes|hours|percent)(?!\w)   # ten times as
      | \ba\ (?:third|quarter|tenth|hundredth|thousandth)\ of(?!\w)             # a tenth of
      | (?<![\w.(/,])1/\d{{2,}}(?!\w)                                      # 1/300
      | (?<![\w.^-])(?<!=\ )0?\.\d{{2,}}(?![\w])                          # 0.92, .87, but not alpha = 0.05
    """,
    re.VERBOSE,
)


def prose(text: str) -> list[str]:
    """Paragraphs, items and rows of a page on one line each, without code, formulas, made tables and headings."""
    text = re.sub(r"<!-- made by.*?<!-- end -->", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(```|~~~).*?^\s*\1", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", "`code`", text)
    text = re.sub(r"\$[^$\n]*\$", "$formula$", text)
    lines = [line for line in text.splitlines() if not line.startswith(("#", "    ", "|--"))]
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n|\n(?=\s*[-*|] )|\n(?=\|)", "\n".join(lines))]


def recorded(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def row(case: str, method: str, file: str = "cpu") -> dict[str, Any]:
    """The row of a method, by how its name begins, in a recorded case.

    What is said has to hold on every kind of machine that was measured: it is the row with the smallest ratio, or the
    longest where there is none.
    """
    documents = tables.recorded(ROOT / "benchmarks" / "results" / f"{file}.json")
    cases = [each for document in documents for each in document["cases"] if each["name"] == case]
    rows = [each for found in cases for each in found["rows"] if each["method"].startswith(method)]
    first = [each for each in rows if each["method"] == rows[0]["method"]]
    if first[0]["ratio"] is not None:
        return min(first, key=lambda each: each["ratio"])
    if first[0]["seconds"] is not None:
        return max(first, key=lambda each: each["seconds"])
    return min(first, key=lambda each: float(each["measured"].replace(",", "")))


def study(name: str, key: str, value: Any, **more: Any) -> dict[str, Any]:
    """The row of a recorded study with these values."""
    wanted = {key: value} | more
    return next(each for each in recorded(name)["rows"] if all(each[k] == v for k, v in wanted.items()))


def imdb(model: str) -> float:
    return next(each for each in recorded("imdb")["rows"] if model in each["model"])["accuracy"]


def small(variant: str, method: str, key: str) -> float:
    return next(each for each in read_results("small") if each["variant"] == variant)["methods"][method][key][0]


def few(method: str, rows: int) -> float:
    """Return the accuracy on sentences of two even classes."""
    return small(f"sentences, 2 classes, even, {rows} rows", method, "accuracy")


class Claim(NamedTuple):
    """The page, the sentence with `{}` for each number, and what stands there."""

    page: str
    words: str
    numbers: Callable[[], tuple[str, ...]]


def three(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def lime_to_ours() -> float:
    seconds = {each["method"]: each["seconds"] for each in read_results("explanations")["rows"]}
    return seconds["lime"] / seconds["hardmax"]


def standard_error() -> float:
    accuracy = read_results("ablations")[0]["accuracy"]
    return (accuracy * (1 - accuracy) / 2500) ** 0.5


def small_alpha() -> float:
    """The mean alpha after training from a small one, to the next 0.005."""
    rows = by_start(read_results("paper"))["small alpha"]
    return round(sum(each["alpha"] for each in rows) / len(rows) / 0.005) * 0.005


def in_words(value: float, words: dict[str, tuple[float, float]]) -> tuple[str, ...]:
    """The words whose range holds the number."""
    return tuple(word for word, (low, high) in words.items() if low <= value <= high) or (f"{value:.3g}",)


def on_page(page: str, pattern: str) -> tuple[str, ...]:
    """Numbers of a command's output that the same page shows."""
    found = re.search(pattern, (ROOT / page).read_text(encoding="utf-8"))
    assert found is not None
    return found.groups()


THRESHOLD = r"(?m)^0\.8 +([\d.]+)% +([\d.]+)$"


def shown() -> float:
    """The accuracy that the page shows."""
    return float(on_page("docs/how-to/answers.md", r"(?m)^0\.5 +100\.0% +([\d.]+)$")[0])


CLAIMS = [
    Claim(
        "README.md",
        "one layer of 10,000 takes 1/{} of what FAISS needs",
        lambda: (f"{row('plane_gaussian', 'FAISS')['ratio'] // 10 * 10:.0f}",),  # at least so many times
    ),
    Claim(
        "README.md",
        "million tokens in the plane reach their certified limit in {}",
        lambda: in_words(row("limit_gaussian", "limit, n = 1,000,000")["seconds"], {"about a second": (0.5, 1.5)}),
    ),
    Claim(
        "docs/classifier.md",
        "takes {} of the time of LIME",
        lambda: in_words(lime_to_ours(), {"a thousandth": (800, 1300)}),
    ),
    Claim(
        "docs/classifier.md",
        "which are right in {} of the cases",
        lambda: (f"{small('reviews, 2 classes, 90:10, 1000 rows', 'TF-IDF', 'accuracy'):.0%}".replace("%", " %"),),
    ),
    Claim("docs/classifier.md", "a random {} of all 50,000", lambda: (f"{PART:.0%}".replace("%", " %"),)),
    Claim("docs/classifier.md", "on a part of the {}.", lambda: (f"{PART:.0%}".replace("%", " %"),)),
    Claim("docs/classifier.md", "reached with alpha near {}.", lambda: (f"{small_alpha():.3f}",)),
    Claim("docs/classifier.md", "(standard error {})", lambda: (f"{standard_error():.4f}",)),
    Claim(
        "docs/compare/tfidf-logistic-regression.md",
        "giving the first class is right in {} of cases",
        lambda: (f"{small('reviews, 2 classes, 90:10, 1000 rows', 'NB-SVM', 'accuracy'):.3f}",),
    ),
    Claim(
        "docs/corpora.md",
        "{} MB for the model of film reviews, and {} MB for 20 classes and 100,000 tokens",
        lambda: (f"{16 * 2 * 100_000 / 1e6:.0f}", f"{16 * 20**2 * 100_000 / 1e6:.0f}"),  # 16 C^2 V bytes
    ),
    Claim(
        "docs/how-to/answers.md",
        "with at least 0.8 it answers {} % of the texts, and {} % of these rightly",
        lambda: tuple(
            f"{float(number):.0f}" for number in on_page("docs/how-to/answers.md", r"(?m)^0\.8 +([\d.]+)% +0\.(\d\d)")
        ),
    ),
    Claim(
        "docs/how-to/answers.md",
        "an accuracy of {0} is known to about ± {2} (twice the standard error, sqrt({0} · {1} / 200))",
        lambda: (f"{shown():.2f}", f"{1 - shown():.2f}", f"{2 * (shown() * (1 - shown()) / 200) ** 0.5:.2f}"),
    ),
    Claim(
        "docs/how-to/answers.md",
        "{} % of 200 are 14",
        lambda: tuple(f"{float(one):g}" for one in on_page("docs/how-to/answers.md", r"(?m)^0\.99 +([\d.]+)%")),
    ),
    Claim(
        "docs/how-to/answers.md",
        "of those with at least 0.8, {} % were in step 3",
        lambda: (f"{100 * (1 - float(on_page('docs/how-to/answers.md', THRESHOLD)[1])):.1f}",),
    ),
    Claim(
        "docs/how-to/service.md",
        "took {} MB at most",
        lambda: (f"{study('corpora_rows', 'rows', 1_000_000)['child MB']:.0f}",),
    ),
    Claim(
        "docs/speed.md",
        "are found {} to {} times as fast as one by one",
        lambda: tuple(f"{row(case, 'limit of each')['ratio']:.0f}" for case in ("batch_limit", "batch_limit_d16")),
    ),
    Claim(
        "docs/speed.md",
        "take place {} times as fast",
        lambda: (f"{row('batch_simulate', 'simulate, 10 layers of each')['ratio']:.0f}",),
    ),
    Claim(
        "docs/speed.md",
        "takes less than {} of the processor",
        lambda: in_words(row("import", "import hardmax")["seconds"], {"a third of a second": (0.2, 0.33)}),
    ),
    Claim(
        "docs/speed.md",
        "8,000 of them take {} MB and not {}, for {} the time",
        lambda: (
            f"{row('gathered', 'candidates in parts')['peak']:.0f}",
            f"{row('gathered', 'all candidates')['peak']:,.0f}",
            *in_words(1 / row("gathered", "all candidates")["ratio"], {"four times": (3.4, 4.6)}),
        ),
    ),
    Claim(
        "docs/speed.md",
        "Loading compiled code takes {} a second",
        lambda: in_words(row("loading_scan", 'kernel="scan", loaded')["seconds"], {"half": (0.4, 0.6)}),
    ),
    Claim(
        "docs/speed.md",
        "once for a machine, up to {} seconds",
        lambda: ("{:.0f}".format(row("loading_scan", 'kernel="scan", compiled')["seconds"]),),
    ),
    Claim("docs/speed.md", "where a run takes more than {} seconds", lambda: (f"{scaling.LIMIT:g}",)),
    Claim(
        "README.md",
        "right in {} of cases, TF-IDF with logistic regression in {}.",
        lambda: tuple(f"{imdb(name):.1%}".replace("%", " %") for name in ('"imdb"', "TF-IDF")),
    ),
    Claim(
        "docs/classifier.md",
        "{} against {} with 100 rows, {} against {} with 300, {} against {} with 1,000 and {} against {} with 3,000",
        lambda: tuple(
            f"{few(method, rows):.3f}" for rows in (100, 300, 1000, 3000) for method in ("embeddings", "hardmax")
        ),
    ),
    Claim(
        "docs/classifier.md",
        "sentence embeddings are {} to {} points ahead of hardmax",
        lambda: tuple(f"{100 * (few('embeddings', rows) - few('hardmax', rows)):.0f}" for rows in (300, 100)),
    ),
    Claim(
        "docs/classifier.md",
        "TF-IDF has C = {}, which is also what",
        lambda: (f"{recorded('classifier_rivals')['rows'][0]['C']:g}",),
    ),
    Claim(
        "docs/classifier.md",
        "where it is {} against {} with 3,000 rows and {} against {} with 10,000.",
        lambda: tuple(
            f"{small(f'sentences, 4 classes, 90:10, {rows} rows', method, 'f1'):.3f}"
            for rows in (3000, 10_000)
            for method in ("hardmax", "TF-IDF, balanced")
        ),
    ),
    Claim(
        "docs/classifier.md",
        "are level with it (AUPRC {}, F1 {};",
        lambda: tuple(f"{study('people', 'method', 'linear')[key]:.3f}" for key in ("auprc", "f1")),
    ),
    Claim(
        "docs/control.md",
        "in {} s where all at once take {} s: the same optimum, {} times as fast",
        lambda: (
            f"{row('control', 'choose_A')['seconds']:.1f}",
            f"{row('control', 'all rows')['seconds']:.0f}",
            three(row("control", "all rows")["ratio"]),
        ),
    ),
    Claim(
        "docs/control.md",
        "{} s for 20,000 tokens and 5 leaders, and {} s for d = 32",
        lambda: tuple(f"{row('control', f'n = {n}')['seconds']:.1g}" for n in ("20,000", "500")),
    ),
    Claim(
        "docs/clustering.md",
        "round blobs, and {} to {} times as fast",
        lambda: tuple(
            f"{1 / row(f'clustering_{n}', 'KMeans', 'clustering_speed')['ratio']:.0f}" for n in (5000, 20_000)
        ),
    ),
    Claim(
        "docs/clustering.md",
        "keeps n by n arrays, {} MB for 5,000 points, which would be {} GB for 20,000",
        lambda: (
            f"{row('clustering_5000', 'AffinityPropagation', 'clustering_speed')['peak']:.0f}",
            f"{row('clustering_5000', 'AffinityPropagation', 'clustering_speed')['peak'] * 16 / 1e3:.0f}",
        ),
    ),
    Claim(
        "docs/corpora.md",
        "one worker reaches {} its rows a second",
        lambda: (study("corpora", "what", "files against the loop")["measured"],),
    ),
    Claim(
        "docs/corpora.md",
        "{} of them a second are labelled and explained by one core",
        lambda: (row("classifier_explain", "reviews labelled")["measured"],),
    ),
    Claim(
        "docs/theorems.md",
        "after {} layers at $T = 0.5$ and after {} layers at $T = 0.2$",
        lambda: tuple(f"{layers_until_consensus(T):,}" for T in (0.5, 0.2)),
    ),
    Claim(
        "benchmarks/README.md",
        "At n = 512 the GPU itself needs {} ms and SDPA {}",
        lambda: tuple(f"{gpu('forward, ', 'n = 512')[key]:.3f}" for key in ("ours ms", "other ms")),
    ),
    Claim(
        "benchmarks/README.md",
        "The first call compiles for {} s",
        lambda: (f"{gpu('first call')['ours ms'] / 1000:.0f}",),
    ),
]


def layers_until_consensus(temperature: float) -> int:
    """Return the layer from which softmax keeps two tokens that began at +1 and -1 below 1/100."""
    run = hm.simulate([[1.0], [-1.0]], hm.Softmax(0.5, temperature=temperature), layers=2000)
    return int((abs(run.array) > 0.01).any(axis=(1, 2)).sum())


def gpu(start: str, part: str = "d = 64") -> dict[str, Any]:
    found = (each for each in recorded("gpu")["rows"] if each["case"].startswith(start) and part in each["case"])
    return next(found)


# Numbers of which no file tells: the page, the words, and what they are.
LIMIT, SETTING, FACT = "a limit that the code sets", "a setting", "mathematics"
ALLOWED: list[tuple[str, str, str]] = [
    ("docs/app.md", "files of 5 MB, 60 seconds for an answer", LIMIT),
    ("docs/app.md", "2,000 columns and 5 MB", LIMIT),
    ("docs/classifier.md", "may be the answer below 50 %", FACT),
    ("docs/classifier.md", "the top 1, 5, 10, 20 and 50 % of the words", SETTING),
    ("docs/classifier.md", "NB-SVM has a quarter of its own weights", SETTING),
    ("docs/clustering.md", "Beyond 100,000 times their spacing", SETTING),
    ("docs/clustering.md", "(1 + 0.58 log n) / sqrt(k), and less (0.7 times)", SETTING),
    ("docs/clustering.md", "the density is 20 times lower", SETTING),
    ("docs/clustering.md", "preference 1 to 100 times the median) and MeanShift (bandwidth at quantiles 0.02", SETTING),
    ("docs/corpora.md", "of more than 64 MiB", LIMIT),
    ("docs/corpora.md", "or 8 MiB of text", LIMIT),
    ("docs/flows.md", "of a thousandth of the spread", SETTING),
    ("docs/flows.md", "feed-forward, gain 0.02", SETTING),
    ("docs/how-to/cluster-embeddings.md", "it is 20 times emptier", SETTING),
    ("docs/how-to/cluster-embeddings.md", "BERTopic 0.17", "a version"),
    ("docs/how-to/cluster-machine.md", "told after ten seconds", LIMIT),
    ("docs/how-to/service.md", "a quarter of the size", FACT),
    ("docs/studies/leaders.md", "alpha from 0.05 to 3", SETTING),
    ("docs/studies/sphere.md", "from 1 to 256, times", SETTING),
    ("docs/studies/sphere.md", "joined by distances below 0.05", SETTING),
    ("docs/studies/temperature.md", "Temperatures from 1 to 0.0001", SETTING),
    ("docs/studies/temperature.md", "*near* is below 0.01", SETTING),
    ("docs/studies/temperature.md", "At temperature 0.001", SETTING),
    ("docs/sweeps.md", "20 values from 0.05 to 5", SETTING),
    ("docs/sweeps.md", "about three seconds of work", SETTING),
    ("docs/topics.md", "it is 20 times emptier", SETTING),
    ("benchmarks/README.md", "sizes 20 times smaller", SETTING),
    ("benchmarks/README.md", "fit into 0.05 seconds, each until it has had 3 seconds or 30 turns", SETTING),
    ("benchmarks/README.md", "takes more than 10 seconds", SETTING),
    ("benchmarks/README.md", "Every two seconds they let go", SETTING),
]


def found_in(page: Path) -> list[tuple[str, str]]:
    """Every number that looks measured and has neither claim nor reason, with the words around it."""
    name = page.relative_to(ROOT).as_posix()
    known = [words for where, words, _ in ALLOWED if where == name]
    known += [claim.words.format(*claim.numbers()) for claim in CLAIMS if claim.page == name]
    left = []
    for part in prose(page.read_text(encoding="utf-8")):
        spans = [match.span() for words in known for match in re.finditer(re.escape(words), part)]
        for match in MEASURED.finditer(part):
            if not any(start <= match.start() and match.end() <= end for start, end in spans):
                left.append((match.group(), part[max(0, match.start() - 50) : match.end() + 40]))
    return left


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_number_without_a_source(page: Path) -> None:
    left = found_in(page)
    assert not left, "\n".join(f"{number}: ... {words} ..." for number, words in left)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page}: {claim.words[:40]}")
def test_the_number_is_that_of_the_recorded_run(claim: Claim) -> None:
    words = " ".join((ROOT / claim.page).read_text(encoding="utf-8").split())
    assert claim.words.format(*claim.numbers()) in words


def test_every_reason_is_needed() -> None:
    for where, words, why in ALLOWED:
        parts = prose((ROOT / where).read_text(encoding="utf-8"))
        assert any(words in part for part in parts), (where, words)
        assert MEASURED.search(words), words
        assert why


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("It takes 1.5 s, or 300 times as long.", ["1.5 s", "300 times"]),
        ("Right in 92 % of cases, 0.87 or .91.", ["92 %", "0.87", ".91"]),
        ("It needs 1/300 of it, ten times as much, a tenth of that.", ["1/300", "ten times as", "a tenth of"]),
        ("Section 2.3, alpha = 0.05, n = 10,000, arXiv 2407.01602, `3 s`", []),
        ("| a row | 3,300 MB |\n| another | 7 rows/s |", ["3,300 MB", "7 rows/s"]),
        (r"With $\alpha = 1/10$ both are $0.25$.", []),
        ("# 5 seconds\n```\n5 s\n```\n<!-- made by python -m x -->\n| 5 s |\n<!-- end -->", []),
    ],
)
def test_what_looks_measured(words: str, numbers: list[str]) -> None:
    assert [match.group() for part in prose(words) for match in MEASURED.finditer(part)] == numbers
