"""Predictions for files of any size: one per row, in order, equal to those of one
process, with and without faults.
"""

import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("distributed")

import hardmax as hm
from hardmax.scale import PredictedFiles, slices
from hardmax.scale.slices import Slice, find_files, make_slices, read_slice
from hardmax.scale.store import hash_file
from hardmax.text import files
from hardmax.text.datasets import reviews
from hardmax.text.files import How
from hardmax.text.tables import read_texts
from tests.processes import ROOT

MODEL = "imdb-2d"
TEXTS = [
    *reviews(600, seed=5).texts,
    'a "superb" film,\nand a\r\nlong one',
    "",
    "zzzz",
    "Süße Grüße: excellent",
]
COLUMNS = [
    "row",
    "prediction",
    "probability",
    "probability_neg",
    "probability_pos",
    "no_known_word",
]


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch) -> None:
    monkeypatch.setattr(slices, "MAX_ROWS", 100)


def write(path: Path, texts: list[str] = TEXTS) -> Path:
    rows = [{"id": number, "review": text} for number, text in enumerate(texts)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=70)
    elif path.suffix == ".jsonl":
        path.write_text(
            "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows),
            encoding="utf-8",
        )
    elif path.suffix == ".txt":
        path.write_text(
            "\n".join(" ".join(text.split()) for text in texts), encoding="utf-8"
        )
    else:
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, ["id", "review"], delimiter=";")
            writer.writeheader()
            writer.writerows(rows)
    return path


def hash_predictions(out: Path) -> dict[str, str]:
    """Return the hash of each file of predictions and token sums."""
    paths = [*out.glob("answers-*.parquet"), *out.glob("_tokens/*.parquet")]
    return {path.relative_to(out).as_posix(): hash_file(path) for path in paths}


@pytest.fixture(scope="module")
def undisturbed(client, tmp_path_factory) -> tuple[Path, PredictedFiles]:
    """A file, and its predictions with explanations."""
    folder = tmp_path_factory.mktemp("undisturbed")
    path = write(folder / "reviews.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "MAX_ROWS", 100)
        return path, hm.predict_files(
            path, MODEL, out=folder / "out", explain=True, engine=client
        )


@pytest.mark.slow
def test_a_folder_has_the_predictions_of_each_of_its_files(
    client, run, tmp_path: Path
) -> None:
    (tmp_path / "in" / "_temporary").mkdir(parents=True)
    for ending in ("csv", "jsonl", "parquet", "txt"):
        write(tmp_path / "in" / f"part-{ending}.{ending}")
    (tmp_path / "in" / "empty.jsonl").touch()
    write(tmp_path / "in" / "_temporary" / "a.csv")
    (tmp_path / "in" / "README").write_text("not a table")
    reported: list[tuple[int, int]] = []
    options = {
        "engine": client.scheduler.address,
        "progress": lambda *rows: reported.append(rows),
    }
    found = hm.predict_files(tmp_path / "in", MODEL, out="scored", **options)
    frame = found.to_frame()
    assert found.rows == len(frame) == 4 * len(TEXTS)
    assert reported[-1] == (found.rows, found.rows)
    assert len(found.parts()) == 3 * 7 + 9  # row groups of 70 rows are not joined
    assert list(frame) == ["file", *COLUMNS]
    assert sum(batch.num_rows for batch in found) == found.rows
    pd.testing.assert_frame_equal(
        pd.read_parquet("scored"), frame
    )  # it skips folders that begin with _
    for name, mine in frame.groupby("file"):
        assert (
            run(
                "predict",
                "--file",
                f"in/{name}",
                "--model",
                MODEL,
                "--out",
                "p.parquet",
            )[0]
            == 0
        )
        expected = pd.read_parquet("p.parquet").drop(columns="strongest_words")
        pd.testing.assert_frame_equal(
            mine.drop(columns="file").reset_index(drop=True), expected
        )
    assert repr(found).startswith(
        f"<PredictedFiles: {found.rows:,} rows in 30 parts in "
    )


def test_explanations_are_those_of_the_classifier(undisturbed) -> None:
    _, found = undisturbed
    classifier = hm.pretrained(MODEL)
    table = found.table()
    assert table.schema.field("explanation").type == pa.list_(
        pa.field(
            "element",
            pa.struct([("token", pa.string()), ("contribution", pa.float64())]),
        )
    )
    for row, why in zip(
        table["explanation"].to_pylist(), classifier.explain_many(TEXTS), strict=True
    ):
        assert [pair["token"] for pair in row] == why.words.tolist()
        assert [
            pair["contribution"] for pair in row
        ] == why.contributions.tolist()  # the same to the last bit
    assert table["row"].to_pylist() == list(range(1, len(TEXTS) + 1))
    assert table["prediction"].to_pylist() == classifier.predict(TEXTS).tolist()
    expected = classifier.contributions(TEXTS, classifier.predict(TEXTS))
    tokens = found.tokens()
    both = tokens.merge(
        expected, on=["token", "for"], suffixes=("", "_expected"), validate="one_to_one"
    )
    assert len(both) == len(tokens) == len(expected)
    pairs = [
        (name, f"{name}_expected")
        for name in ("count", "sum", "mean", "mean_abs", "share")
    ]
    pairs += [
        (f"{name}_answered_{c}", f"{name}_in_{c}")
        for name in ("count", "sum", "mean")
        for c in ("neg", "pos")
    ]
    for ours, theirs in pairs:  # sums are added slice by slice: the order is another
        assert np.allclose(
            both[ours], both[theirs], rtol=1e-12, atol=1e-12, equal_nan=True
        ), ours
    assert tokens["share"].sum() == pytest.approx(1)
    pd.testing.assert_frame_equal(PredictedFiles.open(found.out).tokens(), tokens)


def test_other_programs_read_the_explanations(undisturbed) -> None:
    _, found = undisturbed
    pattern = str(found.out / "answers-*.parquet")
    total = sum(len(row) for row in found.table()["explanation"].to_pylist())
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    query = (
        "SELECT count(*), sum(p.contribution) FROM (SELECT unnest(explanation) AS p"
        f" FROM '{pattern}')"
    )
    rows, added = duckdb.sql(query).fetchall()[0]
    assert (rows, added) == (total, pytest.approx(found.tokens()["sum"].sum()))
    read = (
        polars.scan_parquet(pattern)
        .select("explanation")
        .explode("explanation")
        .drop_nulls()
        .collect()
    )
    assert len(read) == total


@pytest.mark.filterwarnings("ignore::hardmax.text.validation.DuplicateWarning")
def test_with_more_classes_there_is_a_contribution_for_each(
    client, tmp_path: Path
) -> None:
    texts = ["a good film", "a bad film", "a dull film", "good", "bad", "dull"] * 20
    labels = [
        1 + [kind in text for kind in ("good", "bad", "dull")].index(True)
        for text in texts
    ]
    model = hm.HardmaxClassifier(
        n_heads=2, groups=1, epochs=2, min_df=1, validation=0, device="cpu"
    ).fit(texts, labels)
    model.save(tmp_path / "model")
    write(tmp_path / "a.csv", texts)
    found = hm.predict_files(
        tmp_path / "a.csv",
        tmp_path / "model",
        out=tmp_path / "out",
        explain=True,
        engine=client,
    )
    table = found.table()
    assert table["prediction"].to_pylist() == model.predict(texts).tolist()
    for row, why in zip(
        table["explanation"].to_pylist(), model.explain_many(texts), strict=True
    ):
        assert [pair["contribution"] for pair in row] == why.contributions.tolist()
    tokens, expected = (
        each.sort_values(["token", "for"])
        for each in (found.tokens(), model.contributions(texts))
    )
    assert list(tokens)[:7] == list(expected)
    assert np.allclose(tokens["sum"], expected["sum"], atol=1e-12)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_several_labels_and_columns_of_the_files(
    client, tmp_path: Path, ending: str
) -> None:
    corpus = reviews(150, seed=2)
    sets = [
        [label, *(["the"] if "the" in text else [])]
        for text, label in zip(*corpus[:2], strict=True)
    ]
    table = {
        "review": corpus.texts,
        "stars": [None if i % 7 == 0 else i % 5 for i in range(150)],
    }
    frame = pd.DataFrame(
        table | {"text": ["uk" if i % 3 else "" for i in range(150)]}, dtype=object
    )
    model = hm.HardmaxClassifier(
        n_heads=2, groups=1, columns=["stars", "text"], text_column="review"
    )
    model.fit(frame, sets).save(tmp_path / "model")
    path = tmp_path / f"a.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    else:
        (
            frame.to_json(path, orient="records", lines=True)
            if ending == "jsonl"
            else frame.to_parquet(path)
        )
    call = {"model": tmp_path / "model", "engine": client}
    found = hm.predict_files(
        path, **call, out=tmp_path / "out", text="review", explain=True
    )
    expected = model.answers(frame).drop(columns="strongest_words")
    pd.testing.assert_frame_equal(
        found.to_frame().drop(columns=["row", "explanation"]), expected
    )
    assert list(expected) == [
        "prediction",
        *(f"probability_{label}" for label in model.classes_),
        "no_known_word",
    ]
    logits = [
        np.sum([pair["contribution"] for pair in row], axis=0)
        for row in found.table()["explanation"].to_pylist()
    ]
    assert np.allclose(
        logits + model.model_.weights.bias, model.decision_function(frame)
    )
    tokens, added = (
        each.sort_values(["token", "for"])
        for each in (found.tokens(), model.contributions(frame))
    )
    assert (list(tokens), tokens["token"].tolist()) == (
        list(added),
        added["token"].tolist(),
    )
    assert np.allclose(tokens.iloc[:, 2:], added.iloc[:, 2:], atol=1e-12)
    write(tmp_path / "b.csv")
    for wrong, name in (
        ({"files": tmp_path / "b.csv"}, "columns"),
        ({"files": path, "at_least": 0.9}, "at_least"),
    ):
        with pytest.raises(hm.ParameterError) as problem:
            hm.predict_files(**call | wrong, out=tmp_path / "other")
        assert problem.value.names == (name,)
        assert not (tmp_path / "other").exists()


class Stop(Exception):
    pass


def test_a_stop_and_damaged_files_leave_the_same_bytes(
    client, undisturbed, tmp_path: Path
) -> None:
    path, whole = undisturbed
    expected, out = hash_predictions(whole.out), tmp_path / "out"
    call = {"model": MODEL, "out": out, "explain": True, "engine": client}

    def stop(done: int, total: int) -> None:
        if done > total / 3:
            raise Stop

    with pytest.raises(Stop):
        hm.predict_files(path, **call, progress=stop)
    assert 0 < PredictedFiles.open(out).rows < len(TEXTS)
    assert not PredictedFiles.open(out).complete
    assert hm.predict_files(path, **call).rows == len(TEXTS)
    assert hash_predictions(out) == expected

    first, second = (
        out / "answers-000000001.parquet",
        out / "_tokens" / "tokens-000000003.parquet",
    )
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    second.unlink()
    (out / "answers-000000099.parquet").write_bytes(b"of no slice")
    (out / ".answers-000000002-0123.parquet").write_bytes(b"half")
    kept = (out / "answers-000000000.parquet").stat().st_mtime_ns
    with pytest.raises(hm.InputError, match="for slice 1"):
        PredictedFiles.open(out).table()
    assert hm.predict_files(path, **call).complete
    assert hash_predictions(out) == expected
    assert (out / "answers-000000000.parquet").stat().st_mtime_ns == kept

    for wrong in (
        {"explain": False},
        {"model": "imdb"},
        {"files": write(tmp_path / "other.parquet")},
    ):
        with pytest.raises(hm.ParameterError) as problem:
            hm.predict_files(**{"files": path} | call | wrong)
        assert problem.value.names == ("out",)


def test_a_file_that_changes_is_predicted_again_and_other_files_are_not(
    client, tmp_path: Path
) -> None:
    files = [write(tmp_path / name, TEXTS[:150]) for name in ("a.csv", "b.jsonl")]
    out = tmp_path / "out"
    hm.predict_files(files, MODEL, out=out, engine=client)
    before = {name: (out / name).stat().st_mtime_ns for name in hash_predictions(out)}
    lines = files[1].read_text(encoding="utf-8").split("\n")
    lines[2 * 130] = '{"review": "no end'
    files[1].write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(
        hm.ParameterError, match="Got line 261: "
    ) as problem:  # before any work
        hm.predict_files(files, MODEL, out=out, engine=client)
    assert problem.value.names == (str(files[1]),)
    lines[2 * 130] = '{"review": "mended"}'
    files[1].write_text("\n".join(lines), encoding="utf-8")
    found = hm.predict_files(files, MODEL, out=out, engine=client)
    texts = [*TEXTS[:150], *TEXTS[:130], "mended", *TEXTS[131:150]]
    assert (
        found.table()["prediction"].to_pylist()
        == hm.pretrained(MODEL).predict(texts).tolist()
    )
    kept = {
        name
        for name, changed in before.items()
        if (out / name).stat().st_mtime_ns == changed
    }
    assert kept == {
        name for name in before if name.endswith(("00.parquet", "01.parquet"))
    }  # the slices of a.csv
    assert not (out / "_texts").exists()


def test_a_file_that_changes_while_it_is_read_is_an_error(
    client, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.parquet")
    with pytest.raises(
        hm.InputError,
        match=r"Got none for \d slices, the first with rows .* must not change while",
    ):
        hm.predict_files(
            path,
            MODEL,
            out=tmp_path / "out",
            engine=client,
            progress=lambda *_: path.touch(),
        )
    assert hm.predict_files(path, MODEL, out=tmp_path / "out", engine=client).complete


FIELDS = st.text(alphabet='ab";,\n\r ü', max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=12),
    st.integers(1, 5),
    st.booleans(),
)
def test_csv_is_cut_between_rows(
    rows: list[tuple[str, str]], size: int, quote_all: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            how = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
            csv.writer(
                file, quoting=how, lineterminator="\r\n" if size % 2 else "\n"
            ).writerows([("x", "text"), *rows])
        with path.open(newline="", encoding="utf-8") as file:
            read = [row for row in csv.reader(file) if row]
        if any(
            len(row) != 2 for row in read
        ):  # Python 3.11 writes a carriage return without quotes
            with pytest.raises(hm.ParameterError):
                cut(path, size)
            return
        found, texts = cut(path, size)
        expected = [text if text.strip() else "" for _, text in read[1:]]
        assert read_texts(path, labelled=False).texts == expected
    assert texts == expected
    assert all(part.rows == size for part in found[:-1])


def cut(path: Path, rows: int = 3) -> tuple[list[Slice], list[str]]:
    """Return the slices of a file, and all their texts."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as copies:
        patch.setattr(slices, "MAX_ROWS", rows)
        found, _ = make_slices(
            find_files(path, path.parent / "o"), None, How(), Path(copies)
        )
        return found, [text for part in found for text in read_slice(part)]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (
            'id,text\n1,5" disk\n2,"a ""b""\n c"\n\n3,d\n4,e\n',
            "utf-8",
        ),  # a quote inside a field is a character
        ("id,text\r1,a\r2,b\r3,c\r4,d\r", "utf-8"),
        ("sep=;\nid;text\n1;ä\n2;é,e\n3;c\n4;d", "latin-1"),
        ("text\n\x81\n\xff\nc\nd\n", "latin-1"),
        ("text\na\nb\nc\nd\n", "utf-16"),
    ],
)
def test_quotes_carriage_returns_and_encodings(
    tmp_path: Path, content: str, encoding: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode(encoding))
    found, texts = cut(path)
    assert texts == read_texts(path, labelled=False).texts
    assert [part.start for part in found] == [0, 3]


def test_size_bounds_a_slice_as_well(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(slices, "MAX_BYTES", 5000)
    texts = ["x" * 2000] * 10
    pq.write_table(
        pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False
    )
    for path in (
        tmp_path / "a.parquet",
        write(tmp_path / "a.csv", texts),
        write(tmp_path / "a.jsonl", texts),
    ):
        found, read = cut(path, 100)
        assert max(part.rows for part in found) <= 3
        assert read == texts


def test_large_row_groups_are_cut_and_small_ones_joined(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(1000)]
    for size, sizes in (
        (150, [75, 75] * 6 + [100]),
        (30, [90] * 10 + [100]),
        (1000, [100] * 10),
    ):
        pq.write_table(
            pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=size
        )
        found, read = cut(tmp_path / "a.parquet", 100)
        assert [part.rows for part in found] == sizes
        assert read == texts
        for number in np.random.default_rng(0).permutation(len(found)):  # in any order
            assert (
                read_slice(found[number])
                == texts[found[number].start : found[number].stop]
            )


def test_invalid_input_is_refused_before_any_work(tmp_path: Path, client) -> None:
    def refused(files: object, name: str, **options: object) -> None:
        with pytest.raises(hm.ParameterError) as problem:
            hm.predict_files(
                files,
                **{"model": MODEL, "out": tmp_path / "out", "engine": client} | options,
            )
        assert problem.value.names == (name,)

    def made(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    path = write(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError):
        hm.predict_files(tmp_path / "b.csv", MODEL, out=tmp_path / "out")
    refused(packed := made("a.csv.gz", gzip.compress(b"text\na\n")), str(packed))
    refused(path, "encoding", encoding="klingon")
    refused(path, str(path), encoding="utf-16")
    refused(path, "text", text="words")
    refused(path, "model", model="imbd")
    refused(path, "model", model=hm.pretrained(MODEL))
    refused(path, "at_least", at_least=2)
    refused(path, "engine", engine="cluster")
    for engine in (client, client.scheduler.address):
        refused(path, "workers", engine=engine, workers=2)
    refused(tmp_path, "out")
    refused(made("h.csv", b"id,text\n"), "files")
    refused(wide := made("wide.csv", b"text\na\nb\nc,d\n"), str(wide))
    refused(quote := made("quote.csv", b'id,text\n1,a\n2,"b\n'), str(quote))
    with pytest.raises(hm.InputError, match="must be a Parquet file"):
        hm.predict_files(
            made("p.parquet", b"PAR1"), MODEL, out=tmp_path / "out", engine=client
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "MAX_LINE_CHARACTERS", 200)
        refused(
            long := made("long.jsonl", b'{"text": "' + b"x" * 300 + b'"}'), str(long)
        )
    assert not (tmp_path / "out").exists()


def test_the_command(client, run, tmp_path: Path) -> None:
    write(Path("a.csv"))
    engine, where = client.scheduler.address, ("--model", MODEL, "--out", "scored/")
    code, out, err = run(
        "predict", "a.csv", *where, "--engine", engine, "--explain", "--tokens", "t.csv"
    )
    assert code == 0, err
    assert out.startswith(f"{len(TEXTS)} rows have a prediction, in 7 parts in ")
    assert "Wrote t.csv" in out
    pd.testing.assert_frame_equal(
        pd.read_csv("t.csv", keep_default_na=False, na_values=[""]),
        PredictedFiles.open("scored").tokens(),
    )
    code, out, _ = run(
        "predict", "--file", "a.csv", *where, "--engine", engine, "--explain", "--json"
    )
    assert json.loads(out) == {
        "out": str(tmp_path / "scored"),
        "rows": len(TEXTS),
        "parts": 7,
    }
    for arguments, said in (
        (("a.csv", *where, "--keep"), "`--keep` must"),
        (("a text", "--model", MODEL, "--workers", "2"), "`--workers` must"),
        (("a.csv", "--model", MODEL), "Pass it as --file"),
        (("a.csv", *where), "`--out` must be empty, or hold the same predictions"),
        (("b.csv", *where), "`b.csv` must be a file or a folder"),
        (("a.csv", *where, "--tokens", "t.doc"), "`--tokens` must end in one of"),
        (
            ("a.csv", "--model", "imbd", "--out", "scored/"),
            "`--model` must be a folder",
        ),
    ):
        code, _, err = run("predict", *arguments)
        assert (code, said in err) == (2, True), err


def test_ctrl_c_keeps_finished_rows(client, run, monkeypatch) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    predict = hm.scale.predict_files
    monkeypatch.setattr(
        hm.scale,
        "predict_files",
        lambda *given, **how: predict(*given, **how | {"progress": stop}),
    )
    write(Path("a.csv"))
    code, _, err = run(
        "predict",
        "a.csv",
        "--model",
        MODEL,
        "--out",
        "out",
        "--engine",
        client.scheduler.address,
    )
    rows = PredictedFiles.open("out").rows
    assert (code, rows > 0) == (130, True)
    assert f"{rows} rows are kept. The same command continues." in err


MEMORY = """
import resource, sys
from pathlib import Path
from dataclasses import asdict
from hardmax.scale import slices
from hardmax.scale.predict_files import SlicePredictor
from hardmax.scale.store import hash_file
from hardmax.text.storage import MODELS
slices.MAX_BYTES = 1 << 19
model = MODELS / "imdb-2d"
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
parts, _ = slices.make_slices(slices.find_files(Path(sys.argv[1]), Path("o")), None, slices.How(), Path(sys.argv[2]))
cell = SlicePredictor(sys.argv[2], str(model), hash_file(model / "model.json"), True, 0.0)
for number, part in enumerate(parts):
    cell(asdict(part), None)
    if number == 2: print(peak())
print(len(parts), peak())
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory_is_that_of_a_slice(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    texts = [
        " ".join(reviews(20, seed=seed).texts) for seed in range(50)
    ] * 400  # 38 MB, in slices of half an MB
    if ending == "csv":
        write(path, texts)
    else:
        pq.write_table(
            pa.table({"text": texts}), path, use_dictionary=False
        )  # one group of rows
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", MEMORY, path, tmp_path]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    few, parts, many = map(int, done.stdout.split())
    assert parts > 60
    assert many - few < 30_000  # kB
