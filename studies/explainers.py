"""What each word of a text counts for, by our own sums and by the methods that they are
compared with.

All methods compute the contribution of each occurrence of a word to a class. All erase
alike: an erased word becomes an unknown one, so that its neighbours make no new pairs.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec

import numpy as np

from hardmax._errors import MissingExtra, ParameterError
from hardmax._types import AnyArray, FloatArray
from hardmax.text.classifier import HardmaxClassifier
from hardmax.text.explanation import Explanation
from hardmax.text.model import logits

STEPS = 50  # of integrated gradients
EVALUATIONS = 500  # SHAP's own default
# erased texts at a time: their words fit into memory whatever the length of the text
BATCH = 500


@dataclass(frozen=True, eq=False)
class Question:
    """Return the contribution of each word of a text to one of the classes."""

    classifier: HardmaxClassifier
    text: str
    place: int  # which of `classifier.classes_`
    samples: int = 5000  # erased texts that LIME may look at

    @classmethod
    def of_prediction(
        cls, classifier: HardmaxClassifier, text: str, *, samples: int = 5000
    ) -> "Question":
        place = classifier.classes_.tolist().index(
            classifier.predict([text]).tolist()[0]
        )
        return cls(classifier, text, place, samples)

    @cached_property
    def words(self) -> list[str]:
        """Words of the text in their order; one that comes twice is there twice."""
        return self.classifier.model_.vocabulary.splitter.words(self.text)

    def logits(self, kept: AnyArray) -> FloatArray:
        """(m, outputs) logits of m erased texts; row r of `kept`, (m, words), marks the
        words that remain in text r.
        """
        words = np.array(self.words, dtype=object)
        batches = np.split(kept.astype(bool), range(BATCH, len(kept), BATCH))
        return np.concatenate(
            [
                self.logits_of_words(np.where(rows, words, "").tolist())
                for rows in batches
            ]
        )

    def logits_of_words(self, documents: Sequence[Sequence[str]]) -> FloatArray:
        """(m, outputs) logits of texts that are split already; an erased word is ""."""
        model = self.classifier.model_
        if (
            model.context is not None
        ):  # the encoder reads the other words as a text again
            return model.logits([" ".join(words) for words in documents])
        return logits(
            model.weights, model.vocabulary.encode_words(documents, len(documents))
        )

    def probabilities(self, kept: AnyArray) -> FloatArray:
        """(m,) probability of the class in erased texts."""
        return self.classifier.model_.probabilities(self.logits(kept))[:, self.place]

    def log_odds(self, kept: AnyArray) -> FloatArray:
        """(m,) log p / (1 - p) in erased texts; with two classes it is the logit,
        signed towards the class.
        """
        scores = self.logits(kept)
        if scores.shape[1] == 1:
            return self.towards(scores)
        return np.asarray(
            scores[:, self.place]
            - np.logaddexp.reduce(np.delete(scores, self.place, axis=1), axis=1)
        )

    def towards(self, terms: FloatArray) -> FloatArray:
        """(m,) of (m, outputs) parts of logits those for the class."""
        return (
            terms[:, 0] * (1 if self.place == 1 else -1)
            if terms.shape[1] == 1
            else terms[:, self.place]
        )


def hardmax(question: Question, *, even: bool = False) -> FloatArray:
    """Ours: the part of the logit that a word holds. Nothing is sampled, and the parts
    sum to the logit.
    """
    return _by_word(question, question.classifier.explain(question.text), even=even)


def leave_one_out(question: Question) -> FloatArray:
    """By how much the log-odds of the class fall when one word is erased; exact, a
    prediction for each word.

    Log-odds, because near 0 and 1 the probability hardly moves and many words would
    tie.
    """
    every = np.ones((1, len(question.words)), bool)
    return question.log_odds(every) - question.log_odds(
        ~np.eye(len(question.words), dtype=bool)
    )


def lime(question: Question, seed: int) -> FloatArray:
    """LIME's linear model of the probability around a text, over all its words."""
    from lime.lime_text import LimeTextExplainer

    model = question.classifier.model_
    explainer = LimeTextExplainer(
        split_expression=" ", bow=False, mask_string="", random_state=seed
    )
    with _foreign(seed):
        found = explainer.explain_instance(
            " ".join(question.words),
            lambda texts: model.probabilities(
                question.logits_of_words([text.split(" ") for text in texts])
            ),
            labels=(question.place,),
            num_features=len(question.words),
            num_samples=question.samples,
        )
    weights = dict(found.local_exp[question.place])
    return np.array([weights.get(i, 0.0) for i in range(len(question.words))])


def shap(question: Question, seed: int, *, tree: bool) -> FloatArray:
    """SHAP's values of the probability, with 500 evaluations: Owen values over its own
    tree of neighbouring words.

    Without a tree, Shapley values from random orders of the words: one forwards and
    back, or more.
    """
    nothing, most = np.zeros((1, len(question.words))), EVALUATIONS
    with _foreign(seed):
        from shap import PartitionExplainer, PermutationExplainer, maskers

        if tree and len(question.words) > 1:  # one word makes no tree
            clustering = maskers.Text(r"\s+").clustering(" ".join(question.words))
            explainer = PartitionExplainer(
                question.probabilities,
                maskers.Partition(nothing, clustering=clustering),
            )
        else:
            explainer = PermutationExplainer(
                question.probabilities, maskers.Independent(nothing), seed=seed
            )
            most = max(EVALUATIONS, 2 * len(question.words) + 1)
        return np.asarray(explainer(1 - nothing, max_evals=most, silent=True).values[0])


def gradients(question: Question, scales: FloatArray) -> FloatArray:
    """Gradient of the logit times the embedding, averaged over scales of the text's
    embedding.

    Argmax sets do not change when all tokens are scaled alike, so this equals ours: a
    check of both.
    """
    import torch

    from hardmax.attention.layers import hardmax_layers

    explanation, weights = (
        question.classifier.explain(question.text),
        question.classifier.model_.weights,
    )
    z, counts, copies = (
        weights.tokens(explanation.ids).transpose(1, 0, 2),
        explanation.counts,
        len(scales),
    )
    heads, n, d = z.shape
    scaled = torch.tensor(
        scales[:, None, None, None] * z, requires_grad=True
    )  # (copies, heads, n, d)
    alpha = torch.tensor(np.tile(weights.alpha, copies))
    A = None if weights.A is None else torch.tensor(np.tile(weights.A, (copies, 1, 1)))
    many = torch.tensor(counts).expand(copies * heads, n)
    last = hardmax_layers(
        scaled.reshape(copies * heads, n, d), alpha, weights.layers, A=A, counts=many
    )
    loud = weights.pooling_factor(counts.sum()) / (max(1, counts.sum()) * copies)
    share, decoder = torch.tensor(counts * loud), torch.tensor(weights.decoder)
    totals = torch.einsum(
        "chnd,n,ohd->o", last.view(scaled.shape), share, decoder
    )  # logits less the bias
    slopes = [
        torch.autograd.grad(total, scaled, retain_graph=True)[0].numpy().sum(axis=0)
        for total in totals
    ]
    terms = np.stack([(slope * z).sum(axis=(0, 2)) for slope in slopes], axis=1)
    return _by_word(question, replace(explanation, terms=terms))


EXPLAINERS: dict[str, Callable[[Question, int], FloatArray]] = {
    "hardmax": lambda question, seed: hardmax(question),
    "hardmax-even": lambda question, seed: hardmax(
        question, even=True
    ),  # words share their runs
    "leave-one-out": lambda question, seed: leave_one_out(question),
    "lime": lime,
    "shap-partition": partial(shap, tree=True),
    "shap-permutation": partial(shap, tree=False),
    "integrated-gradients": lambda question, seed: gradients(
        question, (np.arange(STEPS) + 0.5) / STEPS
    ),  # from 0
    "gradient-times-input": lambda question, seed: gradients(question, np.ones(1)),
    # independent of the text: a baseline for every method
    "random": lambda question, seed: np.random.default_rng(
        [seed, len(question.text)]
    ).random(len(question.words)),
}


def check_methods(methods: Collection[str] | None) -> list[str]:
    """Names of explainers, all for None; refuses unknown ones, and those whose package
    is missing.
    """
    names = list(EXPLAINERS) if methods is None else list(methods)
    unknown = [name for name in names if name not in EXPLAINERS]
    if unknown or not names:
        got = repr(unknown[0] if unknown else "none")
        raise ParameterError(
            "methods",
            f"be some of {', '.join(EXPLAINERS)}",
            got,
            "Leave it out for all.",
        )
    for package in ("lime", "shap"):
        if (
            any(name.startswith(package) for name in names)
            and find_spec(package) is None
        ):
            raise MissingExtra(f"A comparison with {package.upper()}", package, "bench")
    return names


def _by_word(
    question: Question, explanation: Explanation, *, even: bool = False
) -> FloatArray:
    """(words,) what an explanation gives each word of the text, signed towards the
    class.
    """
    outputs = len(explanation.logits)
    parts = np.array(
        [mark.contribution for mark in explanation.highlighted(even=even)]
    ).reshape(-1, outputs)
    return question.towards(parts)


@contextmanager
def _foreign(seed: int) -> Iterator[None]:
    """LIME and SHAP use what their own dependencies have deprecated, and SHAP draws
    from NumPy's global numbers.
    """
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            for category in (
                DeprecationWarning,
                FutureWarning,
                PendingDeprecationWarning,
            ):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
