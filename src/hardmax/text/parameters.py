"""Every parameter of the classifier, once: its default, its bounds and its description.

`HardmaxClassifier` is a dataclass of these fields: its signature, checks and docstring
come from them, and so do the options of `hardmax train` and the table in
docs/classifier.md. Names are those of scikit-learn where it has one; `layers` is the
name that the whole package uses.
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
from hardmax.text.encoder import check_encoder
from hardmax.text.tokenizer import Tokenizer, check_tokenizer

DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
MODEL, TRAINING, RUN = (
    "Model",
    "Training",
    "Run",
)  # groups of parameters; those of a run are not stored in a model
DTYPES = ("float64", "float32", "bfloat16")
Check = Callable[[Any, str], object]


def _parameter(group: str, default: Any, about: str, check: Check | None = None) -> Any:
    return field(
        default=default, metadata={"group": group, "about": about, "check": check}
    )


def _count(group: str, default: int | None, about: str, *, least: int = 1) -> Any:
    return _parameter(group, default, about, partial(check_count, least=least))


def _positive(group: str, default: float, about: str, *, zero: bool = False) -> Any:
    advice = "Use 0 for none." if zero else "Pass a positive number."
    return _parameter(
        group, default, about, partial(check_positive, advice=advice, zero=zero)
    )


def _fraction(default: float, about: str) -> Any:
    def check(value: Any, name: str) -> None:
        if not 0 <= value < 1:
            raise ParameterError(name, "be at least 0 and below 1", repr(value))

    return _parameter(TRAINING, default, about, check)


def _choice(
    group: str, choices: tuple[str, ...], about: str, *, optional: bool = False
) -> Any:
    def check(value: Any, name: str) -> None:
        if value not in choices:
            raise ParameterError(name, f"be one of {', '.join(choices)}", repr(value))

    return _parameter(group, None if optional else choices[0], about, check)


def _check_ngrams(value: Any, name: str) -> None:
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    integers = all(
        isinstance(size, int) and not isinstance(size, bool) for size in pair
    )
    if len(pair) != 2 or not integers or not 1 <= pair[0] <= pair[1]:
        must = (
            "be two integers of at least 1, the smallest and the largest number of"
            " words of a token"
        )
        raise ParameterError(
            name, must, repr(value), "1, 3 stands for words, pairs and triples."
        )


def _check_columns(value: Any, name: str) -> None:
    listed = isinstance(value, Collection) and not isinstance(
        value, str | bytes | Mapping
    )
    if (
        not listed
        or not all(isinstance(each, str) for each in value)
        or len(set(value)) < len(value)
    ):
        raise ParameterError(
            name, "be a list of different names of columns", repr(value)[:60]
        )


def _check_device(value: Any, name: str) -> None:
    """Raise an error for a name that is no device, and for a GPU that torch cannot use."""
    if not isinstance(value, str) or not DEVICE.fullmatch(value):
        raise ParameterError(name, 'be "auto", "cpu" or "cuda"', repr(value))
    if not value.startswith("cuda"):
        return
    with needed_for("Training on a GPU", "torch", "torch"):
        import torch
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(value.partition(":")[2] or 0) >= there:
        got = (
            f"{value!r} on a machine with {there} GPUs"
            if there
            else f"{value!r} on a machine without a GPU"
        )
        raise ParameterError(
            name,
            "be a GPU that torch can use",
            got,
            'Use `device="auto"` or `device="cpu"`.',
        )


def _check_class_weight(value: Any, name: str) -> None:
    if not isinstance(value, Mapping) and value != "balanced":
        raise ParameterError(
            name,
            'be None, "balanced" or a dict with a weight for each label',
            repr(value),
        )
    for label, weight in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(weight, Real) or not 0 < float(weight) < float("inf"):
            raise ParameterError(
                name, "hold positive finite numbers", f"{weight!r} for {label!r}"
            )


@dataclass(kw_only=True, eq=False)
class Parameters:
    """Parameters of `HardmaxClassifier`: of the model, of its training, and of one run."""

    n_heads: int = _count(
        MODEL, 32, "Number of independent hardmax models whose logits add."
    )
    d: int = _count(
        MODEL, 2, "Coordinates of a head. One head of 2 coordinates can be drawn."
    )
    layers: int = _count(MODEL, 2, "K, the number of hardmax layers.", least=0)
    groups: int = _count(
        MODEL,
        4,
        "Number of groups of heads. Each group is trained on its own random part of the"
        " tokens, and the logit is the mean over groups: an ensemble in one model.",
    )
    alpha: float = _positive(
        MODEL, 1.0, "Initial alpha; each head learns its own, positive."
    )
    trained_A: bool = _parameter(
        MODEL,
        False,
        "Learn A = LL^T for each head instead of the identity; with"
        ' `training="softmax"`, as hardmax gives A no gradient. This adds no expressive'
        " power: substitute y = L^T z.",
    )
    scale: float = _positive(
        MODEL,
        6.4,
        "Initial standard deviation of the embedding, times the number of coordinates"
        " of a group.",
    )
    ngram_range: tuple[int, int] | None = _parameter(
        MODEL,
        None,
        "Smallest and largest n-gram: 1, 3 stands for words, pairs and triples."
        " Default: 1, 3 after a random start, and 1, 2 or 1, 3, chosen by"
        " cross-validation, after a linear start.",
        _check_ngrams,
    )
    distinct: bool = _parameter(
        MODEL,
        True,
        "Count a repeated token of a text once, as the theorems assume distinct"
        " tokens.",
    )
    min_df: int | None = _count(
        MODEL,
        None,
        "Smallest number of texts that contain a token. Default: 3 after a random"
        " start, and 1 after a linear start, as many words of a small file occur once.",
    )
    max_features: int | None = _count(
        MODEL,
        100_000,
        "Largest size of the vocabulary. 10 % of it is reserved for the most frequent"
        " words.",
    )
    select: str = _choice(
        MODEL,
        ("discriminative", "frequent"),
        'Tokens to keep when there are more: "discriminative", those whose frequency'
        ' differs most between classes, abs(log ratio) sqrt(texts), or "frequent". A'
        " linear start always keeps the most frequent tokens.",
    )
    max_words: int | None = _count(
        MODEL, None, "Number of words of a text that are read. Default: all."
    )
    punctuation: bool = _parameter(
        MODEL, True, "Treat punctuation characters such as ! and , as words."
    )
    stop_words: str | Collection[str] | None = _parameter(
        MODEL,
        None,
        'Words to leave out; "english" is a list of function words without negations.',
    )
    lemmas: str | None = _parameter(
        MODEL,
        None,
        'Language in which words are replaced by their lemmas, such as "en".',
    )
    tokenizer: Tokenizer | None = _parameter(  # noqa: RUF009
        MODEL,
        None,
        "In Python, a function from a text to the list of its words in their order. The"
        " words are used as they are; `punctuation` has no effect then.",
        check_tokenizer,
    )
    encoder: Any = _parameter(  # noqa: RUF009
        MODEL,
        None,
        'Pretrained encoder whose vectors of words are read beside n-grams: "minilm",'
        " the folder or name of a local transformer, in Python also a pair (model,"
        " tokenizer), or a function from texts to (tokens, offsets, vectors) of each."
        " Best for fewer than 2,000 texts.",
        check_encoder,
    )
    columns: Collection[str] | None = _parameter(
        MODEL,
        None,
        "Further columns of a DataFrame whose contributions are added: a linear term"
        " for each standardised number, and one for each category. Missing values and"
        " unseen categories contribute 0.",
        _check_columns,
    )
    long_texts: str = _choice(
        MODEL,
        ("windows", "cut"),
        "How an encoder reads texts that are longer than its window: in overlapping"
        ' "windows", or "cut" to the first.',
    )
    encoder_dtype: str = _choice(
        MODEL,
        DTYPES,
        "Precision of an encoder. In float64 a text has the same vectors in every"
        " batch; the others are faster.",
    )
    training: str = _choice(
        TRAINING,
        ("hardmax", "softmax"),
        'Attention that training differentiates: "hardmax" itself, or "softmax" at a'
        " low temperature as in the paper. Inference is always hardmax.",
    )
    temperature: float = _positive(
        TRAINING, 1e-3, 'Temperature of `training="softmax"`.'
    )
    start: str | None = _choice(
        TRAINING,
        ("linear", "random"),
        'Initial weights: "random", or "linear", from a linear model of the same tokens'
        " whose regularisation is chosen by cross-validation; it needs no epochs."
        " Default: linear; random if `epochs` is given, or for at least 8,000 long"
        " texts (400 characters on average) without a rare class.",
        optional=True,
    )
    epochs: int | None = _count(
        TRAINING,
        None,
        "Epochs after a random start. Default: 5, or more if there are few texts.",
    )
    batch_size: int = _count(TRAINING, 64, "Texts per step.")
    learning_rate: float = _positive(
        TRAINING,
        0.3,
        "Peak learning rate of the embedding, divided by the number of coordinates of a"
        " group.",
    )
    alpha_rate: float = _positive(TRAINING, 0.01, "Peak learning rate of alpha.")
    weight_decay: float = _positive(
        TRAINING,
        0.05,
        "Decoupled weight decay of the embedding, as in AdamW.",
        zero=True,
    )
    dropout: float = _fraction(
        0.5, "Fraction of a text's tokens that are left out of a group in a step."
    )
    embedding_dropout: float = _fraction(
        0.0, "Fraction of the embedding's coordinates that are 0 in a step."
    )
    label_smoothing: float = _fraction(0.0, "Label smoothing of the cross-entropy.")
    validation: float = _fraction(
        0.1,
        "Fraction of the texts that is held out after a random start. Training ends"
        " with the last epoch, unless an earlier epoch was better on these texts by"
        " more than a standard error.",
    )
    patience: int | None = _count(
        TRAINING,
        None,
        "Stop after this number of epochs without improvement, and keep the best"
        " epoch.",
    )
    class_weight: str | dict | None = _parameter(  # noqa: RUF009
        TRAINING,
        None,
        '"balanced" gives rare classes the same total weight. In Python also a dict'
        " from label to weight, 1 for labels that it leaves out; `fit` multiplies it"
        " with `sample_weight`.",
        _check_class_weight,
    )
    random_state: int = _count(
        TRAINING,
        0,
        "Seed. The same seed gives the same model on the same machine.",
        least=0,
    )
    device: str = _parameter(
        RUN,
        "auto",
        '"cpu", "cuda", or "auto" for a GPU if there is one.',
        _check_device,
    )
    checkpoint: str | PathLike[str] | None = _parameter(  # noqa: RUF009
        RUN, None, "File for the state of training after each epoch."
    )
    encoder_cache: str | PathLike[str] | None = _parameter(  # noqa: RUF009
        RUN,
        None,
        "Folder in which vectors of the encoder are kept, so that a text is encoded"
        " once.",
    )
    resume: bool = _parameter(
        RUN, False, "Resume an unfinished run, if there is one; the result is the same."
    )
    text_column: str | None = _parameter(
        RUN,
        None,
        "Column of texts where X is a DataFrame. Default: the only column of texts.",
    )
    verbose: bool = _parameter(
        RUN, False, "Show a progress bar with loss and accuracy."
    )

    @property
    def column_names(self) -> list[str]:
        """Return `columns` as a list; it may be given as an index of pandas."""
        return [] if self.columns is None else list(self.columns)


def parameter_names(*groups: str) -> list[str]:
    """Return the names of the parameters of some groups, in their order."""
    return [
        each.name for each in fields(Parameters) if each.metadata["group"] in groups
    ]


def starts_random(parameters: Parameters) -> bool:
    """Return whether the parameters need a random start."""
    return (
        parameters.start == "random"
        or parameters.epochs is not None
        or parameters.training != "hardmax"
    )


def check_parameters(parameters: Parameters) -> None:
    """Raise an error if a value is out of its bounds, or if two values exclude each
    other.
    """
    for each in fields(parameters):
        value, check = getattr(parameters, each.name), each.metadata["check"]
        if check is not None and not (
            value is None and (NoneType in get_args(each.type) or each.type is Any)
        ):
            check(value, each.name)
    if parameters.n_heads % parameters.groups:
        got = f"{parameters.groups} groups and {parameters.n_heads} heads"
        raise ParameterError(
            "groups",
            "divide `n_heads`",
            got,
            "Use `groups=1`, or another number of heads.",
        )
    if parameters.trained_A and parameters.training != "softmax":
        got = (
            '`training="hardmax"`, which has no gradient for A: small changes of A do'
            " not change the argmax sets"
        )
        raise ParameterError("trained_A", 'be used with `training="softmax"`', got)
    if parameters.start == "linear" and parameters.training != "hardmax":
        raise ParameterError(
            "start",
            'be "random" with `training="softmax"`',
            "'linear'",
            "Leave it out.",
        )
    if parameters.start == "linear" and parameters.epochs is not None:
        got = f"`epochs={parameters.epochs}`"
        raise ParameterError(
            "start", 'be "random" with `epochs`', got, "Leave one of them out."
        )
    for name, is_used in (
        ("encoder", parameters.encoder is not None),
        ("columns", bool(parameters.column_names)),
    ):
        if is_used and starts_random(parameters):
            got = '`start="random"`, `epochs` or `training="softmax"`'
            raise ParameterError(
                name, "be used with a linear start", got, "Leave them out."
            )
    if parameters.resume and parameters.checkpoint is None:
        raise ParameterError(
            "resume",
            "be used with `checkpoint`, the file of the unfinished run",
            "no file",
        )


def type_name(each: "Field[Any]") -> str:
    """Return the type of a parameter, as documentation writes it."""
    plain = each.type.__name__ if isinstance(each.type, type) else str(each.type)
    return (
        plain.replace("collections.abc.", "").replace("os.", "").replace(" | ", " or ")
    )


def describe_parameters(parameters: type[Parameters]) -> str:
    """Return the Parameters section of a docstring."""
    lines = [
        f"{f.name} : {type_name(f)}\n    {f.metadata['about']}"
        for f in fields(parameters)
    ]
    return "\n".join(["Parameters", "----------", *lines])
