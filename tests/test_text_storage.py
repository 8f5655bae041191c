"""Files of models: the same answers after loading; damaged and crafted files are
refused.
"""

import json
from functools import partial
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load, save
from sklearn.base import clone

from hardmax import HardmaxClassifier
from hardmax.text.storage import KINDS


@pytest.mark.parametrize("start", ["random", "linear", "paper"])
def test_files_give_the_same_answers(fitted, corpus, fresh, tmp_path, start):
    classifier = fitted
    if start == "linear":
        classifier = HardmaxClassifier(n_heads=4, groups=1).fit(
            corpus.texts[:100], corpus.labels[:100]
        )
    elif start == "paper":
        classifier = HardmaxClassifier.paper(d=2, epochs=2).fit(
            corpus.texts, corpus.labels
        )
    for _ in range(2):
        classifier.save(tmp_path)
        assert len(list(tmp_path.iterdir())) == 3  # saving again replaces the files
    read = HardmaxClassifier.load(tmp_path)
    assert (
        read.decision_function(fresh.texts).tobytes()
        == classifier.decision_function(fresh.texts).tobytes()
    )
    assert read.get_params() == classifier.get_params()
    assert read.history_ == classifier.history_
    assert (
        read.start_
        == classifier.start_
        == ("linear" if start == "linear" else "random")
    )


def test_compact_files_are_smaller_and_nearly_the_same(fitted, fresh, tmp_path):
    fitted.save(tmp_path / "a")
    fitted.save(tmp_path / "b", compact=True)
    sizes = [
        next((tmp_path / name).glob("*.safetensors")).stat().st_size for name in "ab"
    ]
    assert sizes[1] < 0.6 * sizes[0]
    read = HardmaxClassifier.load(tmp_path / "b")
    assert (read.model_.weights.embedding != 0).all()
    assert np.mean(read.predict(fresh.texts) == fitted.predict(fresh.texts)) > 0.98


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
    "strings of NumPy": (
        np.array(TWO, np.dtypes.StringDType())
        if hasattr(np.dtypes, "StringDType")
        else TWO
    ),
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
    fitted = HardmaxClassifier(n_heads=2, groups=1, epochs=2, min_df=1).fit(
        WORDS, LABELS[kind]
    )
    fitted.save(tmp_path / "model")
    read = HardmaxClassifier.load(tmp_path / "model")
    labels = {
        label.item() if hasattr(label, "item") else label for label in LABELS[kind]
    }
    assert read.classes_.tolist() == fitted.classes_.tolist() == sorted(labels)
    assert read.classes_.dtype == fitted.classes_.dtype
    assert read.predict(WORDS).tolist() == fitted.predict(WORDS).tolist()


def test_parameters_of_a_run_are_not_read(fitted, corpus, tmp_path):
    """A model of unknown origin must not name a file that fitting it again would write."""
    fitted.save(tmp_path / "model")
    params, victim = (
        json.loads((tmp_path / "model" / "model.json").read_text())["params"],
        tmp_path / "victim",
    )
    run = {"checkpoint": str(victim), "resume": True, "device": "cuda", "verbose": True}
    edit(tmp_path / "model", params=params | run)
    read = HardmaxClassifier.load(tmp_path / "model")
    plain = HardmaxClassifier()
    for name in run:
        assert getattr(read, name) == getattr(plain, name)
    clone(read).set_params(epochs=1).fit(corpus.texts, corpus.labels)
    assert not victim.exists()


def edit(folder, **changes):
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(about | changes))


def shorten(folder, pattern):
    (file,) = folder.glob(pattern)
    file.write_bytes(file.read_bytes()[:-9])


def remove(folder, pattern):
    (file,) = folder.glob(pattern)
    file.unlink()


def refused(folder, part):
    with pytest.raises(ValueError, match=part):
        HardmaxClassifier.load(folder)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (partial(shorten, pattern="*.json"), "must be JSON"),
        (partial(shorten, pattern="*.safetensors"), "truncated or changed"),
        (partial(remove, pattern="*.safetensors"), "Copy the whole folder"),
        (partial(remove, pattern="*.json"), "`model` must be a folder"),
        (partial(edit, weights="../../etc/passwd"), "Copy the whole folder"),
        (partial(edit, version=99), "have version"),
        (partial(edit, format="other"), "must describe a model of hardmax"),
        (partial(edit, layers=-1), "`layers`"),
        (partial(edit, layers=True), "`layers`"),
        (partial(edit, pooling_exponent=2.0), "`pooling_exponent`"),
        (partial(edit, classes=["a"]), "`classes`"),
        (partial(edit, classes=["a", "a"]), "`classes`"),
        (partial(edit, classes=[["a"], ["b"]]), "`classes`"),
        (partial(edit, classes_dtype="<U1"), "`classes`"),
        (partial(edit, classes_dtype="nonsense"), "`classes`"),
        (partial(edit, classes_dtype="O"), "`classes`"),
        (partial(edit, words=["a", "a"]), "`words`"),
        (partial(edit, words=["a"]), "`runs` must be indices"),
        (partial(edit, text={}), "`text`"),
        (partial(edit, history=[{}]), "`history`"),
        *((partial(edit, **{name: None}), f"`{name}`") for name in KINDS),
    ],
)
def test_a_damaged_or_crafted_folder_is_refused(fitted, tmp_path, change, part):
    fitted.save(tmp_path)
    change(tmp_path)
    refused(tmp_path, part)


def spoiled(array, value):
    array = array.copy()
    array.flat[0] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "part"),
    [
        ("decoder", lambda a: a[:, :1], "`decoder` must have the shape"),
        ("embedding", lambda a: a[:5], "`runs` must be"),
        ("embedding", lambda a: a.astype(np.float64), "`embedding`"),
        ("embedding", lambda a: spoiled(a, np.nan), "`embedding` must be finite"),
        ("alpha", lambda a: -a, "`alpha` must be positive"),
        ("alpha", lambda a: spoiled(a, np.inf), "`alpha` must be finite"),
        ("bias", lambda a: np.zeros(3), "`bias` must have the shape"),
        ("runs", lambda a: spoiled(a, 60_000), "`runs` must be indices"),
        ("runs", lambda a: spoiled(a, 0), "`runs` must be indices"),
        ("runs", lambda a: a.astype(np.float32), "`runs` must be"),
        ("runs", lambda a: a[[0, *range(len(a) - 1)]], "`runs` must be distinct"),
    ],
)
def test_crafted_arrays_are_refused(fitted, tmp_path, name, change, part):
    fitted.save(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    arrays = load(file.read_bytes())
    file.write_bytes(save(arrays | {name: np.ascontiguousarray(change(arrays[name]))}))
    edit(tmp_path, sha256=sha256(file.read_bytes()).hexdigest())
    refused(tmp_path, part)
