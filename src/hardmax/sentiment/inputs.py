"""What a classifier is given: parameters and texts, refused in a sentence where they do not fit."""

from typing import Any

from hardmax._checks import check_count, check_positive

TRAINING = ("hardmax", "softmax")
SELECT = ("telling", "frequent")


def check_params(given: dict[str, Any]) -> None:
    """Refuse parameters of `HardmaxClassifier` that cannot be trained with."""
    for name in ("heads", "d", "groups", "longest", "min_texts", "batch_size"):
        check_count(given[name], name, least=1)
    for name in ("layers", "random_state"):
        check_count(given[name], name, least=0)
    for name in ("epochs", "max_tokens", "max_words", "patience"):
        if given[name] is not None:
            check_count(given[name], name, least=1)
    for name in ("alpha", "temperature", "learning_rate", "alpha_rate", "scale"):
        check_positive(given[name], name, "Pass a positive number.")
    check_positive(given["weight_decay"], "weight_decay", "Use 0 for none.", zero=True)
    for name in ("dropout", "embedding_dropout", "validation", "label_smoothing"):
        if not 0 <= given[name] < 1:
            raise ValueError(f"`{name}` must be at least 0 and below 1. Got {given[name]!r}.")
    if given["heads"] % given["groups"]:
        raise ValueError(
            f"`groups` must divide `heads`. Got {given['groups']} groups and {given['heads']} heads. Use groups=1, or "
            "another number of heads."
        )
    if given["select"] not in SELECT:
        raise ValueError(f"`select` must be one of {', '.join(SELECT)}. Got {given['select']!r}.")
    if given["training"] not in TRAINING:
        raise ValueError(f"`training` must be one of {', '.join(TRAINING)}. Got {given['training']!r}.")
    if given["trained_A"] and given["training"] != "softmax":
        raise ValueError(
            '`trained_A` must go with training="softmax". Got training="hardmax", which has no gradient for A: '
            "small changes of A do not change who is followed."
        )
    if not isinstance(given["device"], str) or given["device"].split(":")[0] not in ("auto", "cpu", "cuda"):
        raise ValueError(f'`device` must be "auto", "cpu" or "cuda". Got {given["device"]!r}.')
    if given["class_weight"] not in (None, "balanced"):
        raise ValueError(f'`class_weight` must be None or "balanced". Got {given["class_weight"]!r}.')
    if given["resume"] and given["checkpoint"] is None:
        raise ValueError("`resume` must go with `checkpoint`, the file to go on from. Got none.")


def check_texts(X: Any) -> list[str]:
    """A list of texts, or a sentence about what came instead."""
    if isinstance(X, str | bytes):
        raise ValueError("`X` must be a list of texts. Got a single one. Put it in brackets: [text].")
    if hasattr(X, "ndim") and X.ndim != 1:
        raise ValueError(
            f"`X` must be one-dimensional, a text in each place. Got shape {tuple(X.shape)}. Reshape your data or pass "
            "a single column."
        )
    if not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        raise ValueError(f"`X` must be a list of texts. Got {type(X).__name__}.")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"`X` must hold texts alone. Got {type(text).__name__} at place {i}: {str(text)[:40]!r}. Convert it to "
                "str, or leave that row out."
            )
    if not texts:
        raise ValueError("`X` must hold at least one text. Got none: 0 sample(s) while a minimum of 1 is required.")
    return texts
