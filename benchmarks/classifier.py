"""The classifier: a training step against the paper's, and labels and explanations
against TF-IDF.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.machine import THREADS
from benchmarks.registry import Answer, Case, Method, Row, Target, equal, size
from benchmarks.report import number
from hardmax._types import IntArray

VOCABULARY, BATCH, N, LAYERS = 20_000, 64, 128, 8
# 128 words drawn so have 101 distinct ones; long reviews, as the paper reads them, have
# 104
WORD_POWER = 0.95
TEMPERATURE, CLIP = 1e-3, 5.0
# of the largest logit: softmax mixes words whose products differ by about its
# temperature
MAX_DIFFERENCE = 0.01
REVIEWS, TRAINING_REVIEWS = 1000, 5000
TOKENS, SPREAD = (
    123,
    0.6,
)  # median of the n-grams of a text, and deviation of their logarithm
LENGTHS = (0.4, 0.4, 0.2)  # shares of words, pairs and triples
MIN_RATE = 2000  # reviews per second


def words(quick: bool) -> tuple[IntArray, IntArray]:
    """Return (texts, 128) word indices, frequent words more often, and labels."""
    chances = np.arange(1.0, VOCABULARY + 1) ** -WORD_POWER
    drawn = np.random.default_rng(0).choice(
        VOCABULARY, (size(BATCH, quick), N), p=chances / chances.sum()
    )
    return drawn, np.arange(len(drawn)) % 2


def encode(drawn: IntArray) -> Any:
    """Return the distinct words of each text with their counts, as `Vocabulary.encode`
    does for distinct=False.
    """
    from hardmax.text.vocabulary import Encoded

    texts = [
        Counter(text) for text in drawn.tolist()
    ]  # in the order of their first occurrence
    ids, counts = (
        [x for text in texts for x in read(text)]
        for read in (Counter.keys, Counter.values)
    )
    return Encoded(np.array(ids), np.cumsum([0, *map(len, texts)]), np.array(counts))


def new_paper_network(d: int) -> tuple[Any, Any]:
    """Return the paper's network with its initial weights, and its settings, without
    dropout.
    """
    import torch

    from hardmax.text.classifier import HardmaxClassifier
    from hardmax.text.training import new_network

    torch.set_num_threads(THREADS)
    plain: dict[str, Any] = {
        "lemmas": None,
        "stop_words": None,
        "dropout": 0.0,
        "embedding_dropout": 0.0,
    }
    settings = HardmaxClassifier.paper(d, batch_size=BATCH, layers=LAYERS, **plain)
    return new_network(VOCABULARY, 2, settings), settings


def hardmax_step(d: int, quick: bool) -> Callable[[], Any]:
    """Prepare a step as the library trains. The learning rate is 0, so that each run
    does the same.
    """
    import torch

    from hardmax.text.training import _optimiser, _step
    from hardmax.text.vocabulary import Data

    network, settings = new_paper_network(d)
    drawn, labels = words(quick)
    data, batch = (
        Data(encode(drawn), labels, np.ones(len(drawn), np.float32)),
        np.arange(len(drawn)),
    )
    optimiser = _optimiser(network, settings)
    for part in optimiser.param_groups:
        part["lr"] = 0.0

    def logits() -> Any:
        ids, counts = map(torch.from_numpy, data.texts.padded())
        return network(ids, counts[:, None], attention="hardmax")[:, 0, 0]

    def run() -> Any:
        _step(network, optimiser, data, batch, settings, 0)
        return logits

    run()
    return run


def softmax_step(d: int, quick: bool) -> Callable[[], Any]:
    """Prepare a step as the paper trains, in plain torch: all 128 words, softmax, Adam,
    clipped gradients.
    """
    import torch

    network, _ = new_paper_network(d)
    drawn, labels = words(quick)
    ids, wanted = torch.from_numpy(drawn), torch.from_numpy(labels).float()
    optimiser = torch.optim.Adam(
        network.parameters(), lr=0.0, fused=True
    )  # fused is the fastest

    def logits() -> Any:
        z = torch.nn.functional.embedding(ids, network.embedding)
        b = network.alpha / (1 + network.alpha)
        for _ in range(LAYERS):
            z = z + b * ((z @ z.mT / TEMPERATURE).softmax(-1) @ z - z)
        return z.mean(1) @ network.decoder[0, 0] + network.bias[0]

    def run() -> Any:
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(
            logits(), wanted
        ).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimiser.step()
        return logits

    run()
    return run


def layers_run(d: int, quick: bool) -> dict[str, str]:
    """Return how many layers run: those after all texts are decided are merged into the
    last.
    """
    from hardmax.attention.layers_numpy import layers_of

    network, _ = new_paper_network(d)
    ids, counts = encode(words(quick)[0]).padded()
    step = (network.alpha / (1 + network.alpha)).detach().numpy().repeat(len(ids))
    layers = list(
        layers_of(network.embedding.detach().numpy()[ids], step, LAYERS, counts=counts)
    )
    return {"layers": f"{len(layers)} of {LAYERS} layers run"}


def have_close_logits(ours: Answer, theirs: Answer) -> bool:
    """Return True if logits agree as far as those of softmax can."""
    difference = np.abs(ours["logits"] - theirs["logits"]).max()
    return bool(difference <= MAX_DIFFERENCE * np.abs(ours["logits"]).max())


def _step_case(d: int) -> Case:
    def methods(quick: bool) -> list[Method]:
        def method(name: str, step: Callable[..., Any], **options: Any) -> Method:
            answer: Callable[[Any], Answer] = lambda logits: {  # noqa: E731
                "logits": logits().detach().numpy()
            }
            return Method(
                name, partial(step, d, quick), answer, package="torch", **options
            )

        ours, paper = (
            "the library's step: hardmax, distinct words",
            "the paper's step: softmax, all words",
        )
        return [
            method(ours, hardmax_step, facts=lambda _: layers_run(d, quick)),
            method(paper, softmax_step, target=Target(5.0)),
        ]

    title = (
        f"Training step of the paper's classifier, {N} words by Zipf's law of"
        f" {VOCABULARY:,}, batch {BATCH}, d = {d}, {LAYERS} layers, Gaussian embedding"
    )
    return Case(
        f"classifier_step_{d}", title, methods, have_close_logits, "has other logits"
    )


def reviews(vocabulary: Any, count: int, seed: int) -> list[str]:
    """Return texts without meaning that have as many words and known tokens as film
    reviews.

    They join n-grams of a vocabulary, drawn among those of their length by rank with
    Zipf's law. With the shipped vocabulary a text has about 253 words and punctuation
    marks and 259 distinct known tokens; reviews have 256 and 259.
    """
    random = np.random.default_rng(seed)
    lengths = (vocabulary.ngrams >= 0).sum(axis=1)
    sizes = np.maximum(1, random.lognormal(np.log(TOKENS), SPREAD, count)).astype(
        np.intp
    )
    kinds = random.choice(len(LENGTHS), sizes.sum(), p=LENGTHS)
    tokens = np.empty(len(kinds), np.intp)
    for k in range(len(LENGTHS)):
        known, wanted = np.flatnonzero(lengths == k + 1), kinds == k
        chances = 1 / np.arange(1.0, len(known) + 1)
        tokens[wanted] = random.choice(
            known, int(wanted.sum()), p=chances / chances.sum()
        )
    names = np.array(vocabulary.names(np.arange(len(vocabulary))), dtype=object)[tokens]
    return [" ".join(text) for text in np.split(names, np.cumsum(sizes)[:-1])]


def _model_and_texts(quick: bool) -> tuple[Any, list[str]]:
    import hardmax as hm

    model = hm.pretrained("imdb")
    return model, reviews(model.model_.vocabulary, size(REVIEWS, quick), 0)


def explain(with_names: bool, quick: bool) -> Callable[[], Any]:
    """Prepare labels and contributions of all tokens, optionally with the tokens as
    text.
    """
    classifier, texts = _model_and_texts(quick)

    def run(count: int = len(texts)) -> Any:
        found = classifier.explain_many(texts[:count])
        return [
            (
                one.prediction,
                one.contributions,
                one.words if with_names else None,
                one.logit,
            )
            for one in found
        ]

    run(100)  # loads compiled code
    return run


def label(quick: bool) -> Callable[[], Any]:
    classifier, texts = _model_and_texts(quick)
    classifier.predict(texts[:100])  # loads compiled code
    return lambda: classifier.decision_function(texts)


def predict_tf_idf(quick: bool) -> Callable[[], Any]:
    """Prepare TF-IDF of words and pairs with logistic regression, trained on our labels
    of other such texts.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    classifier, texts = _model_and_texts(quick)
    training = reviews(classifier.model_.vocabulary, size(TRAINING_REVIEWS, quick), 1)
    words_and_pairs = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    baseline = make_pipeline(words_and_pairs, LogisticRegression(C=10, max_iter=1000))
    baseline.fit(training, classifier.predict(training))
    return lambda: baseline.predict(texts)


def _explain_methods(quick: bool) -> list[Method]:
    def answer(found: Any) -> Answer:
        return {
            "terms": np.concatenate([one[1] for one in found]),
            "logits": np.array([one[3] for one in found]),
        }

    theirs = "TF-IDF and logistic regression, labels alone"
    return [
        Method(
            "explain_many, labels",
            partial(explain, False, quick),
            answer,
            package="sklearn",
        ),
        Method(
            "and every token as text",
            partial(explain, True, quick),
            answer,
            package="sklearn",
            alone=True,
        ),
        Method(
            theirs,
            partial(predict_tf_idf, quick),
            lambda labels: {},
            package="sklearn",
            compared=False,
        ),
    ]


def _label_methods(quick: bool) -> list[Method]:
    theirs, options = (
        "TF-IDF of words and pairs, logistic regression",
        {"package": "sklearn", "compared": False},
    )
    return [
        Method(
            "predict",
            partial(label, quick),
            lambda logits: {"logits": logits},
            package="sklearn",
        ),
        Method(
            theirs,
            partial(predict_tf_idf, quick),
            lambda labels: {},
            target=Target(1.0),
            **options,
        ),
    ]


def rate_row(rows: list[Row]) -> list[Row]:
    """Return a row with the reviews per second."""
    if rows[0].seconds is None:
        return []
    rate, name = REVIEWS / rows[0].seconds, "reviews labelled and explained a second"
    return [
        Row(
            name,
            measured=number(rate),
            target=f"at least {MIN_RATE:,}",
            reached=rate >= MIN_RATE,
        )
    ]


TEXTS = "texts as long as reviews, runs of the shipped vocabulary by Zipf's law"
EXPLAIN = f"{REVIEWS:,} {TEXTS}, by the shipped model"
CASES = [
    _step_case(2),
    _step_case(16),
    Case(
        "classifier_predict",
        f"Labels of {REVIEWS:,} {TEXTS}",
        _label_methods,
        equal,
        "answers otherwise",
    ),
    Case(
        "classifier_explain",
        EXPLAIN,
        _explain_methods,
        equal,
        "explains otherwise",
        rate_row,
    ),
]
