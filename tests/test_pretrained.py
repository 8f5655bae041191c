"""The models that come with the package."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.draw.text_page import EXAMPLES
from hardmax.figures.shared import read_results
from hardmax.text.datasets import load_imdb
from hardmax.text.storage import MODELS

IMDB = Path(__file__).parents[2] / "shared" / "data" / "imdb"
ACCURACY = {
    "imdb": 0.9195,
    "imdb-2d": 0.8521,
}  # on all test reviews: hardmax evaluate --data imdb --model NAME


@pytest.mark.parametrize("name", ACCURACY)
def test_models_and_their_cards(name):
    classifier = hm.pretrained(name)
    assert classifier.predict(list(EXAMPLES.values())).tolist() == ["pos", "neg"]
    assert sum(file.stat().st_size for file in (MODELS / name).iterdir()) < 8_000_000
    assert (classifier.model_.weights.embedding != 0).all()
    card = (MODELS / name / "README.md").read_text(encoding="utf-8")
    assert f"{ACCURACY[name]:.4f}" in card
    assert "hardmax train --data imdb" in card
    for part in ("Recipe and metrics", "Data", "Limits"):
        assert f"## {part}" in card


@pytest.mark.skipif(not IMDB.is_dir(), reason="needs a copy of IMDb beside the project")
@pytest.mark.parametrize("name", ACCURACY)
def test_accuracy_on_some_test_reviews(name):
    test = load_imdb(source=IMDB)["test"]
    some = np.arange(0, 25_000, 25)
    found = hm.pretrained(name).predict([test.texts[i] for i in some])
    right = np.mean(found == np.array(test.labels)[some])
    assert (
        abs(right - ACCURACY[name]) < 3 * (0.09 / len(some)) ** 0.5
    )  # 3 standard errors


def test_recorded_leaders_are_those_of_the_shipped_model():
    recorded, model = read_results("leaders"), hm.pretrained("imdb-2d").model_
    ids = [model.vocabulary._word_indices[word] for word in recorded["words"]]
    scores = np.einsum(
        "thd,ohd->to", model.weights.tokens(np.array(ids)), model.weights.decoder
    )[:, 0]
    np.testing.assert_allclose(recorded["scores"], scores, rtol=1e-4)


def test_an_unknown_name_is_refused():
    with pytest.raises(hm.ParameterError, match="`name` must be one of imdb, imdb-2d"):
        hm.pretrained("yelp")


@pytest.mark.slow
@pytest.mark.skipif(not IMDB.is_dir(), reason="needs a copy of IMDb beside the project")
def test_layers_do_not_lower_the_accuracy_in_the_plane():
    test, model = load_imdb(source=IMDB)["test"], hm.pretrained("imdb-2d").model_
    texts, truth = test.texts[::5], np.array(test.labels[::5])
    still = replace(model, weights=replace(model.weights, layers=0))
    moved, unmoved = (
        np.mean(each.decide(each.logits(texts)) == truth) for each in (model, still)
    )
    assert moved >= unmoved
