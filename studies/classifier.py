"""Studies of the classifier on IMDb: the paper's models for several d, ablations, files
of every size, explanations.

Each writes plain rows as JSON. The tables of the docs and the figures are made from
`src/hardmax/figures/results`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._display import progress_bar
from hardmax._errors import ParameterError
from hardmax._files import save_text
from hardmax._types import IntArray
from hardmax.text.classifier import HardmaxClassifier
from hardmax.text.datasets import load_imdb
from hardmax.text.model import Epoch, Model
from hardmax.text.parameters import Parameters
from hardmax.text.statistics import leader_statistics
from hardmax.text.tables import TextTable
from hardmax.text.validation import TrainingSet, number_texts
from studies.faithfulness import compare, read_rationales
from studies.small_files import NAMES, small_row

if TYPE_CHECKING:
    from hardmax.text.training import Network, Problem

DIMENSIONS = (2, 4, 8, 16)
STARTS: dict[str, dict[str, Any]] = {
    "small alpha": {},
    # so slowly that it stays near 1: left free it falls to 0.02
    "alpha 1": {"alpha": 1.0, "alpha_rate": 1e-4, "learning_rate": 0.2, "scale": 2.0},
}
PART = 0.7  # of all reviews, to train with
# layers after which trained models have all tokens decided; a token beyond counts as
# undecided
LONG_ENOUGH = 200
COUNTED = 2000  # texts whose leaders are counted

Row = dict[str, Any]
_PREPARED: "dict[tuple[Any, ...], Problem]" = {}

BASE: dict[str, Any] = {
    "max_words": 400
}  # softmax attention needs n by n numbers: texts of 2,000 words do not fit
ABLATIONS: dict[str, dict[str, Any]] = {
    "hardmax (the model)": {},
    "no attention: bag of words": {"training": "none"},
    "random attention": {"training": "random"},
    "softmax attention, temperature 1": {"training": "softmax", "temperature": 1.0},
    "softmax attention, temperature 0.1": {"training": "softmax", "temperature": 0.1},
    "trained with softmax, served as hardmax": {
        "training": "softmax",
        "temperature": 0.1,
        "served": "hardmax",
    },
    "the same with trained A": {
        "training": "softmax",
        "temperature": 0.1,
        "served": "hardmax",
        "trained_A": True,
    },
    "1 head": {"n_heads": 1, "groups": 1},
    "8 heads": {"n_heads": 8, "groups": 1},
    "32 heads in 1 group": {"groups": 1},
    "1 layer": {"layers": 1},
    "4 layers": {"layers": 4},
    "8 layers": {"layers": 8},
    "12 layers": {"layers": 12},
    "words alone": {"ngram_range": (1, 1), "min_df": 2, "max_features": None},
}


def ablation(
    name: str, texts: Sequence[str], labels: IntArray, *, seed: int, device: str
) -> Row:
    """Train one variant of the general model; accuracy is on texts held back from
    training.
    """
    options = BASE | ABLATIONS[name]
    served = options.pop("served", options.get("training", "hardmax"))
    classifier = HardmaxClassifier(
        **options, epochs=5, random_state=seed, device=device
    )
    start = perf_counter()
    problem = _prepared(texts, labels, replace(classifier, random_state=0))
    model, history, _ = _trained(problem, classifier, served)
    row = {
        "variant": name,
        "seed": seed,
        "accuracy": _kept(history).accuracy,
        "seconds": perf_counter() - start,
    }
    return row | (
        _leaders(model, [texts[i] for i in problem.held_rows[:COUNTED]])
        if served == "hardmax"
        else {}
    )


def paper_run(
    d: int,
    start: str,
    texts: Sequence[str],
    labels: IntArray,
    *,
    seed: int,
    device: str,
) -> Row:
    """Train the paper's model on 70 % of all reviews, with a part held back to choose
    the epoch; test on the others.
    """
    classifier = HardmaxClassifier.paper(
        d, epochs=8, random_state=seed, device=device, **STARTS[start]
    )
    learned, tested = split_rows(number_texts(texts), PART, seed)
    began = perf_counter()
    problem = _prepare([texts[i] for i in learned], labels[learned], classifier)
    model, history, others = _trained(problem, classifier, "hardmax")
    tested_texts = [texts[i] for i in tested]
    return {
        "d": d,
        "start": start,
        "seed": seed,
        "training": classifier.training,
        "accuracy": float(
            np.mean((model.logits(tested_texts)[:, 0] > 0) == labels[tested])
        ),
        "validation": _kept(history).accuracy,
        "alpha": float(model.weights.alpha[0]),
        "seconds": perf_counter() - began,
        "epochs": [
            asdict(epoch) | {"softmax_loss": other}
            for epoch, other in zip(history, others, strict=True)
        ],
    } | _leaders(model, tested_texts[:COUNTED])


def _kept(history: Sequence[Epoch]) -> Epoch:
    return next(epoch for epoch in history if epoch.kept)


def _prepared(
    texts: Sequence[str], labels: IntArray, settings: Parameters
) -> "Problem":
    """Texts as tokens; most variants read them alike, so the last ones are kept."""
    key = (
        id(texts),
        settings.max_words,
        settings.ngram_range,
        settings.min_df,
        settings.max_features,
    )
    if key not in _PREPARED:
        _PREPARED.clear()
        _PREPARED[key] = _prepare(texts, labels, settings)
    return _PREPARED[key]


def _prepare(texts: Sequence[str], labels: IntArray, settings: Parameters) -> "Problem":
    from hardmax.text.training import prepare

    rows = np.arange(len(texts))
    return prepare(
        TrainingSet(texts, labels, np.array([0, 1]), None, number_texts(texts), rows),
        settings,
    )


def split_rows(groups: IntArray, part: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return about that part of the rows, and the others, at random and in whole
    groups.
    """
    rows = np.random.default_rng(seed).permutation(len(groups))
    shuffled = groups[rows]
    order = shuffled[np.sort(np.unique(shuffled, return_index=True)[1])]
    ends = np.cumsum(np.bincount(groups)[order])
    first = np.isin(shuffled, order[ends <= round(part * len(groups))])
    return rows[first], rows[~first]


def ablated_network() -> "type[Network]":
    """Return a network that also has no attention at all, "none", or attention to a
    random token, "random".
    """
    import torch

    from hardmax.text.training import Network

    class Ablated(Network):
        def _apply_layers(
            self,
            z: torch.Tensor,
            counts: torch.Tensor,
            attention: str,
            temperature: float,
        ) -> Any:
            if attention not in ("none", "random"):
                return super()._apply_layers(z, counts, attention, temperature)
            alpha, real = self.alpha.repeat(len(z) // self.heads), counts > 0
            step, first = (
                (alpha / (1 + alpha))[:, None, None],
                (~real).to(torch.uint8).argsort(dim=1, stable=True),
            )
            for _ in range(self.layers if attention == "random" else 0):
                draws = torch.rand(z.shape[:2], device=z.device)
                picks = first.gather(
                    1, (draws * real.sum(1, keepdim=True)).long()
                )  # real tokens are first
                z = z + step * (z.gather(1, picks[..., None].expand_as(z)) - z)
            return z

    return Ablated


def _trained(
    problem: "Problem", settings: Parameters, served: str
) -> tuple[Model, list[Epoch], list[float]]:
    """A model, its epochs, and the validation loss after each with softmax attention
    instead of hardmax.
    """
    from hardmax.text.training import evaluate, new_network, train

    held = problem.held
    network = new_network(len(problem.vocabulary), 2, settings, ablated_network())
    others: list[float] = []

    def report(done: int, total: int, loss: Any, epoch: Epoch | None) -> None:
        if epoch is not None and held is not None and settings.n_heads == 1:
            others.append(evaluate(network, held, "softmax", settings.temperature)[0])

    history = train(network, problem, settings, report, served=served)
    return (
        Model(problem.vocabulary, network.weights(), np.array([0, 1])),
        history,
        others,
    )


def _leaders(model: Model, texts: Sequence[str]) -> Row:
    """Leaders of a text and head, and the layers until every token is decided, if the
    model had many layers.
    """
    deep = Model(
        model.vocabulary, replace(model.weights, layers=LONG_ENOUGH), model.classes
    )
    decided = leader_statistics(deep, texts).decided
    settled = decided[decided >= 0]
    return {
        "leaders": leader_statistics(model, texts).summary(),
        "decided_median": float(np.median(settled)) if settled.size else None,
        "decided_most": int(settled.max()) if settled.size else None,
        "undecided": float(np.mean(decided < 0)),
    }


def rows_of(
    study: str,
    splits: dict[str, TextTable],
    *,
    only: Sequence[str] = (),
    seed: int = 0,
    device: str = "auto",
) -> Iterator[Row]:
    """Rows of a study, "paper", "ablations" or "small", all or those whose names are
    given, each as it is done.

    `splits` are those of `load_imdb`, with ratings for "small", which leaves out rows
    that need more texts than there are. Ablations use the training split alone.
    """
    if study == "small":
        found = (
            small_row(name, splits, seed=seed, device=device)
            for name in only or names_of(study)
        )
        yield from (row for row in found if row is not None)
        return
    used = (
        [splits["train"]] if study == "ablations" else [splits["train"], splits["test"]]
    )
    texts = [text for table in used for text in table.texts]
    labels = np.array(
        [label == "pos" for table in used for label in table.labels or []],
        dtype=np.int64,
    )
    for name in only or names_of(study):
        if study == "ablations":
            yield ablation(name, texts, labels, seed=seed, device=device)
        else:
            d, start = name.split(" ", 1)
            yield paper_run(int(d), start, texts, labels, seed=seed, device=device)


def names_of(study: str) -> list[str]:
    """Names of the rows of a study."""
    if study == "small":
        return list(NAMES)
    return (
        list(ABLATIONS)
        if study == "ablations"
        else [f"{d} {start}" for start in STARTS for d in DIMENSIONS]
    )


def add_row(path: Path, row: Row) -> None:
    """Write a row into a JSON file, in place of a row of the same name and seed."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [
        old
        for old in rows
        if (label_of(old), old["seed"]) != (label_of(row), row["seed"])
    ]
    save_text(json.dumps([*kept, row], indent=1), path)


def label_of(row: Row) -> str:
    """Return the name of a row."""
    return str(row["variant"]) if "variant" in row else f"{row['d']} {row['start']}"


def run(
    study: str,
    out: Path,
    *,
    source: str | None,
    only: Sequence[str],
    seed: int,
    device: str,
) -> None:
    """Train the models of a study, and write each row when it is finished; other rows
    of the file are kept.
    """
    unknown = [row for row in only if row not in names_of(study)]
    if unknown:
        raise ParameterError(
            "only", f"be one of {', '.join(names_of(study))}", f"{unknown[0]!r}"
        )
    splits = load_imdb(source=source, ratings=study == "small")
    for row in rows_of(study, splits, only=only, seed=seed, device=device):
        add_row(out, row)
        print(
            f"{label_of(row)}: accuracy {row['accuracy']:.4f}, {row['seconds']:.0f} s"
        )


def explain(
    out: Path,
    *,
    source: str | None,
    model: str,
    count: int,
    methods: Sequence[str],
    rationales: Path | None,
) -> None:
    """Compare explanations of test reviews with those of other methods, and write the
    result as JSON.
    """
    marked = None if rationales is None else read_rationales(rationales)
    texts = load_imdb(source=source)["test"].texts
    some = texts[
        :: max(1, -(-len(texts) // count))
    ]  # evenly: the reviews are sorted by label
    classifier = HardmaxClassifier.load(model)
    with progress_bar("Explanations") as progress:
        found = compare(
            classifier,
            some,
            methods=methods or None,
            progress=progress,
            rationales=marked,
        )
    save_text(json.dumps(found._asdict(), indent=1), out)
    for row in [*found.rows, *found.agreement]:
        print(
            ", ".join(
                f"{key} {value:.3g}" if isinstance(value, float) else f"{value}"
                for key, value in row.items()
            )
        )
