"""Certificates as documents: made from limits, checked in Python and JavaScript, altered, and restored."""

import ast
import gzip
import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from copy import deepcopy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import certificate_checker
from hardmax.cli.main import main
from hardmax.configurations import CONFIGURATIONS
from hardmax.draw.pages import trajectory_page
from hardmax.figures.hardmax_rule import compute_attracting_set, compute_clusters
from tests import browser, certificates
from tests.problems import theory
from tests.test_causal_limits import WAITING, draw_order, draw_problem

HALF = Fraction(1, 2)
needs_node = pytest.mark.skipif(certificates.NODE is None, reason="no node: apt-get install nodejs")


def draw_limit(rng, number):
    """Return the limit of a random problem: without a mask, causal, or under another order, in turn."""
    tokens, alpha, A = draw_problem(rng, lattice=number % 2 == 0)
    order = {"attention_mask": draw_order(rng, len(tokens))} if number % 3 == 2 else {}
    return hm.limit(tokens, hm.Hardmax(alpha, A, causal=number % 3 == 1), **order)


@pytest.fixture(scope="module")
def limits():
    """Limits with every kind of proof, of the configurations and of random problems."""
    rule = hm.Hardmax(0.5)
    found = [hm.limit(hm.configuration(name), rule) for name in CONFIGURATIONS]
    found += [
        hm.limit(tokens, hm.Hardmax(HALF))
        for tokens in (theory.FOLLOWS_FOLLOWERS, theory.EQUAL_PRODUCTS, theory.MIDDLE)
    ]
    found += [
        hm.limit(WAITING, hm.Hardmax(HALF, causal=True)),
        hm.limit(theory.DEPENDS_ON_ALPHA, hm.Hardmax([1, HALF])),
    ]
    found += [hm.limit([[1, 0], [1, 0], [2, 0], [0, 1]], rule), hm.limit([[0.1, 1e-300], [0.2, 1e300]], rule)]
    found += list(hm.limit(np.random.default_rng(1).normal(size=(3, 20, 2)), rule))
    rng = np.random.default_rng(2)
    return found + [draw_limit(rng, number) for number in range(90)]


def test_both_checkers_accept_every_certified_limit(limits):
    documents = certificates.assert_accepted(limits)
    kinds = Counter(kind for document in documents for kind, _ in document["proofs"])
    assert set(kinds) == {"Theorem 1", "Theorem 4", "C1", "T", "chain"}


def test_limits_that_figures_claim(monkeypatch):
    """Figure 4, and the configurations of Figure 2, whose limits the report of the demo shows, too."""
    found = certificates.collect_limits(monkeypatch)
    compute_attracting_set()
    assert len(found) == 1
    found += [hm.limit(trajectory.tokens[0], trajectory.rule) for trajectory in compute_clusters().values()]
    certificates.assert_accepted(found)


def test_a_limit_is_restored_from_its_certificate(limits):
    for limit in limits:
        again = hm.Limit.from_certificate(limit.certificate())
        for name in ("tokens", "layer", "leaders", "emerged", "clusters", "points", "start", "weights"):
            np.testing.assert_array_equal(getattr(again, name), getattr(limit, name), err_msg=name)
        assert (again.status, again.proofs) == (limit.status, limit.proofs)
        assert again.exact().tolist() == limit.exact().tolist()
        with pytest.raises(hm.InputError, match="radius"):
            _ = again.radius
        with pytest.raises(hm.InputError, match="certificate needs"):
            again.certificate()


def alter(document, rng):
    """Change one place of a document, and return the name of its part."""
    part = rng.choice([name for name in document if name not in ("format", "layer") and document[name]])
    holder, place, value = document, part, document[part]
    while isinstance(value, list):
        if not value:
            value.append([0, 0])
            return part
        holder, place = value, rng.randrange(len(value))
        value = holder[place]
    if type(value) is int:
        holder[place] = value + rng.choice([-1, 1])
    elif value in ("Theorem 1", "Theorem 4", "C1", "T", "chain"):
        holder[place] = rng.choice(sorted({"Theorem 1", "Theorem 4", "C1", "T", "chain"} - {value}))
    elif part == "mask":
        holder[place] = "causal" if value != "causal" else None
    else:
        holder[place] = str(Fraction(value) + rng.choice([-1, 1]) * Fraction(1, rng.choice([1, 7, 1000])))
    return part


def is_true(document):
    """Return whether a document states the true limits of its own input: then the change was harmless."""
    rows = [[Fraction(x) for x in row] for row in document["tokens"]]
    labels = document["labels"] or range(len(rows))
    A = None if document["A"] is None else [[Fraction(x) for x in row] for row in document["A"]]
    mask = document["mask"]
    order = {} if mask in (None, "causal") else {"attention_mask": np.array([[x == "1" for x in row] for row in mask])}
    rule = hm.Hardmax(list(map(Fraction, document["alpha"])), A, any_A=True, causal=mask == "causal")
    limit = hm.limit(np.array([rows[i] for i in labels], object), rule, **order)
    stated = [[Fraction(x) for x in document["points"][document["limits"][i]]] for i in labels]
    return limit.certified and limit.exact().tolist() == stated


@needs_node
def test_altered_certificates_are_rejected(limits):
    rng, altered, parts = random.Random(0), [], Counter()
    documents = [limit.certificate() for limit in limits]
    while len(altered) < 400:
        changed = deepcopy(rng.choice(documents))
        part = alter(changed, rng)
        if changed not in documents:
            altered.append(changed)
            parts[part] += 1
    assert len(parts) == 13, parts
    reports = [hm.check_certificate(document) for document in altered]
    harmless = [document for document, report in zip(altered, reports, strict=True) if report.accepted]
    print(f"{len(altered)} altered: {len(altered) - len(harmless)} rejected, {len(harmless)} harmless; {dict(parts)}")
    assert len(harmless) < 60  # such as another alpha where all tokens are decided at layer 0, or a stronger theorem
    assert all(map(is_true, harmless))
    accepted = [report["accepted"] for report in certificates.check_with_node(altered)]
    assert accepted == [report.accepted for report in reports]


HOSTILE = [None, 5, [], {}, "x", {"format": certificate_checker.FORMAT}]
REPLACEMENTS = [None, 5, -1, "x", "1/0", "nan", True, [], [[]], [[[]]], {}, [None], ["1"], [["1"]], 1e300, {"0": 1}]


def test_hostile_documents_are_rejected_without_a_traceback():
    document = hm.limit(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF)).certificate()
    hostile = HOSTILE + [{**document, part: value} for part in document for value in REPLACEMENTS]
    hostile += [{name: value for name, value in document.items() if name != part} for part in document]
    for changed in hostile:
        report = hm.check_certificate(changed)
        assert not report.accepted or changed.get("A") is None
        assert report.accepted or str(report).startswith("Rejected: ")


def test_a_sample_is_not_a_proof():
    document = hm.limit(np.random.default_rng(3).normal(size=(300, 2)), hm.Hardmax(0.5)).certificate()
    whole, part = hm.check_certificate(document), hm.check_certificate(document, sample=10)
    assert part.inequalities < whole.inequalities / 3
    assert (whole.sample, part.sample) == (None, 10)
    assert "no proof" in str(part)
    with pytest.raises(hm.ParameterError, match=r"^`sample` must"):
        hm.check_certificate(document, sample=0)
    assert str(whole) == f"Accepted: 300 tokens, {document['layer']} layers, {whole.inequalities} inequalities tested."


def test_the_checker_shares_no_code():
    text = certificates.CHECKER.read_text()
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {alias.name if isinstance(node, ast.Import) else node.module for node in nodes for alias in node.names}
    assert {str(module).partition(".")[0] for module in modules} <= sys.stdlib_module_names
    assert len(text.splitlines()) <= 250


def test_commands_write_and_check(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(certificates.CHECKER, "checker.py")
    for name in ("proof.json", "proof.json.gz"):
        assert main(["limit", "edge-clusters", "--certificate", name]) == 0
        assert main(["check-certificate", name]) == 0
        done = subprocess.run([sys.executable, "-I", "checker.py", name], capture_output=True, text=True, check=True)
        assert done.stdout == "Accepted: 10 tokens, 0 layers, 120 inequalities tested.\n"
        module = [sys.executable, "-m", "hardmax.certificate_checker", name, "--sample", "3"]
        done = subprocess.run(module, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert done.stdout.startswith("No fault in a sample of 3, which is no proof: 10 tokens, 0 layers, ")
    document = json.loads(gzip.decompress(Path("proof.json.gz").read_bytes()))
    document["points"][0][0] = "1/3"
    Path("bad.json").write_text(json.dumps(document))
    Path("none.json").write_text("{")
    Path("none.json.gz").write_bytes(Path("proof.json.gz").read_bytes()[:50] + b"x" * 50)
    for name, code in {"bad.json": 1, "none.json": 2, "none.json.gz": 2, "missing.json": 2}.items():
        assert main(["check-certificate", name]) == code
        assert subprocess.run([sys.executable, "-I", "checker.py", name], capture_output=True).returncode == code
    assert main(["check-certificate", "proof.json", "--sample", "0"]) == 2
    assert main(["limit", "triangle", "--certificate", "proof.txt"]) == 2
    assert "--certificate" in capsys.readouterr().err


@browser.needed
@pytest.mark.parametrize("broken", [False, True])
def test_a_page_checks_its_own_proof(broken, tmp_path):
    pytest.importorskip("playwright")
    page = trajectory_page(hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=3), "Edges")
    if broken:
        page = page.replace('"limits":[2,', '"limits":[3,')
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    with browser.started() as chromium, browser.opened(chromium) as tab:
        tab.goto((tmp_path / "page.html").as_uri())
        tab.get_by_role("button", name="Check this proof").click()
        said = tab.locator(".hm-proof").inner_text()
        assert browser.unfriendly(tab) == []
        assert tab.problems == []
    assert said.startswith("Rejected: " if broken else "Accepted: 10 tokens, 0 layers, 120 inequalities")
