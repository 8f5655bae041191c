"""The classifier: a training step of the paper's model, and reviews that are labelled and explained a second."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.machine import THREADS
from benchmarks.registry import Answer, Case, Method, Target, equal, size
from benchmarks.results import Row, number
from hardmax._types import FloatArray, IntArray

VOCABULARY, BATCH, N, LAYERS = 20_000, 64, 128, 8
WORD_POWER = 0.95  # 128 words drawn so are 101 distinct ones; as the paper reads them, long reviews have 104
TEMPERATURE, CLIP = 1e-3, 5.0
CLOSE = 0.01  # of the largest logit: softmax mixes words whose products differ by little more than its temperature
REVIEWS, LEARNED = 1000, 5000  # texts to explain, and those the baseline learns from
RUNS, SPREAD = 123, 0.6  # median of the runs of a text, and deviation of their logarithm
LENGTHS = (0.4, 0.4, 0.2)  # parts of the runs that are words, pairs, triples
RATE = 2000  # reviews a second


def words(quick: bool) -> tuple[IntArray, IntArray]:
    """(texts, 128) word numbers, those of low rank more often, and labels."""
    chances = np.arange(1.0, VOCABULARY + 1) ** -WORD_POWER
    drawn = np.random.default_rng(0).choice(VOCABULARY, (size(BATCH, quick), N), p=chances / chances.sum())
    return drawn, np.arange(len(drawn)) % 2


def encoded(drawn: IntArray) -> Any:
    """Distinct words of each text with their counts, as `Vocabulary.encode` gives them for distinct=False."""
    from hardmax.text.vocabulary import Encoded

    owners = np.repeat(np.arange(len(drawn)), N)
    _, first, counts = np.unique(owners * VOCABULARY + drawn.ravel(), return_index=True, return_counts=True)
    order = np.argsort(first)
    sizes = np.bincount(owners[first], minlength=len(drawn))
    return Encoded(drawn.ravel()[first[order]], np.r_[0, np.cumsum(sizes)], counts[order])


def start(d: int) -> tuple[Any, Any]:
    """The paper's network with its first weights, and how it is trained; without dropout, which the paper has not."""
    import torch

    from hardmax.text.classifier import HardmaxClassifier
    from hardmax.text.network import new_network

    torch.set_num_threads(THREADS)
    plain: dict[str, Any] = {"lemmas": None, "stop_words": None, "dropout": 0.0, "embedding_dropout": 0.0}
    settings = HardmaxClassifier.paper(d, batch_size=BATCH, layers=LAYERS, **plain)
    return new_network(VOCABULARY, 2, settings), settings


def hardmax_step(d: int, quick: bool) -> Callable[[], Any]:
    """A step as the library trains. The learning rate is 0, so each run has the same weights and does the same."""
    import torch

    from hardmax.text.training import _optimiser, _set_rates, _step
    from hardmax.text.vocabulary import Data

    network, settings = start(d)
    drawn, labels = words(quick)
    data, batch, factors = Data(encoded(drawn), labels), np.arange(len(drawn)), torch.ones(2)
    optimiser = _optimiser(network, settings)
    _set_rates(optimiser, 0.0)

    def logits() -> Any:
        ids, counts = map(torch.from_numpy, data.texts.padded())
        return network(ids, counts[:, None], attention="hardmax")[:, 0, 0]

    def run() -> Any:
        _step(network, optimiser, data, batch, settings, 0, factors)
        return logits

    run()
    return run


def softmax_step(d: int, quick: bool) -> Callable[[], Any]:
    """A step as the paper trains, in plain torch: all 128 words, softmax, Adam, every gradient clipped."""
    import torch

    network, _ = start(d)
    drawn, labels = words(quick)
    ids, wanted = torch.from_numpy(drawn), torch.from_numpy(labels).float()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.0, fused=True)  # fused is the fastest

    def logits() -> Any:
        z = torch.nn.functional.embedding(ids, network.embedding)
        b = network.alpha / (1 + network.alpha)
        for _ in range(LAYERS):
            z = z + b * ((z @ z.mT / TEMPERATURE).softmax(-1) @ z - z)
        return z.mean(1) @ network.decoder[0, 0] + network.bias[0]

    def run() -> Any:
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(logits(), wanted).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimiser.step()
        return logits

    run()
    return run


def needed(d: int, quick: bool) -> str:
    """How many layers ran: those after all texts are decided are one with the last."""
    from hardmax.attention.layers_numpy import layers_of

    network, _ = start(d)
    ids, counts = encoded(words(quick)[0]).padded()
    step = (network.alpha / (1 + network.alpha)).detach().numpy().repeat(len(ids))
    layers = list(layers_of(network.embedding.detach().numpy()[ids], step, LAYERS, counts=counts))
    return f"{len(layers)} of {LAYERS} layers run"


def near(ours: Answer, theirs: Answer) -> bool:
    """Whether logits agree as far as those of softmax can."""
    difference = np.abs(ours["logits"] - theirs["logits"]).max()
    return bool(difference <= CLOSE * np.abs(ours["logits"]).max())


def _step_methods(d: int, quick: bool) -> list[Method]:
    def answer(logits: Callable[[], Any]) -> Answer:
        return {"logits": logits().detach().numpy()}

    ours, paper = "the library's step: hardmax, distinct words", "the paper's step: softmax, all words"
    return [
        Method(
            ours, partial(hardmax_step, d, quick), answer, package="torch", facts=lambda _: {"layers": needed(d, quick)}
        ),
        Method(paper, partial(softmax_step, d, quick), answer, package="torch", target=Target(5.0)),
    ]


def reviews(vocabulary: Any, count: int, seed: int) -> list[str]:
    """Texts without meaning that have as many words and known tokens as reviews: runs of a vocabulary, joined.

    A run is a word, a pair or a triple, drawn among those of its length by rank with Zipf's law. With the shipped
    vocabulary a text has about 253 words and signs and 259 distinct known tokens; real reviews have 256 and 259.
    """
    random = np.random.default_rng(seed)
    lengths = (vocabulary.ngrams >= 0).sum(axis=1)
    by_length = [np.flatnonzero(lengths == k + 1) for k in range(len(LENGTHS))]
    sizes = np.maximum(1, random.lognormal(np.log(RUNS), SPREAD, count)).astype(np.intp)
    kinds = random.choice(len(LENGTHS), sizes.sum(), p=LENGTHS)
    tokens = np.empty(len(kinds), np.intp)
    for k, known in enumerate(by_length):
        tokens[kinds == k] = known[_ranks(len(known), int((kinds == k).sum()), random)]
    runs = np.array([vocabulary.name(token) for token in range(len(vocabulary))], dtype=object)[tokens]
    return [" ".join(text) for text in np.split(runs, np.cumsum(sizes)[:-1])]


def _ranks(known: int, count: int, random: np.random.Generator) -> IntArray:
    """Numbers below `known`, r with a chance like 1 / (r + 1)."""
    chances: FloatArray = np.cumsum(1 / np.arange(1.0, known + 1))
    return np.searchsorted(chances / chances[-1], random.random(count)).clip(max=known - 1)


def explaining(quick: bool, named: bool) -> Callable[[], Any]:
    """Labels and contributions of all tokens, and with `named` the tokens as text."""
    import hardmax as hm

    classifier = hm.pretrained("imdb")
    texts = reviews(classifier.model_.vocabulary, size(REVIEWS, quick), 0)

    def run(count: int = len(texts)) -> Any:
        found = classifier.explain_many(texts[:count])
        return [(one.prediction, one.contributions, one.words if named else None, one.logit) for one in found]

    run(100)  # loads compiled code
    return run


def labelling(quick: bool) -> Callable[[], Any]:
    """Labels alone."""
    import hardmax as hm

    classifier = hm.pretrained("imdb")
    texts = reviews(classifier.model_.vocabulary, size(REVIEWS, quick), 0)
    classifier.predict(texts[:100])  # loads compiled code
    return lambda: classifier.decision_function(texts)


def predicting(quick: bool) -> Callable[[], Any]:
    """TF-IDF of words and pairs with logistic regression, which has learned our labels of other such texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    import hardmax as hm

    classifier = hm.pretrained("imdb")
    vocabulary = classifier.model_.vocabulary
    learned, texts = reviews(vocabulary, size(LEARNED, quick), 1), reviews(vocabulary, size(REVIEWS, quick), 0)
    words_and_pairs = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    baseline = make_pipeline(words_and_pairs, LogisticRegression(C=10, max_iter=1000))
    baseline.fit(learned, classifier.predict(learned))
    return lambda: baseline.predict(texts)


def _explain_methods(quick: bool) -> list[Method]:
    def answer(found: Any) -> Answer:
        return {"terms": np.concatenate([one[1] for one in found]), "logits": np.array([one[3] for one in found])}

    ours, named, theirs = (
        "explain_many, labels",
        "and every token as text",
        "TF-IDF and logistic regression, labels alone",
    )
    return [
        Method(ours, partial(explaining, quick, False), answer, package="sklearn"),
        Method(named, partial(explaining, quick, True), answer, package="sklearn", alone=True),
        Method(theirs, partial(predicting, quick), lambda labels: {}, package="sklearn", compared=False),
    ]


def _label_methods(quick: bool) -> list[Method]:
    theirs = "TF-IDF of words and pairs, logistic regression"
    return [
        Method("predict", partial(labelling, quick), lambda logits: {"logits": logits}, package="sklearn"),
        Method(
            theirs, partial(predicting, quick), lambda labels: {}, package="sklearn", compared=False, target=Target(1.0)
        ),
    ]


def rate(rows: list[Row]) -> list[Row]:
    """Reviews a second."""
    seconds = rows[0].seconds
    if seconds is None:
        return []
    found = REVIEWS / seconds
    target, name = f"at least {RATE:,}", "reviews labelled and explained a second"
    return [Row(name, measured=number(found), target=target, reached=found >= RATE)]


def _step_case(d: int) -> Case:
    title = (
        f"Training step of the paper's classifier, {N} words by Zipf's law of {VOCABULARY:,}, batch {BATCH}, d = {d}, "
        f"{LAYERS} layers, Gaussian embedding"
    )
    return Case(f"classifier_step_{d}", title, partial(_step_methods, d), near, "has other logits")


EXPLAIN = f"{REVIEWS:,} texts as long as reviews, runs of the shipped vocabulary by Zipf's law, by the shipped model"
LABEL = f"Labels of {REVIEWS:,} texts as long as reviews, runs of the shipped vocabulary by Zipf's law"
CASES = [
    _step_case(2),
    _step_case(16),
    Case("classifier_predict", LABEL, _label_methods, equal, "answers otherwise"),
    Case("classifier_explain", EXPLAIN, _explain_methods, equal, "explains otherwise", rate),
]
