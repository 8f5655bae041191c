"""Tables in the docs equal the recorded files, and every table has a writer."""

import re
from pathlib import Path

import pytest
from benchmarks import CASES, gpu, report
from studies import pages

ROOT = Path(__file__).parents[1]
TABLES = pages.tables()
FACTS = re.compile(r"<!-- made by python -m studies (\w+) -->")  # sentences of sweeps, tested with the studies


@pytest.mark.parametrize("page", TABLES)
def test_tables_of_a_page_equal_the_recorded_files(page):
    assert pages.fill_page(page, TABLES[page]) == (ROOT / page).read_text(encoding="utf-8")


def test_every_mark_has_a_writer():
    for path in [ROOT / "benchmarks" / "README.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        marks = set(re.findall(r"<!-- made by .*? -->", path.read_text(encoding="utf-8")))
        marks = {mark for mark in marks if not FACTS.fullmatch(mark)}
        assert marks == set(TABLES.get(str(path.relative_to(ROOT)), {})), path


def test_recorded_cases_are_registered():
    for document in report.documents(ROOT / "benchmarks" / "results" / "cpu.json"):
        assert report.cases_by_name(document).keys() <= CASES.keys()


def test_gpu_ratios_follow_from_the_recorded_times():
    for row in pages.record("gpu")["rows"]:
        again = gpu.row(row["case"], row["how"], row["ours ms"], row["other ms"], (0, 0), row["target"] or None)
        assert (again["times as fast"], again["reached?"]) == (row["times as fast"], row["reached?"])


def test_missing_marks_are_an_error():
    with pytest.raises(ValueError, match="`markdown`"):
        report.fill("a page without marks", "table")


def test_ratios_against_peers_show_both_kinds_of_machine(monkeypatch):
    rows = [{"method": "ours", "seconds": 0.001}, {"method": "peer", "seconds": 0.1, "ratio": 100.0}]
    case = {"name": "toy", "title": "Toy tokens", "date": "2026-01-01", "rows": rows}
    native = {"machine": {"instructions": "AVX-512"}, "cases": [case]}
    other = {"machine": {"instructions": "AVX2 (kept from AVX-512)"}, "cases": [case | {"rows": rows[:1]}]}
    monkeypatch.setattr(report, "documents", lambda path: [native, other])
    last = pages.against(("peer",), ("toy",)).splitlines()[-1]
    assert last == "| Toy tokens | peer | 1 | 100 | 100 | 1 |  |  |"
