"""Models on disk: a folder with JSON and safetensors.

Reading executes no code from the folder. Compiled code does not check its arrays, so every array is checked here.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from hardmax._errors import InputError, ParameterError, ParameterTypeError, needed_for
from hardmax._files import save_text, written_whole
from hardmax._types import AnyArray
from hardmax._validation import is_positive_definite
from hardmax.text.card import Record, model_card
from hardmax.text.model import Epoch, Model, Weights
from hardmax.text.parameters import MODEL, TRAINING, Parameters, parameter_names
from hardmax.text.tokenizer import Splitter, Tokenizer, full_name
from hardmax.text.vocabulary import Vocabulary

FORMAT, VERSION = "hardmax-classifier", 3
MODELS = Path(__file__).with_name("models")
FILE, CARD, CHECKPOINT = "model.json", "README.md", "checkpoint"
TOKENIZER = "tokenizer"  # a file holds its name only, as code is not data
PARAMETERS = [name for name in parameter_names(MODEL, TRAINING) if name != TOKENIZER]
KINDS: dict[str, Any] = {
    **dict.fromkeys(("weights", "sha256", "classes_dtype"), str),
    **dict.fromkeys(("classes", "history", "words"), list),
    **dict.fromkeys(("text", "params", "training"), dict),
    "layers": int,
    "pooling_exponent": float,
    "distinct": bool,
}
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
    """Write a model; `model.json` is renamed into place last, so a kill leaves the old model or the new one.

    With `compact` the embedding is quantised to one byte per coordinate, see `quantise`.
    """
    data = _pack(model, compact)
    name = f"weights-{sha256(data).hexdigest()[:16]}.safetensors"
    with written_whole(folder / name) as temporary:
        temporary.write_bytes(data)
    splitter = model.vocabulary.splitter
    tokenizer = {} if splitter.tokenizer is None else {TOKENIZER: full_name(splitter.tokenizer)}
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
        "params": {name: _dict_to_pairs(getattr(parameters, name)) for name in PARAMETERS},
        "history": [asdict(epoch) for epoch in history],
        "training": asdict(record),
        "words": list(model.vocabulary.words),
    }
    save_text(model_card(model, history, record), folder / CARD)
    save_text(json.dumps(about, default=_plain, separators=(",", ":")), folder / FILE)
    for path in folder.glob(f"weights-{'?' * 16}.safetensors"):  # of the model that was here before
        if path.name != name:
            path.unlink()


def shipped_models() -> list[str]:
    """Return the names of the models inside the package."""
    return sorted(path.parent.name for path in MODELS.glob(f"*/{FILE}"))


def find_model(model: str | PathLike[str]) -> Path:
    """Return the folder of a model, given that folder or the name of a model inside the package."""
    if not isinstance(model, str | PathLike):
        must, advice = "be the folder or the name of a model", "Save the classifier first, and pass the folder."
        raise ParameterTypeError("model", must, type(model).__name__, advice)
    if (Path(model) / FILE).is_file():
        return Path(model)
    if str(model) in shipped_models():
        return MODELS / str(model)
    must = f"be a folder that hardmax train wrote (or HardmaxClassifier.save), or one of {', '.join(shipped_models())}"
    if (Path(model) / CHECKPOINT).is_file():
        got = f"{str(model)!r}, the folder of an unfinished run"
        raise ParameterError("model", must, got, "Resume it: hardmax train --resume.")
    raise ParameterError("model", must, repr(str(model)), "Check the path.")


def load_model(folder: Path, tokenizer: Tokenizer | None = None) -> Stored:
    """Read a model from its folder; one that was trained with a `tokenizer` needs the same one."""
    about = _read_about(folder)
    _check_about(about, folder / FILE)
    _check_tokenizer(about["text"].get(TOKENIZER), tokenizer, folder / FILE)
    weights_file = folder / Path(about["weights"]).name
    try:
        data = weights_file.read_bytes()
    except OSError:
        raise InputError(f"`{folder}` must hold {weights_file.name}. It does not. Copy the whole folder.") from None
    if sha256(data).hexdigest() != about["sha256"]:
        got = f"It is truncated or changed: its SHA-256 differs from the one in {FILE}."
        raise InputError(f"`{weights_file}` must be as it was written. {got} Copy the folder again.")
    arrays = _unpack(data, weights_file)
    _check_arrays(about, arrays, weights_file)
    vocabulary = Vocabulary(
        Splitter(**about["text"] | {TOKENIZER: tokenizer}), tuple(about["words"]), arrays["runs"], about["distinct"]
    )
    embedding = arrays["embedding"]
    if embedding.dtype == np.int8:
        embedding = dequantise(embedding, arrays["grid"])
    alpha, decoder, bias = (arrays[name] for name in ("alpha", "decoder", "bias"))
    layers, exponent, offset = about["layers"], about["pooling_exponent"], arrays.get("decision_offset")
    weights = Weights(embedding, alpha, arrays.get("A"), decoder, bias, layers, exponent, offset)
    classes = np.array(about["classes"], dtype=np.dtype(about["classes_dtype"]))
    record = Record.from_data(about["training"], str(folder / FILE))
    history = [Epoch(**epoch) for epoch in about["history"]]
    params = _read_parameters(about["params"]) | {TOKENIZER: tokenizer}
    return Stored(Model(vocabulary, weights, classes), params, history, record)


def _read_parameters(params: dict[str, Any]) -> dict[str, Any]:
    """Return the known parameters; others, such as the path of a checkpoint, are not read from a file."""
    found = {name: params[name] for name in PARAMETERS if name in params}
    if isinstance(found.get("ngram_range"), list):  # JSON has no tuples
        found["ngram_range"] = tuple(found["ngram_range"])
    if isinstance(found.get("class_weight"), list):
        found["class_weight"] = dict(found["class_weight"])
    return found


def quantise(embedding: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return (tokens, heads, d) bytes k and (heads, d) steps s with embedding about (k + 1/2) s.

    No coordinate is 0, as the argmax set of a zero token is the set of all tokens.
    """
    step = (np.abs(embedding).max(axis=0) / 127.5).astype(np.float32)
    step[step == 0] = 1
    return np.clip(np.floor(embedding / step), -128, 127).astype(np.int8), step


def dequantise(codes: AnyArray, step: AnyArray) -> AnyArray:
    """Return the (tokens, heads, d) float32 numbers of `quantise`."""
    return (codes.astype(np.float32) + np.float32(0.5)) * step


def _pack(model: Model, compact: bool) -> bytes:
    with needed_for("Saving a model", "safetensors", "text"):
        from safetensors.numpy import save
    w, dtype = model.weights, np.uint16 if len(model.vocabulary.words) < 2**16 - 1 else np.uint32
    ngrams = (model.vocabulary.ngrams + 1).astype(dtype)  # 0 stands for no word
    arrays = {"alpha": w.alpha, "decoder": w.decoder, "bias": w.bias, "runs": ngrams}
    if compact:
        arrays["embedding"], arrays["grid"] = quantise(w.embedding)
    else:
        arrays["embedding"] = np.asarray(w.embedding, dtype=np.float32)
    arrays |= {name: array for name, array in (("A", w.A), ("decision_offset", w.decision_offset)) if array is not None}
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def _unpack(data: bytes, file: Path) -> dict[str, AnyArray]:
    with needed_for("Loading a model", "safetensors", "text"):
        from safetensors import SafetensorError
        from safetensors.numpy import load
    try:
        arrays: dict[str, AnyArray] = load(data)
    except (SafetensorError, KeyError, ValueError) as problem:
        raise InputError(f"`{file}` must be a safetensors file. It is broken ({problem}). Copy the folder.") from None
    if "runs" in arrays and arrays["runs"].dtype in (np.uint16, np.uint32):
        arrays["runs"] = arrays["runs"].astype(np.int64) - 1
    return arrays


def _read_about(folder: Path) -> dict[str, Any]:
    file = folder / FILE
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"`{file}` must be JSON. It is truncated or something else. Copy the folder again.") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"`{file}` must describe a model of hardmax. It is something else. Check the path.")
    if about.get("version") != VERSION:
        advice = "Load it with the release of hardmax that wrote it, or train it again."
        raise ParameterError(file, f"have version {VERSION}", repr(about.get("version")), advice)
    return about


def _dict_to_pairs(value: Any) -> Any:
    """Return a dict as a list of pairs, as keys of JSON are strings and class weights have any labels as keys."""
    return [[key, item] for key, item in value.items()] if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    """Convert NumPy scalars and collections of stop words for JSON."""
    return value.item() if isinstance(value, np.generic) else sorted(value)


def _check_about(about: dict[str, Any], file: Path) -> None:
    """Raise an error if an entry is missing or of another type."""
    for name, kind in KINDS.items():
        if not isinstance(about.get(name), kind) or (kind is int and isinstance(about[name], bool)):
            _refuse(file, f"`{name}` must be there, as {kind.__name__}")
    words, classes = about["words"], about["classes"]
    if not all(isinstance(word, str) and word for word in words) or len(set(words)) < len(words):
        _refuse(file, "`words` must be distinct strings")
    if not 0 <= about["layers"] <= MAX_LAYERS:
        _refuse(file, f"`layers` must lie between 0 and {MAX_LAYERS:,}")
    if not 0 <= about["pooling_exponent"] <= 1:
        _refuse(file, "`pooling_exponent` must lie between 0 and 1")
    if set(about["text"]) - {TOKENIZER} != set(TEXT) or not all(
        isinstance(e, dict) and set(e) == EPOCH for e in about["history"]
    ):
        _refuse(file, "`text` and `history` must have the known entries")
    try:
        made = np.array(classes, dtype=np.dtype(about["classes_dtype"]))
    except (TypeError, ValueError, OverflowError):
        _refuse(file, "`classes` must fit their type")
    if made.ndim != 1 or made.dtype.hasobject or made.tolist() != classes or not 2 <= len(set(classes)) == len(classes):
        _refuse(file, "`classes` must be at least two different labels of one kind")


def _check_tokenizer(needed: Any, tokenizer: Tokenizer | None, file: Path) -> None:
    """Raise an error if the tokenizer is missing, or given for a model without one."""
    if needed is None and tokenizer is not None:
        got = full_name(tokenizer) if callable(tokenizer) else repr(tokenizer)
        raise ParameterError(TOKENIZER, "be left out for a model that was trained without one", got)
    if needed is not None and tokenizer is None:
        must = f"be loaded with the tokenizer that it was trained with, {str(needed)[:200]!r}"
        advice = "Pass it in Python: HardmaxClassifier.load(path, tokenizer=...)."
        raise ParameterError(file, must, "none", f"{advice} The command line and the app cannot use this model.")


def _check_arrays(about: dict[str, Any], arrays: dict[str, AnyArray], file: Path) -> None:
    """Raise an error for arrays whose type, shape or values cannot be those of a model."""
    nothing, outputs = np.empty(0), 1 if len(about["classes"]) == 2 else len(about["classes"])
    embedding = arrays.get("embedding", nothing)
    if embedding.ndim != 3 or embedding.dtype not in (np.float32, np.int8) or 0 in embedding.shape:
        _refuse(file, "`embedding` must be (tokens, heads, d) of type int8 or float32")
    tokens, heads, d = embedding.shape
    shapes = {"alpha": (heads,), "decoder": (outputs, heads, d), "bias": (outputs,)}
    if embedding.dtype == np.int8:
        shapes["grid"] = (heads, d)
    shapes |= {name: shape for name, shape in (("A", (heads, d, d)), ("decision_offset", (outputs,))) if name in arrays}
    for name, shape in shapes.items():
        kind = np.float32 if name == "grid" else np.float64
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != kind:
            _refuse(file, f"`{name}` must have the shape {shape} and the type {kind.__name__}")
    for name in ("embedding", *shapes):
        if not np.isfinite(arrays[name]).all():
            _refuse(file, f"`{name}` must be finite")
    if not (arrays["alpha"] > 0).all():
        _refuse(file, "`alpha` must be positive")
    if "A" in arrays and not all(map(is_positive_definite, arrays["A"])):
        _refuse(file, "`A` must be symmetric positive definite")
    _check_ngrams(arrays.get("runs", nothing), tokens, len(about["words"]), file)


def _check_ngrams(runs: AnyArray, tokens: int, words: int, file: Path) -> None:
    """Raise an error unless the tokens are distinct n-grams of known words."""
    known = runs >= 0
    if runs.dtype != np.int64 or runs.ndim != 2 or len(runs) != tokens or not runs.shape[1]:
        _refuse(file, "`runs` must be (tokens, n) integers")
    if runs.max(initial=0) >= words or not known[:, 0].all() or (known[:, 1:] > known[:, :-1]).any():
        _refuse(file, "`runs` must be indices of `words`")
    if words ** runs.shape[1] >= 2**62 or len(np.unique(runs, axis=0)) < tokens:
        _refuse(file, "`runs` must be distinct, and short enough")


def _refuse(file: Path, what: str) -> NoReturn:
    raise InputError(
        f"`{file}` must be a part of a model as it was written: {what}. It is not so. Copy the folder again."
    )
