"""Certificates as documents: made from limits, checked in Python and JavaScript,
altered, and restored.
"""

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
from itertools import product
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
FACE = [
    *product([-2, 2], [-1, 1], [-1, 1]),
    (HALF, 0, 0),
]  # the last limit is a mean of four leaders in many ways
needs_node = pytest.mark.skipif(
    certificates.NODE is None, reason="no node: apt-get install nodejs"
)


def draw_limit(rng, number):
    """Return the limit of a random problem: without a mask, causal, or under another
    order, in turn.
    """
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
        for tokens in (
            theory.FOLLOWS_FOLLOWERS,
            theory.EQUAL_PRODUCTS,
            theory.MIDDLE,
            np.array(FACE, object),
        )
    ]
    found += [
        hm.limit(WAITING, hm.Hardmax(HALF, causal=True)),
        hm.limit(theory.DEPENDS_ON_ALPHA, hm.Hardmax([1, HALF])),
        hm.limit(
            [[1, -1], [-2, -2], [0, -1], [-2, 1]],
            hm.Hardmax(HALF, [[2, 2], [0, 0]], any_A=True),
        ),  # no leader
        hm.limit(
            [[1 + Fraction(1, 10**5000), 0], [0, 1]], rule
        ),  # more digits than Python converts by default
    ]
    found += [
        hm.limit([[1, 0], [1, 0], [2, 0], [0, 1]], rule),
        hm.limit([[0.1, 1e-300], [0.2, 1e300]], rule),
    ]
    found += list(hm.limit(np.random.default_rng(1).normal(size=(3, 20, 2)), rule))
    rng = np.random.default_rng(2)
    return found + [draw_limit(rng, number) for number in range(90)]


def test_both_checkers_accept_every_certified_limit(limits):
    documents = certificates.assert_accepted(limits)
    kinds = Counter(kind for document in documents for kind, _ in document["proofs"])
    assert set(kinds) == {"Theorem 1", "Theorem 4", "C1", "T", "chain"}


def test_limits_that_figures_claim(monkeypatch):
    """Figure 4, and the configurations of Figure 2, whose limits the report of the demo
    shows, too.
    """
    found = certificates.collect_limits(monkeypatch)
    compute_attracting_set()
    assert len(found) == 1
    found += [
        hm.limit(trajectory.tokens[0], trajectory.rule)
        for trajectory in compute_clusters().values()
    ]
    certificates.assert_accepted(found)


def test_a_limit_is_restored_from_its_certificate(limits):
    for limit in limits:
        again = hm.Limit.from_certificate(limit.certificate())
        for name in (
            "tokens",
            "layer",
            "leaders",
            "emerged",
            "clusters",
            "points",
            "start",
            "weights",
        ):
            np.testing.assert_array_equal(
                getattr(again, name), getattr(limit, name), err_msg=name
            )
        assert (again.status, again.proofs) == (limit.status, limit.proofs)
        assert again.exact().tolist() == limit.exact().tolist()
        with pytest.raises(hm.InputError, match="radius"):
            _ = again.radius
        with pytest.raises(hm.InputError, match="certificate needs"):
            again.certificate()


def alter(document, rng):
    """Change one place of a document, and return the name of its part, or of the
    change.
    """
    moves = ["shift weight", "null weights", "set labels"]
    part = rng.choice(
        moves
        + [
            name
            for name in document
            if name not in ("format", "layer") and document[name]
        ]
    )
    if part == "shift weight":
        own = rng.choice(
            [own for own in document["weights"] if own and len(own) > 1] or [[]]
        )
        for pair, step in zip(
            rng.sample(own, len(own)), [1, -1] * (len(own) // 2), strict=False
        ):
            pair[1] = str(Fraction(pair[1]) + Fraction(step, 16))
    elif part == "null weights":
        document["weights"][rng.randrange(len(document["weights"]))] = None
    elif part == "set labels":
        document["labels"] = rng.sample(
            range(len(document["tokens"])), len(document["tokens"])
        )
    if part in moves:
        return part
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
        holder[place] = rng.choice(
            sorted({"Theorem 1", "Theorem 4", "C1", "T", "chain"} - {value})
        )
    elif part == "mask":
        holder[place] = None
    elif value is not None:
        holder[place] = str(
            Fraction(value)
            + rng.choice([-1, 1]) * Fraction(1, rng.choice([1, 7, 1000]))
        )
    return part


def compute_limit(document):
    """Return the limit of the input that a document states."""
    rows = np.array([list(map(Fraction, row)) for row in document["tokens"]], object)
    A, mask = document["A"], document["mask"]
    seen = np.eye(len(rows), dtype=int)
    for i, direct in enumerate(mask if isinstance(mask, list) else []):
        seen[i, direct] = 1
    order = (
        {"attention_mask": np.linalg.matrix_power(seen, len(rows)) > 0}
        if isinstance(mask, list)
        else {}
    )
    A = None if A is None else [list(map(Fraction, row)) for row in A]
    rule = hm.Hardmax(
        list(map(Fraction, document["alpha"])), A, any_A=True, causal=mask == "causal"
    )
    return hm.limit(
        rows if document["labels"] is None else rows[document["labels"]], rule, **order
    )


def describe(limit):
    """Return limits, leaders and weights by position, whatever the order of the points."""
    points = list(map(tuple, limit.exact_points))
    leaders = points[: len(limit.leaders)]
    weights = [
        dict(zip(leaders, row, strict=True))
        for row in np.nan_to_num(limit.weights, nan=-1).tolist()
    ]
    assert limit.exact().tolist() == [list(points[c]) for c in limit.clusters]
    return (
        np.asarray(limit.tokens).tolist(),
        limit.exact().tolist(),
        set(leaders),
        weights,
    )


@needs_node
def test_altered_certificates_are_rejected(limits):
    rng, altered, counts = random.Random(0), [], {}
    documents = [limit.certificate() for limit in limits]
    divided = [
        document
        for document in documents
        if any(own and len(own) > 1 for own in document["weights"])
    ]
    while len(altered) < 600:
        changed = deepcopy(rng.choice(divided if rng.random() < 0.25 else documents))
        part = alter(changed, rng)
        if changed not in documents:
            altered.append((part, changed))
    reports = certificates.check_with_node([document for _, document in altered])
    for (part, document), report in zip(altered, reports, strict=True):
        accepted = hm.check_certificate(document).accepted
        assert accepted == report["accepted"], (part, document, report)
        counts.setdefault(part, Counter())[accepted] += 1
        # such as another alpha where all tokens are decided at layer 0, or a stronger
        # theorem
        if accepted:
            assert describe(hm.Limit.from_certificate(document)) == describe(
                compute_limit(document)
            ), part
    total = sum(counts.values(), Counter())
    print(f"{len(altered)} altered: {total[False]} rejected, {total[True]} harmless")
    print(
        ", ".join(
            f"{part} {own[False]} + {own[True]}" for part, own in sorted(counts.items())
        )
    )
    assert len(counts) == 16
    assert total[True] < 150
    assert not any(
        counts[part][True] for part in ("shift weight", "null weights", "weights")
    )


HOSTILE = [None, 5, [], {}, "x", {"format": certificate_checker.FORMAT}]
REPLACEMENTS = [
    None,
    5,
    -1,
    "x",
    "1/0",
    "nan",
    True,
    [],
    [[]],
    [[[]]],
    {},
    [None],
    ["1"],
    [["1"]],
    1e300,
    {"0": 1},
    "",
]
SMALL = hm.limit([[1, 0], [0, 1], [2, 3]], hm.Hardmax(HALF)).certificate()
MASKED = hm.limit([[1, 0], [0, 1], [2, 3]], hm.Hardmax(HALF, causal=True)).certificate()
MALFORMED = [
    *(
        {**SMALL, part: list(map("".join, SMALL[part]))}
        for part in ("tokens", "points", "positions")
    ),
    *({**SMALL, "A": value} for value in ({"10": 1, "01": 2}, ["10", "01"])),
    *({**SMALL, "layer": value} for value in (False, 0.0, "0", [0])),
    *(
        {**SMALL, "weights": [[[zero, "1"]], *SMALL["weights"][1:]]}
        for zero in (False, 0.0, "0", [0])
    ),
    {**SMALL, "proofs": [[*proof, 0] for proof in SMALL["proofs"]]},
    {**SMALL, "sets": [[0.0], *SMALL["sets"][1:]]},
    {**SMALL, "labels": None},
    {**SMALL, "more": 0},
    *({**MASKED, "labels": labels} for labels in ([0, 1, 2], [])),
    *(
        {**MASKED, "mask": mask}
        for mask in (["100", "110", "111"], [[1], [0], []], [[0], [], []], [[], [0]])
    ),
]


@needs_node
def test_both_checkers_reject_hostile_documents_without_a_traceback():
    document = hm.limit(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF)).certificate()
    hostile = (
        HOSTILE
        + [{**document, part: value} for part in document for value in REPLACEMENTS]
        + MALFORMED
    )
    hostile += [
        {name: value for name, value in document.items() if name != part}
        for part in document
    ]
    as_lists = {**MASKED, "mask": [[], [0], [1]]}  # the causal mask
    accepted = [as_lists, SMALL, MASKED, document]
    for changed in hostile:
        report = hm.check_certificate(changed)
        assert report.accepted == (changed in accepted and changed not in MALFORMED), (
            changed
        )
        assert report.accepted or str(report).startswith("Rejected: ")
    assert all(hm.check_certificate(changed).accepted for changed in accepted)
    reports = certificates.check_with_node(hostile + accepted)
    expected = [
        hm.check_certificate(changed).accepted for changed in hostile + accepted
    ]
    assert [report["accepted"] for report in reports] == expected


def test_a_sample_is_not_a_proof():
    document = hm.limit(
        np.random.default_rng(3).normal(size=(300, 2)), hm.Hardmax(0.5)
    ).certificate()
    whole, part = (
        hm.check_certificate(document),
        hm.check_certificate(document, sample=10),
    )
    assert part.inequalities < whole.inequalities / 3
    assert (whole.sample, part.sample) == (None, 10)
    assert "no proof" in str(part)
    with pytest.raises(hm.ParameterError, match=r"^`sample` must"):
        hm.check_certificate(document, sample=0)
    assert (
        str(whole)
        == f"Accepted: 300 tokens, {document['layer']} layers, {whole.inequalities}"
        " inequalities tested."
    )


def test_the_checker_shares_no_code():
    text = certificates.CHECKER.read_text()
    nodes = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    modules = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in nodes
        for alias in node.names
    }
    assert {
        str(module).partition(".")[0] for module in modules
    } <= sys.stdlib_module_names


def test_commands_write_and_check(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(certificates.CHECKER, "checker.py")
    for name in ("proof.json", "proof.json.gz"):
        assert main(["limit", "edge-clusters", "--certificate", name]) == 0
        assert main(["check-certificate", name]) == 0
        done = subprocess.run(
            [sys.executable, "-I", "checker.py", name],
            capture_output=True,
            text=True,
            check=True,
        )
        assert (
            done.stdout == "Accepted: 10 tokens, 0 layers, 120 inequalities tested.\n"
        )
        module = [
            sys.executable,
            "-m",
            "hardmax.certificate_checker",
            name,
            "--sample",
            "3",
        ]
        done = subprocess.run(module, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert done.stdout.startswith(
            "No fault in a sample of 3, which is no proof: 10 tokens, 0 layers, "
        )
    document = json.loads(gzip.decompress(Path("proof.json.gz").read_bytes()))
    document["points"][0][0] = "1/3"
    Path("bad.json").write_text(json.dumps(document))
    Path("twice.json").write_text(json.dumps(SMALL)[:-1] + ', "layer": 0}')
    Path("none.json").write_text("{")
    Path("none.json.gz").write_bytes(
        Path("proof.json.gz").read_bytes()[:50] + b"x" * 50
    )
    for name, code in {
        "bad.json": 1,
        "twice.json": 2,
        "none.json": 2,
        "none.json.gz": 2,
        "missing.json": 2,
    }.items():
        assert main(["check-certificate", name]) == code
        assert (
            subprocess.run(
                [sys.executable, "-I", "checker.py", name], capture_output=True
            ).returncode
            == code
        )
    if certificates.NODE is not None:
        assert (
            "twice"
            in certificates.check_with_node(
                [Path("twice.json").read_text()], encode=str
            )[0]["reason"]
        )
    for sample in ("0", "-1"):
        assert main(["check-certificate", "proof.json", "--sample", sample]) == 2
        command = [sys.executable, "-I", "checker.py", "proof.json", "--sample", sample]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, "--sample must be at least 1" in done.stderr) == (
            2,
            True,
        )
    assert main(["limit", "triangle", "--certificate", "proof.txt"]) == 2
    assert "--certificate" in capsys.readouterr().err


@browser.needed
@pytest.mark.parametrize("broken", [False, True])
def test_a_page_checks_its_own_proof(broken, tmp_path):
    pytest.importorskip("playwright")
    page = trajectory_page(
        hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=3),
        "Edges",
    )
    if broken:
        page = page.replace('"limits":[2,', '"limits":[3,')
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    with browser.started() as chromium, browser.opened(chromium) as tab:
        tab.goto((tmp_path / "page.html").as_uri())
        tab.get_by_role("button", name="Check this proof").click()
        said = tab.locator(".hm-proof").inner_text()
        assert browser.unfriendly(tab) == []
        assert tab.problems == []
    assert said.startswith(
        "Rejected: " if broken else "Accepted: 10 tokens, 0 layers, 120 inequalities"
    )
