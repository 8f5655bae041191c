"""The list of seeded faults keeps up with the source, and the runner tells one that is seen from one that is not."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import CAUGHT, FAULTS, NOT_CAUGHT, Copy, chosen, main
from tests.seeded.fault import slip

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_what_is_there_and_names_tests_that_are(fault):
    text = (ROOT / "src/hardmax" / fault.file).read_text(encoding="utf-8")
    changed = fault.applied(text)
    assert changed != text
    compile(changed, fault.file, "exec")
    for test in fault.tests:
        file, _, name = test.partition("[")[0].partition("::")
        assert not name or re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), test


def test_there_are_faults_enough_and_each_has_its_name():
    assert len(FAULTS) >= 60
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
    assert not {fault.name for fault in FAULTS} & {fault.area for fault in FAULTS}


def test_a_fault_that_does_not_fit_is_refused():
    for old, new in (("def ", "df "), ("no such text", ""), ("class Sets", "class Sets")):
        with pytest.raises(ValueError, match=r"A fault must change text that stands once in search/sets\.py"):
            slip("engine", "odd", "search/sets.py", old, new, "test_sets", "").applied(
                (ROOT / "src/hardmax/search/sets.py").read_text()
            )
    with pytest.raises(SystemExit, match=r"A fault must be named as --list has it\. Got 'engin'"):
        chosen(["engin"])


@pytest.mark.slow
def test_the_runner_sees_a_fault_and_undoes_it():
    tests = "test_sets::test_mean_is_weighted_by_multiplicity"
    weights, words = "(counts[tied.members], tied", "Argmax sets of one layer, and classes of equal tokens."
    with Copy.made() as copy:
        path = copy.root / "src/hardmax/search/sets.py"
        clean = path.read_bytes()
        assert (
            copy.outcome(slip("engine", "seen", "search/sets.py", weights, "(tied.members, tied", tests, "")) == CAUGHT
        )
        assert path.read_bytes() == clean
        assert copy.outcome(slip("engine", "unseen", "search/sets.py", words, "Sets.", tests, "")) == NOT_CAUGHT
        assert copy.outcome(slip("engine", "lost", "search/sets.py", "no such text", "", tests, "")).startswith(
            "error: A fault"
        )
        assert copy.outcome(slip("engine", "no test", "search/sets.py", weights, "", "test_none", "")).startswith(
            "error: py"
        )


def test_faults_are_listed_by_area(capsys):
    assert main(["--list", "checks"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == sum(fault.area == "checks" for fault in FAULTS)
