"""Files of models: the same answers after loading; damaged and crafted files are refused."""

import json
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load, save
from sklearn.base import clone

from hardmax import HardmaxClassifier


def test_files_give_the_same_answers(fitted, fresh, tmp_path):
    fitted.save(tmp_path / "model")
    read = HardmaxClassifier.load(tmp_path / "model")
    assert read.decision_function(fresh.texts).tobytes() == fitted.decision_function(fresh.texts).tobytes()
    assert read.get_params() == fitted.get_params()
    assert read.history_ == fitted.history_
    fitted.save(tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) == 3


def test_compact_files_are_a_quarter_and_nearly_the_same(fitted, fresh, tmp_path):
    fitted.save(tmp_path / "a")
    fitted.save(tmp_path / "b", compact=True)
    sizes = [next((tmp_path / name).glob("*.safetensors")).stat().st_size for name in "ab"]
    assert sizes[1] < 0.6 * sizes[0]
    read = HardmaxClassifier.load(tmp_path / "b")
    assert (read.model_.weights.embedding != 0).all()
    assert np.mean(read.predict(fresh.texts) == fitted.predict(fresh.texts)) > 0.98


def test_paper_model_and_labels_survive_a_file(corpus, tmp_path):
    labels = np.where(np.array(corpus.labels) == "positive", 5, -5)
    fitted = HardmaxClassifier.paper(d=2, epochs=2).fit(corpus.texts, labels)
    fitted.save(tmp_path / "m")
    read = HardmaxClassifier.load(tmp_path / "m")
    assert read.classes_.tolist() == [-5, 5]
    assert read.decision_function(corpus.texts).tobytes() == fitted.decision_function(corpus.texts).tobytes()


TWO = ["bad", "good"] * 6
WORDS = [f"word{i % 3} other{i % 2} number{i}" for i in range(12)]
LABELS = {
    "list": TWO,
    "tuple": tuple(TWO),
    "text": np.array(TWO),
    "objects": np.array(TWO, object),
    "column": pd.Series(TWO),
    "column of objects": pd.Series(TWO, dtype=object),
    "column of strings": pd.Series(TWO, dtype="string"),
    "category": pd.Series(TWO, dtype="category"),
    "strings of NumPy": np.array(TWO, np.dtypes.StringDType()) if hasattr(np.dtypes, "StringDType") else TWO,
    "index": pd.Index(TWO),
    "three": ["a", "b", "c"] * 4,
    "numbers": [0, 1] * 6,
    "column of numbers": pd.Series([3, 7] * 6),
    "nullable": pd.Series([3, 7] * 6, dtype="Int64"),
    "numbers as objects": np.array([3, 7] * 6, object),
    "bytes": np.array([3, 7] * 6, np.uint8),
    "floats": np.array([0.0, 1.0] * 6, np.float32),
    "booleans": pd.Series([True, False] * 6),
    "booleans as objects": np.array([True, False] * 6, object),
    "tensor": torch.tensor([3, 7] * 6),
    "unusual": ["a b", "é\ud800\nü"] * 6,
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_survive_a_file(kind, tmp_path):
    fitted = HardmaxClassifier(n_heads=2, groups=1, epochs=2, min_df=1).fit(WORDS, LABELS[kind])
    fitted.save(tmp_path / "model")
    read = HardmaxClassifier.load(tmp_path / "model")
    assert (
        read.classes_.tolist()
        == fitted.classes_.tolist()
        == sorted({getattr(label, "item", lambda label=label: label)() for label in LABELS[kind]})
    )
    assert read.classes_.dtype == fitted.classes_.dtype
    assert read.predict(WORDS).tolist() == fitted.predict(WORDS).tolist()


def test_nothing_of_a_run_is_taken_from_a_file(fitted, corpus, tmp_path):
    """A model from a stranger must not name a file that fitting it again would write."""
    fitted.save(tmp_path / "model")
    file, victim = tmp_path / "model" / "model.json", tmp_path / "victim"
    about = json.loads(file.read_text())
    about["params"] |= {"checkpoint": str(victim), "resume": True, "device": "cuda", "verbose": True}
    file.write_text(json.dumps(about))
    read = HardmaxClassifier.load(tmp_path / "model")
    plain = HardmaxClassifier()
    for name in ("checkpoint", "resume", "device", "verbose"):
        assert getattr(read, name) == getattr(plain, name)
    clone(read).set_params(epochs=1).fit(corpus.texts, corpus.labels)
    assert not victim.exists()


def test_broken_files_get_a_sentence(fitted, tmp_path):
    def broken(name, change):
        folder = tmp_path / name
        fitted.save(folder)
        change(folder)
        with pytest.raises((ValueError, OSError)) as caught:
            HardmaxClassifier.load(folder)
        return str(caught.value)

    def edit(**changes):
        def change(folder):
            about = json.loads((folder / "model.json").read_text())
            (folder / "model.json").write_text(json.dumps(about | changes))

        return change

    def shorten(pattern):
        def change(folder):
            (file,) = folder.glob(pattern)
            file.write_bytes(file.read_bytes()[:-9])

        return change

    def remove(pattern):
        return lambda folder: [file.unlink() for file in folder.glob(pattern)]

    for name, change, sentence in (
        ("a", shorten("*.json"), "must be JSON"),
        ("b", shorten("*.safetensors"), "truncated or changed"),
        ("c", edit(version=99), "have version"),
        ("d", edit(format="other"), "must describe a model of hardmax"),
        ("e", remove("*.safetensors"), "Copy the whole folder"),
        ("f", remove("*.json"), "`model` must be a folder"),
        ("g", edit(weights="../../etc/passwd"), "Copy the whole folder"),
        ("h", edit(words=3), "`words` must be there"),
    ):
        assert sentence in broken(name, change), name


ABOUT = [
    ({"layers": -1}, "`layers` must lie between"),
    ({"layers": True}, "`layers` must be there, as int"),
    ({"layers": 1.5}, "`layers` must be there, as int"),
    ({"version": "1"}, "have version"),
    ({"sha256": 3}, "`sha256` must be there, as str"),
    ({"classes": ["a"]}, "at least two different labels"),
    ({"classes": ["a", "a"]}, "at least two different labels"),
    ({"classes": [["a"], ["b"]]}, "`classes` must"),
    ({"classes_dtype": "<U1"}, "at least two different labels"),
    ({"classes_dtype": "nonsense"}, "`classes` must fit"),
    ({"classes_dtype": "O"}, "at least two different labels"),
    ({"words": ["a", "a"]}, "`words` must be distinct"),
    ({"words": ["a"]}, "`runs` must be indices"),
    ({"distinct": "no"}, "`distinct` must be there, as bool"),
    ({"params": []}, "`params` must be there, as dict"),
    ({"history": [{}]}, "`text` and `history`"),
]


@pytest.mark.parametrize(("changes", "sentence"), ABOUT)
def test_a_crafted_description_is_refused(fitted, tmp_path, changes, sentence):
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(about | changes))
    with pytest.raises(ValueError, match=sentence):
        HardmaxClassifier.load(tmp_path)


def spoiled(array, value):
    array = array.copy()
    array.flat[0] = value
    return array


NUMBERS = [
    ("decoder", lambda a: a[:, :1], "`decoder` must have the shape"),
    ("embedding", lambda a: a[:5], "`runs` must be"),
    ("embedding", lambda a: a.astype(np.float64), "`embedding` must be"),
    ("embedding", lambda a: spoiled(a, np.nan), "`embedding` must be finite"),
    ("alpha", lambda a: -a, "`alpha` must be positive"),
    ("alpha", lambda a: spoiled(a, np.inf), "`alpha` must be finite"),
    ("bias", lambda a: np.zeros(3), "`bias` must have the shape"),
    ("runs", lambda a: spoiled(a, 60_000), "`runs` must be indices"),
    ("runs", lambda a: spoiled(a, 0), "`runs` must be indices"),
    ("runs", lambda a: a.astype(np.float32), "`runs` must be"),
    ("runs", lambda a: a[[0, *range(len(a) - 1)]], "`runs` must be distinct"),
]


@pytest.mark.parametrize(("name", "change", "sentence"), NUMBERS)
def test_crafted_numbers_are_refused(fitted, tmp_path, name, change, sentence):
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    file = tmp_path / about["weights"]
    numbers = load(file.read_bytes())
    file.write_bytes(save(numbers | {name: np.ascontiguousarray(change(numbers[name]))}))
    about["sha256"] = sha256(file.read_bytes()).hexdigest()
    (tmp_path / "model.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=sentence):
        HardmaxClassifier.load(tmp_path)


def test_where_training_began_survives_a_file(corpus, fitted, tmp_path):
    linear = HardmaxClassifier(n_heads=4, groups=1).fit(corpus.texts[:100], corpus.labels[:100])
    assert (linear.start_, fitted.start_) == ("linear", "random")
    for each in (linear, fitted):
        each.save(tmp_path / each.start_)
        assert HardmaxClassifier.load(tmp_path / each.start_).start_ == each.start_
