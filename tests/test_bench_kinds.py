"""Two kinds of machine: who is kept from AVX-512 uses none, and tables show both."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import avx2, pages, report, tables, vectors
from benchmarks.__main__ import main
from benchmarks.machine import environment, machine
from benchmarks.results import Result, Row, verdict

ROOT = Path(__file__).parents[1]
WHAT_RUNS = """
import json
import numpy as np, numba, faiss, torch
from numpy._core._multiarray_umath import __cpu_features__
from threadpoolctl import threadpool_info

@numba.njit(fastmath=True)
def total(a):
    s = 0.0
    for x in a:
        s += x * x
    return s

np.ones((9, 9)) @ np.ones((9, 9))
total(np.ones(1000))
code = "".join(total.inspect_asm().values())
print(json.dumps({
    "numba": [name for name in ("zmm", "ymm") if name in code],
    "numpy": [name for name in ("X86_V4", "AVX512_SKX") if __cpu_features__.get(name)],
    "BLAS": sorted({one["architecture"] for one in threadpool_info() if one["internal_api"] == "openblas"}),
    "FAISS": faiss.SIMDConfig.get_level_name(),
    "torch": torch.backends.cpu.get_cpu_capability(),
}))
"""


def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vectors.MARK, vectors.ALONE[vectors.MARK])


@pytest.mark.skipif(vectors.instructions() != "AVX-512", reason="a processor without AVX-512 is one kind")
def test_libraries_that_are_kept_from_avx512_use_none() -> None:
    for package in ("faiss", "torch", "threadpoolctl"):
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-c", WHAT_RUNS], env=os.environ | vectors.ALONE, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "numba": ["ymm"],
        "numpy": [],
        "BLAS": ["Haswell"],
        "FAISS": "AVX2",
        "torch": "AVX2",
    }


def test_the_second_kind_keeps_its_own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, beside = tmp_path / "cpu.json", tmp_path / "cpu_avx2.json"
    native = environment()
    assert vectors.file_of(path) == path
    assert vectors.files(path) == []
    kept(monkeypatch)
    assert vectors.file_of(path) == beside
    assert machine()["instructions"] == "AVX2 (kept from AVX-512)"
    assert environment()["CXXFLAGS"] == "-march=haswell"
    assert environment()["KEOPS_CACHE_FOLDER"] != native["KEOPS_CACHE_FOLDER"]
    for one in (path, beside):
        report.write(report.document([]), one)
    assert vectors.files(path) == [path, beside]


def test_a_processor_without_avx512_says_that_it_is_one_kind(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(vectors, "_flags", lambda: ["sse2", "avx2"])
    assert avx2.main(["gaussian"]) == 0
    assert "no AVX-512: python -m benchmarks itself measures with AVX2." in capsys.readouterr().out


def test_a_study_of_the_second_kind_does_not_replace_the_table(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    kept(monkeypatch)
    assert main(["scaling", "--plot", "a.png"]) == 2
    assert "`--plot` must show the study on the processor as it is. Got AVX2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reached", "words"),
    [
        ({"AVX-512": True, "AVX2": True}, "reached"),
        ({"AVX-512": False, "AVX2": False}, "missed"),
        ({"AVX-512": True, "AVX2": False}, "reached with AVX-512, missed with AVX2"),
        ({"AVX-512": True, "AVX2": None}, "reached with AVX-512, not measured with AVX2"),
        ({"AVX-512": None, "AVX2": None}, ""),
    ],
)
def test_a_target_is_reached_where_it_is_on_every_kind(reached: dict[str, bool | None], words: str) -> None:
    assert verdict(reached) == words


OURS, PEER = Row("ours", 0.001, 2.0, facts={"kernel": "hull"}), Row("peer", 0.1, 3.0, 100.0, "", "50 times", True)
FIRST = Result("toy", "Toy tokens", "2026-01-01", [OURS, PEER, Row("slow", 7.0, 1.0, 7000.0)])
SECOND = replace(
    FIRST,
    date="2026-01-02",
    rows=[replace(OURS, seconds=0.004, peak=5.0), replace(PEER, ratio=25.0, reached=False)],
)


def documents() -> list[tables.Document]:
    here = {"processor": "P", "instructions": "AVX-512", "cores": "2"}
    return [
        {"machine": here, "cases": [FIRST.to_dict()]},
        {"machine": here | {"instructions": "AVX2 (kept from AVX-512)"}, "cases": [SECOND.to_dict()]},
    ]


def test_the_table_shows_both_kinds_side_by_side() -> None:
    assert tables.markdown(documents()).splitlines() == [
        "Measured on 2026-01-01: processor P, instructions AVX-512, cores 2.",
        "Then measured on 2026-01-02: instructions AVX2 (kept from AVX-512).",
        "",
        "| method | best ms, AVX-512 | best ms, AVX2 | peak MB | times as fast, AVX-512 | times as fast, AVX2 "
        "| target | reached? |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
        "| **`toy`** Toy tokens | | | |  |  | | |",
        "| ours (hull) | 1 | 4 | 5 |  |  |  |  |",
        "| peer | 100 | 100 | 3 | 100 | 25 | 50 times | reached with AVX-512, missed with AVX2 |",
        "| slow | 7,000 |  | 1 | 7,000 |  |  |  |",
    ]


def test_pages_show_both_kinds_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "recorded", lambda path: documents())
    assert pages.against(("peer", "slow"), ("toy",)).splitlines() == [
        "| what | ours, ms | the other | its ms | times as fast "
        "| ours, ms, AVX2 | its ms, AVX2 | times as fast, AVX2 |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
        "| Toy tokens | 1 | peer | 100 | 100 | 4 | 100 | 25 |",
        "|  | 1 | slow | 7,000 | 7,000 | 4 |  |  |",
    ]
