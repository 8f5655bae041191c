"""Models on disk: a folder with JSON and safetensors.

Reading one executes nothing. Compiled code trusts its arrays, so nothing reaches it unchecked.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._files import save_text, written_whole
from hardmax._types import AnyArray
from hardmax._validation import is_positive_definite
from hardmax.text.model import Epoch, Model
from hardmax.text.record import Record, model_card
from hardmax.text.settings import ModelSettings, Settings, TrainingSettings
from hardmax.text.text import Splitter
from hardmax.text.tokenizers import Tokenizer, full_name
from hardmax.text.vocabulary import Vocabulary
from hardmax.text.weights import Weights

FORMAT, VERSION = "hardmax-classifier", 2  # 2 since texts of n tokens may speak n^power times as loud
FILE, CARD = "model.json", "README.md"
OWN = "tokenizer"  # of which a file has the name alone: code is not data
# None of a run.
SETTINGS = [each.name for kind in (ModelSettings, TrainingSettings) for each in fields(kind) if each.name != OWN]
RENAMED = {"heads": "n_heads", "min_texts": "min_df", "max_tokens": "max_features"}  # since models were first written
KINDS: dict[str, Any] = {
    **dict.fromkeys(("weights", "sha256", "classes_dtype"), str),
    **dict.fromkeys(("classes", "history", "words"), list),
    **dict.fromkeys(("text", "params"), dict),
    "layers": int,
    "power": float,
    "distinct": bool,
}
TEXT = [each.name for each in fields(Splitter) if each.name != OWN]
EPOCH = {each.name for each in fields(Epoch)}
MOST_LAYERS = 10_000


class Stored(NamedTuple):
    """A model, the parameters it was made with, and what is known of its training."""

    model: Model
    params: dict[str, Any]
    history: list[Epoch]
    record: Record | None


def save_model(
    model: Model,
    folder: Path,
    settings: Settings,
    history: list[Epoch],
    record: Record | None = None,
    *,
    grid: bool = False,
) -> None:
    """Write a model; `model.json` is renamed into place last, so a kill leaves the old model or the new one.

    With `grid` the embedding is kept in a byte a number, on a grid without 0; see `on_grid`. Beside it lies its card.
    """
    data = _packed(model, grid)
    name = f"weights-{sha256(data).hexdigest()[:16]}.safetensors"
    with written_whole(folder / name) as temporary:
        temporary.write_bytes(data)
    splitter = model.vocabulary.splitter
    own = {} if splitter.tokenizer is None else {OWN: full_name(splitter.tokenizer)}
    about = {
        "format": FORMAT,
        "version": VERSION,
        "weights": name,
        "sha256": sha256(data).hexdigest(),
        "classes": model.classes.tolist(),
        "classes_dtype": model.classes.dtype.str,
        "layers": model.weights.layers,
        "power": model.weights.power,
        "distinct": model.vocabulary.distinct,
        "text": {name: getattr(splitter, name) for name in TEXT} | own,
        "params": {name: _written(getattr(settings, name)) for name in SETTINGS},
        "history": [asdict(epoch) for epoch in history],
        "training": None if record is None else asdict(record),
        "words": list(model.vocabulary.words),
    }
    save_text(model_card(model, history, record), folder / CARD)
    save_text(json.dumps(about, default=_plain, separators=(",", ":")), folder / FILE)
    for path in folder.glob(f"weights-{'?' * 16}.safetensors"):  # of the model that was here before
        if path.name != name:
            path.unlink()


def load_model(folder: Path, tokenizer: Tokenizer | None = None) -> Stored:
    """Read a model. One that was trained with a tokenizer of its own needs that one."""
    about = _about(folder)
    about.setdefault("power", 0.0)  # models of version 1 have none
    _check_about(about, folder / FILE)
    _check_own(about["text"].get(OWN), tokenizer, folder / FILE)
    weights_file = folder / Path(about["weights"]).name
    try:
        data = weights_file.read_bytes()
    except OSError:
        raise InputError(f"`{folder}` must hold {weights_file.name}. It does not. Copy the whole folder.") from None
    if sha256(data).hexdigest() != about["sha256"]:
        got = f"It is truncated or changed: its SHA-256 differs from the one in {FILE}."
        raise InputError(f"`{weights_file}` must be as it was written. {got} Copy the folder again.")
    numbers = _unpacked(data, weights_file)
    _check_numbers(about, numbers, weights_file)
    vocabulary = Vocabulary(
        Splitter(**about["text"] | {OWN: tokenizer}), tuple(about["words"]), numbers["runs"], about["distinct"]
    )
    embedding = numbers["embedding"]
    if embedding.dtype == np.int8:
        embedding = off_grid(embedding, numbers["grid"])
    alpha, decoder, bias = (numbers[name] for name in ("alpha", "decoder", "bias"))
    weights = Weights(
        embedding, alpha, numbers.get("A"), decoder, bias, about["layers"], about["power"], numbers.get("lift")
    )
    classes = np.array(about["classes"], dtype=np.dtype(about["classes_dtype"]))
    told = about.get("training")  # models were first written without
    record = None if told is None else Record.from_data(told, str(folder / FILE))
    history = [Epoch(**epoch) for epoch in about["history"]]
    params = _settings(about["params"]) | {OWN: tokenizer}
    return Stored(Model(vocabulary, weights, classes), params, history, record)


def _settings(params: dict[str, Any]) -> dict[str, Any]:
    """Settings by the names they have now, and no others: a file must not name another that fitting would write."""
    found = {RENAMED.get(name, name): value for name, value in params.items()}
    runs = found.get("ngram_range", [1, found["longest"]] if "longest" in found else None)
    if isinstance(runs, list):  # JSON has no tuples
        found["ngram_range"] = tuple(runs)
    if isinstance(found.get("class_weight"), list):
        found["class_weight"] = dict(found["class_weight"])
    return {name: found[name] for name in SETTINGS if name in found}


def on_grid(embedding: AnyArray) -> tuple[AnyArray, AnyArray]:
    """(tokens, heads, d) bytes k and (heads, d) steps s with embedding about (k + 1/2) s.

    No number is 0, so that no token is: the zero token follows everybody.
    """
    step = (np.abs(embedding).max(axis=0) / 127.5).astype(np.float32)
    step[step == 0] = 1
    return np.clip(np.floor(embedding / step), -128, 127).astype(np.int8), step


def off_grid(places: AnyArray, step: AnyArray) -> AnyArray:
    """(tokens, heads, d) float32 numbers that `on_grid` stands for."""
    return (places.astype(np.float32) + np.float32(0.5)) * step


def _packed(model: Model, grid: bool) -> bytes:
    with needed_for("Saving a model", "safetensors", "text"):
        from safetensors.numpy import save
    w, small = model.weights, np.uint16 if len(model.vocabulary.words) < 2**16 - 1 else np.uint32
    runs = (model.vocabulary.runs + 1).astype(small)  # 0 stands for no word
    numbers = {"alpha": w.alpha, "decoder": w.decoder, "bias": w.bias, "runs": runs}
    if grid:
        numbers["embedding"], numbers["grid"] = on_grid(w.embedding)
    else:
        numbers["embedding"] = np.asarray(w.embedding, dtype=np.float32)
    numbers |= {name: array for name, array in (("A", w.A), ("lift", w.lift)) if array is not None}
    return bytes(save({name: np.ascontiguousarray(array) for name, array in numbers.items()}))


def _unpacked(data: bytes, file: Path) -> dict[str, AnyArray]:
    with needed_for("Loading a model", "safetensors", "text"):
        from safetensors import SafetensorError
        from safetensors.numpy import load
    try:
        numbers: dict[str, AnyArray] = load(data)
    except (SafetensorError, KeyError, ValueError) as problem:
        raise InputError(f"`{file}` must be a safetensors file. It is broken ({problem}). Copy the folder.") from None
    if "runs" in numbers and numbers["runs"].dtype in (np.uint16, np.uint32):
        numbers["runs"] = numbers["runs"].astype(np.int64) - 1
    return numbers


def _about(folder: Path) -> dict[str, Any]:
    file = folder / FILE
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        must = f"`{folder}` must be a folder that `save` wrote, with {FILE} in it."
        raise FileNotFoundError(f"{must} There is none. Check the path.") from None
    except (ValueError, RecursionError):
        raise InputError(f"`{file}` must be JSON. It is truncated or something else. Copy the folder again.") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"`{file}` must describe a model of hardmax. It is something else. Check the path.")
    if not isinstance(about.get("version"), int):
        raise InputError(f"`{file}` must say its version. It does not. Copy the folder again.")
    if about["version"] > VERSION:
        got = f"{about['version']}: a newer hardmax wrote it"
        raise ParameterError(file, f"have version {VERSION} or less", got, "Upgrade: pip install -U hardmax.")
    return about


def _written(value: Any) -> Any:
    """A dict as a list of pairs: the keys of JSON are texts alone, those of weights any labels."""
    return [[key, item] for key, item in value.items()] if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    """What JSON does not know: numbers of NumPy, and collections of stop words."""
    return value.item() if isinstance(value, np.generic) else sorted(value)


def _check_about(about: dict[str, Any], file: Path) -> None:
    """Refuse a description in which something is missing or of another kind."""
    for name, kind in KINDS.items():
        if not isinstance(about.get(name), kind) or (kind is int and isinstance(about[name], bool)):
            _refuse(file, f"`{name}` must be there, as {kind.__name__}")
    words, classes = about["words"], about["classes"]
    if not all(isinstance(word, str) and word for word in words) or len(set(words)) < len(words):
        _refuse(file, "`words` must be different texts")
    if not 0 <= about["layers"] <= MOST_LAYERS:
        _refuse(file, f"`layers` must lie between 0 and {MOST_LAYERS:,}")
    if not 0 <= about["power"] <= 1:
        _refuse(file, "`power` must lie between 0 and 1")
    if set(about["text"]) - {OWN} != set(TEXT) or not all(
        isinstance(e, dict) and set(e) == EPOCH for e in about["history"]
    ):
        _refuse(file, "`text` and `history` must have their own names alone")
    try:
        made = np.array(classes, dtype=np.dtype(about["classes_dtype"]))
    except (TypeError, ValueError, OverflowError):
        _refuse(file, "`classes` must fit their type")
    if made.ndim != 1 or made.dtype.hasobject or made.tolist() != classes or not 2 <= len(set(classes)) == len(classes):
        _refuse(file, "`classes` must be at least two different labels of one kind")


def _check_own(needed: Any, tokenizer: Tokenizer | None, file: Path) -> None:
    """Refuse a model without its tokenizer, or with one that it does not need."""
    if needed is None and tokenizer is not None:
        got = full_name(tokenizer) if callable(tokenizer) else repr(tokenizer)
        raise ParameterError(OWN, "be left out for a model that was trained without", got)
    if needed is not None and tokenizer is None:
        must = f"be loaded with the tokenizer that it was trained with, {str(needed)[:200]!r}"
        advice = "Pass it in Python: HardmaxClassifier.load(path, tokenizer=...)."
        raise ParameterError(file, must, "none", f"{advice} The command line and the app cannot use this model.")


def _check_numbers(about: dict[str, Any], numbers: dict[str, AnyArray], file: Path) -> None:
    """Refuse arrays whose kind, shape or values cannot be those of a model."""
    nothing, outputs = np.empty(0), 1 if len(about["classes"]) == 2 else len(about["classes"])
    embedding = numbers.get("embedding", nothing)
    if embedding.ndim != 3 or embedding.dtype not in (np.float32, np.int8) or 0 in embedding.shape:
        _refuse(file, "`embedding` must be (tokens, heads, d) numbers of 1 or 4 bytes")
    tokens, heads, d = embedding.shape
    shapes = {"alpha": (heads,), "decoder": (outputs, heads, d), "bias": (outputs,)}
    if embedding.dtype == np.int8:
        shapes["grid"] = (heads, d)
    shapes |= {name: shape for name, shape in (("A", (heads, d, d)), ("lift", (outputs,))) if name in numbers}
    for name, shape in shapes.items():
        kind = np.float32 if name == "grid" else np.float64
        if name not in numbers or numbers[name].shape != shape or numbers[name].dtype != kind:
            _refuse(file, f"`{name}` must have the shape {shape} and the type {kind.__name__}")
    for name in ("embedding", *shapes):
        if not np.isfinite(numbers[name]).all():
            _refuse(file, f"`{name}` must be finite")
    if not (numbers["alpha"] > 0).all():
        _refuse(file, "`alpha` must be positive")
    if "A" in numbers and not all(map(is_positive_definite, numbers["A"])):
        _refuse(file, "`A` must be symmetric positive definite")
    _check_runs(numbers.get("runs", nothing), tokens, len(about["words"]), file)


def _check_runs(runs: AnyArray, tokens: int, words: int, file: Path) -> None:
    """Each token must be a run of known words, none twice."""
    known = runs >= 0
    if runs.dtype != np.int64 or runs.ndim != 2 or len(runs) != tokens or not runs.shape[1]:
        _refuse(file, "`runs` must be (tokens, longest) whole numbers")
    if runs.max(initial=0) >= words or not known[:, 0].all() or (known[:, 1:] > known[:, :-1]).any():
        _refuse(file, "`runs` must be made of the words there are")
    if words ** runs.shape[1] >= 2**62 or len(np.unique(runs, axis=0)) < tokens:
        _refuse(file, "`runs` must be different, and short enough")


def _refuse(file: Path, what: str) -> NoReturn:
    raise InputError(
        f"`{file}` must be a part of a model as it was written: {what}. It is not so. Copy the folder again."
    )
