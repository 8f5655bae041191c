"""Every setting of the classifier, once: its default, what it may be, and what it says.

`HardmaxClassifier` is a dataclass of these fields, so that its signature, its checks and its docstring come from them,
and so do the options of `hardmax train` and the table in docs/classifier.md. Names are those of scikit-learn where it
has one; `layers` is the name that the whole package has.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from numbers import Real
from os import PathLike
from types import NoneType
from typing import Any, get_args

from hardmax._errors import ParameterError, needed_for
from hardmax._validation import check_count, check_positive
from hardmax.text.tokenizers import Tokenizer, check_tokenizer

DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
Check = Callable[[Any, str], object]


def _setting(default: Any, about: str, check: Check | None = None) -> Any:
    return field(default=default, metadata={"about": about, "check": check})


def _count(default: int | None, about: str, *, least: int = 1) -> Any:
    return _setting(default, about, partial(check_count, least=least))


def _positive(default: float, about: str, advice: str = "Pass a positive number.", *, zero: bool = False) -> Any:
    return _setting(default, about, partial(check_positive, advice=advice, zero=zero))


def _part(default: float, about: str) -> Any:
    def check(value: Any, name: str) -> None:
        if not 0 <= value < 1:
            raise ParameterError(name, "be at least 0 and below 1", repr(value))

    return _setting(default, about, check)


def _choice(default: str | None, about: str, *choices: str | None) -> Any:
    def check(value: Any, name: str) -> None:
        if value not in choices:
            raise ParameterError(name, f"be one of {', '.join(map(str, choices))}", repr(value))

    return _setting(default, about, check)


def _check_ngrams(value: Any, name: str) -> None:
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    whole = all(isinstance(size, int) and not isinstance(size, bool) for size in pair)
    if len(pair) != 2 or not whole or not 1 <= pair[0] <= pair[1]:
        must = "be two whole numbers of at least 1, the fewest and the most words of a token"
        raise ParameterError(name, must, repr(value), "1, 3 is words, pairs and triples.")


def check_device(value: Any, name: str) -> None:
    """Refuse what is no device, and a GPU that torch cannot use."""
    if not isinstance(value, str) or not DEVICE.fullmatch(value):
        raise ParameterError(name, 'be "auto", "cpu" or "cuda"', repr(value))
    if not value.startswith("cuda"):
        return
    with needed_for("Training on a GPU", "torch", "text"):
        import torch
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(value.partition(":")[2] or 0) >= there:
        got = f"{value!r} on a machine with {there} GPUs" if there else f"{value!r} on a machine without one"
        raise ParameterError(name, "be a GPU that torch can use", got, 'Use `device="auto"` or `device="cpu"`.')


def _check_class_weight(value: Any, name: str) -> None:
    if not isinstance(value, Mapping) and value != "balanced":
        raise ParameterError(name, 'be None, "balanced" or a dict with a weight for each label', repr(value))
    for label, weight in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(weight, Real) or not 0 < float(weight) < float("inf"):
            raise ParameterError(name, "hold positive finite numbers", f"{weight!r} for {label!r}")


@dataclass(kw_only=True, eq=False)
class ModelSettings:
    """What a classifier is made of."""

    n_heads: int = _count(32, "Independent hardmax models whose logits add.")
    d: int = _count(2, "Coordinates of a head. With 1 head of 2 coordinates the dynamics can be drawn.")
    layers: int = _count(2, "K, how many times tokens move.", least=0)
    groups: int = _count(
        4,
        "Deal the heads out to so many groups. Each learns from its own random part of the tokens, and the answer is "
        "their mean: several small classifiers in one.",
    )
    alpha: float = _positive(1.0, "The alpha that training starts from; each head learns its own, positive.")
    trained_A: bool = _setting(
        False,
        'Learn A = LL^T for each head instead of the identity; with `training="softmax"`, as hardmax gives A no '
        "gradient. (With y = L^T z it is a model with A = I again, so it can do no more.)",
    )
    scale: float = _positive(6.4, "Standard deviation of the embedding at the start, times the coordinates of a group.")
    ngram_range: tuple[int, int] | None = _setting(
        None,
        "Fewest and most neighbouring words of a token: 1, 3 is words, pairs and triples. None is that after a random "
        "start, and that or 1, 2 after a linear one, by cross-validation.",
        _check_ngrams,
    )
    distinct: bool = _setting(True, "Whether a repeated token of a text counts once, as the theorems ask for.")
    min_df: int | None = _count(
        None,
        "Learn tokens that occur in at least so many texts. None is 3 after a random start, and 1 after a linear one: "
        "a small file has many words once.",
    )
    max_features: int | None = _count(
        100_000, "Learn so many tokens at the most. A tenth of them are the most frequent words."
    )
    select: str = _choice(
        "telling",
        'Which ones: "telling", those whose frequency differs most between classes, abs(log ratio) sqrt(texts), or '
        '"frequent". After a linear start always the frequent ones.',
        "telling",
        "frequent",
    )
    max_words: int | None = _count(None, "Read so many words of each text, or all.")
    punctuation: bool = _setting(True, "Whether signs such as ! and , are words.")
    stop_words: str | Collection[str] | None = _setting(
        None, 'Words to leave out; "english" is a list of function words without negations.'
    )
    lemmas: str | None = _setting(None, 'Language whose words become lemmas, such as "en".')
    tokenizer: Tokenizer | None = _setting(  # noqa: RUF009
        None,
        "In Python, a function from a text to the list of its words, in their order, to split texts in another way. "
        "Words are taken as it gives them, and `punctuation` says nothing.",
        check_tokenizer,
    )


@dataclass(kw_only=True, eq=False)
class TrainingSettings:
    """How it is trained: AdamW with one cycle of learning rates."""

    training: str = _choice(
        "hardmax",
        'What training differentiates: "hardmax" itself, or "softmax" attention at a low temperature as in the paper. '
        "Inference is always hardmax.",
        "hardmax",
        "softmax",
    )
    temperature: float = _positive(1e-3, 'Of `training="softmax"`.')
    start: str | None = _choice(
        None,
        'Where training begins: "random", or "linear", where a linear model of the same tokens ends, whose strength is '
        "found by cross-validation; it needs no epochs. None is linear, but for many long texts (8,000 of 400 letters "
        "on average) none of whose classes is rare, or where `epochs` are given.",
        "linear",
        "random",
    )
    epochs: int | None = _count(None, "Passes over the texts after a random start: 5, or more where they are few.")
    batch_size: int = _count(64, "Texts in a step.")
    learning_rate: float = _positive(0.3, "Largest of the embedding's cycle, divided by the coordinates of a group.")
    alpha_rate: float = _positive(0.01, "The same for the alphas, not divided.")
    weight_decay: float = _positive(0.05, "Of the embedding, decoupled as in AdamW.", "Use 0 for none.", zero=True)
    dropout: float = _part(0.5, "Part of a text's tokens that a group does not see in a step.")
    embedding_dropout: float = _part(0.0, "Part of the embedding's numbers that are 0 in a step.")
    label_smoothing: float = _part(0.0, "How far labels are moved towards each other.")
    validation: float = _part(
        0.1,
        "Part of the texts that is held back after a random start, to see how training goes. Training ends with the "
        "last epoch, unless an earlier one was better on these texts by more than a standard error.",
    )
    patience: int | None = _count(None, "Stop after so many epochs without a better one; keep the best.")
    class_weight: str | dict | None = _setting(  # noqa: RUF009
        None,
        '"balanced" lets rare classes weigh as much. In Python also a dict with the weight of each label, 1 for those '
        "it leaves out; `fit` multiplies it with its weights of texts.",
        _check_class_weight,
    )
    random_state: int = _count(0, "The same number gives the same model on the same machine.", least=0)


@dataclass(kw_only=True, eq=False)
class RunSettings:
    """Where a run takes place, and what it leaves behind: nothing of the model, so no file of one holds it."""

    device: str = _setting("auto", '"cpu", "cuda", or "auto" for a GPU where there is one.', check_device)
    checkpoint: str | PathLike[str] | None = _setting(None, "File to keep the state of training in.")  # noqa: RUF009
    resume: bool = _setting(False, "Go on with an unfinished run, if there is one, to the end that it would have had.")
    text_column: str | None = _setting(
        None, "Which column holds the texts where X is a DataFrame. None is the only one that does."
    )
    verbose: bool = _setting(False, "Show a progress bar with loss and accuracy.")


@dataclass(kw_only=True, eq=False)
class Settings(RunSettings, TrainingSettings, ModelSettings):
    """All of them. (The fields of the last base come first.)"""


def check_settings(settings: Settings) -> None:
    """Refuse settings that cannot be trained with."""
    for each in fields(settings):
        value, check = getattr(settings, each.name), each.metadata["check"]
        if check is not None and not (value is None and NoneType in get_args(each.type)):
            check(value, each.name)
    if settings.n_heads % settings.groups:
        got = f"{settings.groups} groups and {settings.n_heads} heads"
        raise ParameterError("groups", "divide `n_heads`", got, "Use `groups=1`, or another number of heads.")
    if settings.trained_A and settings.training != "softmax":
        got = '`training="hardmax"`, which has no gradient for A: small changes of A do not change who is followed'
        raise ParameterError("trained_A", 'go with `training="softmax"`', got)
    if settings.start == "linear" and settings.training != "hardmax":
        raise ParameterError("start", 'be "random" with `training="softmax"`', "'linear'", "Leave it out.")
    if settings.start == "linear" and settings.epochs is not None:
        got = f"`epochs={settings.epochs}`, which it has none of"
        raise ParameterError("start", 'be "random" with `epochs`', got, "Leave one of them out.")
    if settings.resume and settings.checkpoint is None:
        raise ParameterError("resume", "go with `checkpoint`, the file to go on from", "none")


def type_name(each: "Field[Any]") -> str:
    """The type of a setting, as documentation writes it."""
    plain = each.type.__name__ if isinstance(each.type, type) else str(each.type)
    return plain.replace("collections.abc.", "").replace("os.", "").replace(" | ", " or ")


def described(settings: type[Settings]) -> str:
    """The section of a docstring that lists settings."""
    lines = [f"{f.name} : {type_name(f)}\n    {f.metadata['about']}" for f in fields(settings)]
    return "\n".join(["Parameters", "----------", *lines])
