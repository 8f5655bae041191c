"""Models on disk: a folder with JSON and safetensors.

Reading executes no code from the folder. Compiled code does not check its arrays, so
every array is checked here.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError, ParameterTypeError, needed_for
from hardmax._files import save_text, written_whole
from hardmax._types import AnyArray
from hardmax._validation import is_positive_definite
from hardmax.text.card import Record, model_card
from hardmax.text.columns import MAX_FLOAT, Column, Columns
from hardmax.text.context import Context
from hardmax.text.encoder import restore_encoder
from hardmax.text.model import Epoch, Model, Weights
from hardmax.text.parameters import DTYPES, MODEL, TRAINING, Parameters, parameter_names
from hardmax.text.tokenizer import Splitter, Tokenizer, full_name
from hardmax.text.vocabulary import Vocabulary

FORMAT, VERSION = "hardmax-classifier", 3
MODELS = Path(__file__).with_name("models")
FILE, CARD, CHECKPOINT = "model.json", "README.md", "checkpoint"
TOKENIZER = "tokenizer"  # a file holds its name only, as code is not data
PARAMETERS = [
    name
    for name in parameter_names(MODEL, TRAINING)
    if name not in (TOKENIZER, "encoder")
]
COLUMN = {"name": str, "categories": list} | dict.fromkeys(
    ("mean", "scale", "low", "high"), float
)
COLUMN_RANGE = {"low": -MAX_FLOAT, "high": MAX_FLOAT}  # where a model states none
KINDS: dict[str, Any] = {
    **dict.fromkeys(("weights", "sha256", "classes_dtype", "multilabel"), str),
    **dict.fromkeys(("classes", "history", "words", "columns"), list),
    **dict.fromkeys(("text", "params", "training"), dict),
    "layers": int,
    "pooling_exponent": float,
    "distinct": bool,
}
TRAINING_KINDS = {"texts": int, "classes": dict, "characters": float} | dict.fromkeys(
    ("sha256", "date", "version", "about"), str
)
CONTEXT = "context_"
CONTEXT_ARRAYS = [
    f"{CONTEXT}{name}" for name in ("mean", "scale", "linear", "projection", "decoder")
]
ENCODER = {
    "name": str,
    "alpha": float,
    "layers": int,
    "cut": bool,
    "dtype": str,
}  # beside the hashes of a transformer
TEXT = [each.name for each in fields(Splitter) if each.name != TOKENIZER]
EPOCH = {each.name for each in fields(Epoch)}
MAX_LAYERS = 10_000


class Stored(NamedTuple):
    """A model, its parameters, the epochs and the record of its training."""

    model: Model
    params: dict[str, Any]
    history: list[Epoch]
    record: Record


def save_model(
    model: Model,
    folder: Path,
    parameters: Parameters,
    history: list[Epoch],
    record: Record,
    *,
    compact: bool = False,
) -> None:
    """Write a model; `model.json` is renamed into place last, so a kill leaves the old
    model or the new one.

    With `compact` the embedding is quantised to one byte per coordinate, see
    `quantise`.
    """
    data = _pack(model, compact)
    name = f"weights-{sha256(data).hexdigest()[:16]}.safetensors"
    with written_whole(folder / name) as temporary:
        temporary.write_bytes(data)
    splitter = model.vocabulary.splitter
    tokenizer = (
        {} if splitter.tokenizer is None else {TOKENIZER: full_name(splitter.tokenizer)}
    )
    params = {name: getattr(parameters, name) for name in PARAMETERS}
    if isinstance(parameters.class_weight, Mapping):
        params["class_weight"] = list(
            parameters.class_weight.items()
        )  # labels may be numbers, keys of JSON are texts
    about = {
        "format": FORMAT,
        "version": VERSION,
        "weights": name,
        "sha256": sha256(data).hexdigest(),
        "classes": model.classes.tolist(),
        "classes_dtype": model.classes.dtype.str,
        "layers": model.weights.layers,
        "pooling_exponent": model.weights.pooling_exponent,
        "distinct": model.vocabulary.distinct,
        "text": {name: getattr(splitter, name) for name in TEXT} | tokenizer,
        "params": params,
        "history": [asdict(epoch) for epoch in history],
        "training": asdict(record),
        "words": list(model.vocabulary.words),
    }
    if model.context is not None:
        own = model.context
        own_encoder = {"cut": own.encoder.cut, "dtype": own.encoder.dtype}
        about["encoder"] = (
            own.encoder.identity
            | {"alpha": own.alpha, "layers": own.layers}
            | own_encoder
        )
    if len(model.columns):
        about["columns"] = [asdict(each) for each in model.columns.every]
    if model.multilabel:
        about["multilabel"] = model.multilabel
    save_text(model_card(model, history, record), folder / CARD)
    save_text(
        json.dumps(about, default=_for_json, separators=(",", ":")), folder / FILE
    )
    for path in folder.glob(
        f"weights-{'?' * 16}.safetensors"
    ):  # of the model that was here before
        if path.name != name:
            path.unlink()


def shipped_models() -> list[str]:
    """Return the names of the models inside the package."""
    return sorted(path.parent.name for path in MODELS.glob(f"*/{FILE}"))


def find_model(model: str | PathLike[str]) -> Path:
    """Return the folder of a model, given that folder or the name of a model inside the
    package.
    """
    if not isinstance(model, str | PathLike):
        must, advice = (
            "be the folder or the name of a model",
            "Save the classifier first, and pass the folder.",
        )
        raise ParameterTypeError("model", must, type(model).__name__, advice)
    if (Path(model) / FILE).is_file():
        return Path(model)
    if str(model) in shipped_models():
        return MODELS / str(model)
    must = (
        "be a folder that hardmax train wrote (or HardmaxClassifier.save), or one of"
        f" {', '.join(shipped_models())}"
    )
    if (Path(model) / CHECKPOINT).is_file():
        got = f"{str(model)!r}, the folder of an unfinished run"
        raise ParameterError("model", must, got, "Resume it: hardmax train --resume.")
    raise ParameterError("model", must, repr(str(model)), "Check the path.")


def load_model(
    folder: Path, tokenizer: Tokenizer | None = None, encoder: Any = None
) -> Stored:
    """Read a model from its folder; one that was trained with a `tokenizer` or an
    `encoder` needs the same one.
    """
    file = folder / FILE
    about = _read_about(file)
    needed = about["text"].get(TOKENIZER)
    if needed is None and tokenizer is not None:
        got = full_name(tokenizer) if callable(tokenizer) else repr(tokenizer)
        raise ParameterError(
            TOKENIZER, "be left out for a model that was trained without one", got
        )
    if needed is not None and tokenizer is None:
        must = (
            "be loaded with the tokenizer that it was trained with,"
            f" {str(needed)[:200]!r}"
        )
        advice = "Pass it in Python: HardmaxClassifier.load(path, tokenizer=...)."
        raise ParameterError(
            file,
            must,
            "none",
            f"{advice} The command line and the app cannot use this model.",
        )
    arrays = _read_arrays(folder / Path(about["weights"]).name, about)
    splitter = Splitter(**about["text"] | {TOKENIZER: tokenizer})
    vocabulary = Vocabulary(
        splitter, tuple(about["words"]), arrays["runs"], about["distinct"]
    )
    embedding = arrays["embedding"]
    if embedding.dtype == np.int8:
        embedding = (embedding.astype(np.float32) + np.float32(0.5)) * arrays["grid"]
    alpha, decoder, bias = (arrays[name] for name in ("alpha", "decoder", "bias"))
    layers, exponent, offset = (
        about["layers"],
        about["pooling_exponent"],
        arrays.get("decision_offset"),
    )
    weights = Weights(
        embedding, alpha, arrays.get("A"), decoder, bias, layers, exponent, offset
    )
    record = Record(**{name: about["training"][name] for name in TRAINING_KINDS})
    history = [Epoch(**epoch) for epoch in about["history"]]
    params = {
        name: about["params"][name] for name in PARAMETERS if name in about["params"]
    }  # no path of a checkpoint
    for name, kind in (("ngram_range", tuple), ("class_weight", dict)):
        if isinstance(params.get(name), list):
            params[name] = kind(params[name])
    context = (
        _read_context(about["encoder"], arrays, encoder) if "encoder" in about else None
    )
    if context is None and encoder is not None:
        raise ParameterError(
            "encoder",
            "be left out for a model that was trained without one",
            repr(encoder)[:60],
        )
    params |= {
        TOKENIZER: tokenizer,
        "encoder": None if context is None else context.encoder.source,
    }
    every = tuple(
        Column(**each | {"categories": tuple(each["categories"])})
        for each in about["columns"]
    )
    columns, form = (
        Columns(every, arrays.get("columns", np.zeros((1, 0)))),
        about["multilabel"],
    )
    return Stored(
        Model(vocabulary, weights, about["classes"], context, columns, form),
        params,
        history,
        record,
    )


def _read_context(
    about: dict[str, Any], arrays: dict[str, AnyArray], encoder: Any
) -> Context:
    """Return the part of a model that reads vectors; its encoder has the hashes of the
    one of training.
    """
    own = restore_encoder(about, encoder)
    mean, scale, linear, projection, decoder = (arrays[name] for name in CONTEXT_ARRAYS)
    context = Context(
        own, mean, scale, linear, projection, decoder, about["alpha"], about["layers"]
    )
    if callable(
        own.source
    ):  # only its name is known: at least its vectors must have the same width
        _ = list(context.read(["word"], Splitter()))
    return context


def quantise(embedding: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return (tokens, heads, d) bytes k and (heads, d) steps s with embedding about (k
    + 1/2) s.

    No coordinate is 0, as the argmax set of a zero token is the set of all tokens.
    """
    step = (np.abs(embedding).max(axis=0) / 127.5).astype(np.float32)
    step[step == 0] = 1
    return np.clip(np.floor(embedding / step), -128, 127).astype(np.int8), step


def _pack(model: Model, compact: bool) -> bytes:
    with needed_for("Saving a model", "safetensors", "text"):
        from safetensors.numpy import save
    w, dtype = (
        model.weights,
        np.uint16 if len(model.vocabulary.words) < 2**16 - 1 else np.uint32,
    )
    ngrams = (model.vocabulary.ngrams + 1).astype(dtype)  # 0 stands for no word
    arrays = {"alpha": w.alpha, "decoder": w.decoder, "bias": w.bias, "runs": ngrams}
    if compact:
        arrays["embedding"], arrays["grid"] = quantise(w.embedding)
    else:
        arrays["embedding"] = np.asarray(w.embedding, dtype=np.float32)
    if len(model.columns):
        arrays["columns"] = model.columns.linear
    if model.context is not None:
        arrays |= {
            name: getattr(model.context, name[len(CONTEXT) :])
            for name in CONTEXT_ARRAYS
        }
    arrays |= {
        name: array
        for name, array in (("A", w.A), ("decision_offset", w.decision_offset))
        if array is not None
    }
    return bytes(
        save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    )


def _for_json(value: Any) -> Any:
    """Convert NumPy scalars, columns of pandas and sets of stop words for JSON."""
    return value.tolist() if hasattr(value, "tolist") else sorted(value)


def _read_about(file: Path) -> dict[str, Any]:
    """Return the description of a model; every entry is checked, except those of
    `params` and `text`.
    """
    try:
        about: Any = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(
            f"`{file}` must be JSON. It is truncated or something else. Copy the folder"
            " again."
        ) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(
            f"`{file}` must describe a model of hardmax. It is something else. Check"
            " the path."
        )
    if about.get("version") != VERSION:
        advice = "Load it with the release of hardmax that wrote it, or train it again."
        raise ParameterError(
            file, f"have version {VERSION}", repr(about.get("version")), advice
        )
    about = {"columns": [], "multilabel": "", **about}
    _require_kinds(about, KINDS, file)
    _require_kinds(about["training"], TRAINING_KINDS, file, of=" of `training`")
    counts = about["training"]["classes"].values()
    _require(
        all(isinstance(count, int) for count in counts),
        file,
        "`classes` of `training` must hold integers",
    )
    words, classes, exponent = (
        about["words"],
        about["classes"],
        about["pooling_exponent"],
    )
    distinct = all(isinstance(word, str) and word for word in words) and len(
        set(words)
    ) == len(words)
    _require(distinct, file, "`words` must be distinct strings")
    _require(
        0 <= about["layers"] <= MAX_LAYERS,
        file,
        f"`layers` must lie between 0 and {MAX_LAYERS:,}",
    )
    _require(0 <= exponent <= 1, file, "`pooling_exponent` must lie between 0 and 1")
    _require(
        set(about["text"]) - {TOKENIZER} == set(TEXT),
        file,
        "`text` must have the known entries",
    )
    known = all(
        isinstance(epoch, dict) and set(epoch) == EPOCH for epoch in about["history"]
    )
    _require(known, file, "`history` must have the known entries")
    try:
        made = np.array(classes, dtype=np.dtype(about["classes_dtype"]))
    except (TypeError, ValueError, OverflowError):
        made = np.empty(0)
    if "encoder" in about:
        _require(
            isinstance(about["encoder"], dict), file, "`encoder` must be an object"
        )
        _require_kinds(about["encoder"], ENCODER, file, of=" of `encoder`")
        _require(
            about["encoder"]["alpha"] > 0 <= about["encoder"]["layers"],
            file,
            "`encoder` must have valid layers",
        )
        _require(
            about["encoder"]["dtype"] in DTYPES,
            file,
            f"`dtype` of `encoder` must be one of {DTYPES}",
        )
    _require(
        about["multilabel"] in ("", "matrix", "sets"),
        file,
        "`multilabel` must be one of its two forms",
    )
    for i, column in enumerate(about["columns"]):
        _require(
            isinstance(column, dict) and set(column) | set(COLUMN_RANGE) == set(COLUMN),
            file,
            "`columns` must have the known entries",
        )
        about["columns"][i] = column = COLUMN_RANGE | column
        _require_kinds(column, COLUMN, file, of=" of `columns`")
        fits = (
            np.isfinite(
                [column[name] for name in ("mean", "scale", "low", "high")]
            ).all()
            and column["scale"] > 0
        )
        _require(fits, file, "`columns` must hold finite numbers")
        _require(
            all(isinstance(each, str) for each in column["categories"]),
            file,
            "`categories` must be strings",
        )
    fits = made.ndim == 1 and not made.dtype.hasobject and made.tolist() == classes
    several = fits and 2 <= len(set(classes)) == len(classes)
    _require(
        several,
        file,
        "`classes` must be at least two different labels of one kind, and fit their"
        " type",
    )
    return {**about, "classes": made}


def _read_arrays(file: Path, about: dict[str, Any]) -> dict[str, AnyArray]:
    """Return the arrays of a model; their types, shapes and values are checked."""
    with needed_for("Loading a model", "safetensors", "text"):
        from safetensors import SafetensorError
        from safetensors.numpy import load
    try:
        data = file.read_bytes()
    except OSError:
        raise InputError(
            f"`{file.parent}` must hold {file.name}. It does not. Copy the whole"
            " folder."
        ) from None
    if sha256(data).hexdigest() != about["sha256"]:
        got = f"It is truncated or changed: its SHA-256 differs from the one in {FILE}."
        raise InputError(
            f"`{file}` must be as it was written. {got} Copy the folder again."
        )
    try:
        arrays: dict[str, AnyArray] = load(data)
    except (SafetensorError, KeyError, ValueError) as problem:
        raise InputError(
            f"`{file}` must be a safetensors file. It is broken ({problem}). Copy the"
            " folder."
        ) from None
    nothing, outputs = np.empty(0), len(about["classes"])
    outputs = 1 if outputs == 2 and not about["multilabel"] else outputs
    embedding, ngrams = arrays.get("embedding", nothing), arrays.get("runs", nothing)
    known = (
        embedding.ndim == 3
        and embedding.dtype in (np.float32, np.int8)
        and 0 not in embedding.shape
    )
    _require(
        known, file, "`embedding` must be (tokens, heads, d) of type int8 or float32"
    )
    tokens, heads, d = embedding.shape
    shapes = {"alpha": (heads,), "decoder": (outputs, heads, d), "bias": (outputs,)}
    if "encoder" in about:
        d_in, width = (
            arrays.get(f"{CONTEXT}{name}", nothing).shape[-1]
            for name in ("mean", "projection")
        )
        wanted = ((d_in,), (d_in,), (outputs, d_in), (d_in, width), (outputs, width))
        shapes |= dict(zip(CONTEXT_ARRAYS, wanted, strict=True))
    if about["columns"]:
        shapes["columns"] = (
            outputs,
            sum(len(each["categories"]) or 1 for each in about["columns"]),
        )
    shapes |= {"grid": (heads, d)} if embedding.dtype == np.int8 else {}
    shapes |= {
        name: shape
        for name, shape in (("A", (heads, d, d)), ("decision_offset", (outputs,)))
        if name in arrays
    }
    for name, shape in shapes.items():
        kind, array = (
            np.float32 if name == "grid" else np.float64,
            arrays.get(name, nothing),
        )
        what = f"`{name}` must have the shape {shape} and the type {kind.__name__}"
        _require(array.shape == shape and array.dtype == kind, file, what)
    for name in ("embedding", *shapes):
        _require(np.isfinite(arrays[name]).all(), file, f"`{name}` must be finite")
    _require(
        (arrays.get(f"{CONTEXT}scale", np.ones(1)) > 0).all(),
        file,
        "`context_scale` must be positive",
    )
    _require((arrays["alpha"] > 0).all(), file, "`alpha` must be positive")
    _require(
        all(map(is_positive_definite, arrays.get("A", ()))),
        file,
        "`A` must be symmetric positive definite",
    )
    known = ngrams.ndim == 2 and len(ngrams) == tokens and ngrams.shape[1] > 0
    _require(
        known and ngrams.dtype in (np.uint16, np.uint32),
        file,
        "`runs` must be (tokens, n) integers",
    )
    arrays["runs"] = runs = ngrams.astype(np.int64) - 1
    words, has_word = len(about["words"]), runs >= 0
    ordered = has_word[:, 0].all() and not (has_word[:, 1:] > has_word[:, :-1]).any()
    _require(runs.max() < words and ordered, file, "`runs` must be indices of `words`")
    distinct = words ** runs.shape[1] < 2**62 and len(np.unique(runs, axis=0)) == tokens
    _require(distinct, file, "`runs` must be distinct, and short enough")
    return arrays


def _require_kinds(
    data: dict[str, Any], kinds: dict[str, Any], file: Path, of: str = ""
) -> None:
    for name, kind in kinds.items():
        is_kind = isinstance(data.get(name), kind) and (
            kind is not int or not isinstance(data[name], bool)
        )
        _require(is_kind, file, f"`{name}`{of} must be there, as {kind.__name__}")


def _require(condition: object, file: Path, what: str) -> None:
    if not condition:
        must = f"`{file}` must be a part of a model as it was written: {what}."
        raise InputError(f"{must} It is not so. Copy the folder again.")
