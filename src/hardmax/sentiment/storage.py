"""Models on disk: a folder with JSON and safetensors. Reading one executes nothing."""

import json
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._errors import InputError, MissingExtra, ParameterError
from hardmax._files import written_whole
from hardmax._types import AnyArray
from hardmax.sentiment.inference import Weights
from hardmax.sentiment.model import Epoch, Model
from hardmax.sentiment.settings import ModelSettings, Settings, TrainingSettings
from hardmax.sentiment.stored_model import TEXT, check_about, check_numbers
from hardmax.sentiment.text import Splitter
from hardmax.sentiment.vocabulary import Vocabulary

FORMAT, VERSION = "hardmax-classifier", 1
FILE = "model.json"
SETTINGS = [each.name for kind in (ModelSettings, TrainingSettings) for each in fields(kind)]  # none of a run
RENAMED = {"heads": "n_heads", "min_texts": "min_df", "max_tokens": "max_features"}  # since models were first written


def save_model(model: Model, folder: Path, settings: Settings, history: list[Epoch], *, grid: bool = False) -> None:
    """Write a model; `model.json` is renamed into place last, so a kill leaves the old model or the new one.

    Parameters
    ----------
    grid : bool
        Whether to keep the embedding in a byte a number, on a grid without 0; see `on_grid`.
    """
    old, data = _named(folder), _packed(_numbers(model, grid))
    name = f"weights-{sha256(data).hexdigest()[:16]}.safetensors"
    with written_whole(folder / name) as temporary:
        temporary.write_bytes(data)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "weights": name,
        "sha256": sha256(data).hexdigest(),
        "classes": model.classes.tolist(),
        "classes_dtype": model.classes.dtype.str,
        "layers": model.weights.layers,
        "distinct": model.vocabulary.distinct,
        "text": {name: getattr(model.vocabulary.splitter, name) for name in TEXT},
        "params": {name: getattr(settings, name) for name in SETTINGS},
        "history": [asdict(epoch) for epoch in history],
        "words": list(model.vocabulary.words),
    }
    with written_whole(folder / FILE) as temporary:
        temporary.write_text(json.dumps(about, default=_plain, separators=(",", ":")), encoding="utf-8")
    if old is not None and old != name:
        (folder / old).unlink(missing_ok=True)


def load_model(folder: Path) -> tuple[Model, dict[str, Any], list[Epoch]]:
    """Read a model, the parameters it was made with, and its history."""
    about = _about(folder)
    check_about(about, folder / FILE)
    weights_file = folder / Path(about["weights"]).name
    try:
        data = weights_file.read_bytes()
    except OSError:
        raise InputError(f"`{folder}` must hold {weights_file.name}. It does not. Copy the whole folder.") from None
    if sha256(data).hexdigest() != about["sha256"]:
        raise InputError(
            f"`{weights_file}` must be as it was written. It is truncated or changed: its SHA-256 differs from the one "
            f"in {FILE}. Copy the folder again."
        )
    numbers = _unpacked(data, weights_file)
    check_numbers(about, numbers, weights_file)
    vocabulary = Vocabulary(Splitter(**about["text"]), tuple(about["words"]), numbers["runs"], about["distinct"])
    embedding = numbers["embedding"]
    if embedding.dtype == np.int8:
        embedding = off_grid(embedding, numbers["grid"])
    alpha, decoder, bias = (numbers[name] for name in ("alpha", "decoder", "bias"))
    weights = Weights(embedding, alpha, numbers.get("A"), decoder, bias, about["layers"])
    classes = np.array(about["classes"], dtype=np.dtype(about["classes_dtype"]))
    return Model(vocabulary, weights, classes), _settings(about["params"]), [Epoch(**e) for e in about["history"]]


def _settings(params: dict[str, Any]) -> dict[str, Any]:
    """Settings by the names they have now, and no others: a file must not name another that fitting would write."""
    found = {RENAMED.get(name, name): value for name, value in params.items()}
    runs = found.get("ngram_range", [1, found["longest"]] if "longest" in found else None)
    if isinstance(runs, list):  # JSON has no tuples
        found["ngram_range"] = tuple(runs)
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


def _numbers(model: Model, grid: bool) -> dict[str, AnyArray]:
    w, small = model.weights, np.uint16 if len(model.vocabulary.words) < 2**16 - 1 else np.uint32
    runs = (model.vocabulary.runs + 1).astype(small)  # 0 stands for no word
    numbers = {"alpha": w.alpha, "decoder": w.decoder, "bias": w.bias, "runs": runs}
    if grid:
        numbers["embedding"], numbers["grid"] = on_grid(w.embedding)
    else:
        numbers["embedding"] = np.asarray(w.embedding, dtype=np.float32)
    return numbers if w.A is None else numbers | {"A": w.A}


def _packed(numbers: dict[str, AnyArray]) -> bytes:
    try:
        from safetensors.numpy import save
    except ImportError as error:
        raise MissingExtra("Saving a model", "safetensors", "text") from error
    return bytes(save({name: np.ascontiguousarray(array) for name, array in numbers.items()}))


def _unpacked(data: bytes, file: Path) -> dict[str, AnyArray]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load
    except ImportError as error:
        raise MissingExtra("Loading a model", "safetensors", "text") from error
    try:
        numbers: dict[str, AnyArray] = load(data)
    except (SafetensorError, KeyError, ValueError) as problem:
        raise InputError(f"`{file}` must be a safetensors file. It is broken ({problem}). Copy the folder.") from None
    if "runs" in numbers and numbers["runs"].dtype in (np.uint16, np.uint32):
        numbers["runs"] = numbers["runs"].astype(np.int64) - 1
    return numbers


def _about(folder: Path) -> dict[str, Any]:
    """The JSON part, checked."""
    file = folder / FILE
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`{folder}` must be a folder that `save` wrote, with {FILE} in it. There is none. Check the path."
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"`{file}` must be JSON. It is truncated or something else. Copy the folder again.") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"`{file}` must describe a model of hardmax. It is something else. Check the path.")
    if not isinstance(about.get("version"), int):
        raise InputError(f"`{file}` must say its version. It does not. Copy the folder again.")
    if about["version"] > VERSION:
        raise ParameterError(
            file,
            f"have version {VERSION} or less",
            f"{about['version']}: a newer hardmax wrote it",
            "Upgrade: pip install -U hardmax.",
        )
    return about


def _named(folder: Path) -> str | None:
    """The weights file that the folder's model uses now."""
    try:
        return Path(_about(folder)["weights"]).name
    except (OSError, ValueError, KeyError):
        return None


def _plain(value: Any) -> Any:
    """What JSON does not know: numbers of NumPy, and collections of stop words."""
    return value.item() if isinstance(value, np.generic) else sorted(value)
