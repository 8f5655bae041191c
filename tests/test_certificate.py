"""Certificates as documents: made from limits, checked in Python and JavaScript,
altered, and restored.
"""

import ast
import gzip
import json
import random
import re
import shutil
import subprocess
import sys
import tracemalloc
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
        assert again.certificate() == limit.certificate()


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


KINDS = ["Theorem 1", "Theorem 4", "C1", "T", "chain"]
UNPRINTABLE = [
    "\x1b[2K\rAccepted: 3 tokens, 0 layers, 9 inequalities tested.\x1b[8m",
    "\ud800",  # a lone surrogate
    "\u202e.detpeccA",  # right to left
    "x" * 100_000,
]
VALUES = [
    *(None, True, False, 0, -1, 1, 2, 10**30, 0.0, 1.5, "", "x", "causal", [], {}),
    *("0", "-0", "1", "-1", "1/2", "2/4", "1/0", "01", "+1", " 1", "1e3", "1\n", "nan"),
    *(["0"], [0], [0, 0], [[0]], [[]], {"0": 0}, [[0, [0]]], [[0, "1"]], ["T", 0]),
    *("9" * 5000, "1/1" + "0" * 5000, "9" * 100_001, *KINDS, *UNPRINTABLE),
]


def list_places(value):
    """Yield container and key of everything in a document."""
    if isinstance(value, list | dict):
        keys = value if isinstance(value, dict) else range(len(value))
        for place in keys:
            yield value, place
            yield from list_places(value[place])


def mutate(document, others, rng):
    """Change the tree of a document at one place, which may be a list or a field."""
    part = rng.choice(list(document))
    places = [(document, part), *list_places(document[part])]
    holder, place = rng.choice(places[:1] if rng.random() < 0.1 else places)
    value = holder[place]
    kind = rng.randrange(8)
    if kind == 0:
        holder[place] = deepcopy(rng.choice(VALUES))
    elif kind == 1:
        holder[place] = deepcopy(rng.choice(others)[part])
    elif kind == 2 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), deepcopy(value))
    elif kind == 3:
        del holder[place]
    elif kind == 4 and isinstance(holder, list):
        other = rng.randrange(len(holder))
        holder[place], holder[other] = holder[other], value
    elif kind == 5 and isinstance(value, list):
        holder[place] = value * rng.choice([2, 3, 50])
    elif kind == 6 and isinstance(value, list):
        rng.shuffle(value)
    elif type(value) is int:
        holder[place] = value + rng.choice([-1, 1])
    elif isinstance(value, str) and certificate_checker.NUMBER.fullmatch(value):
        p, q = Fraction(value).as_integer_ratio()
        holder[place] = rng.choice(
            [f"{3 * p}/{3 * q}", f"{p}/0{q}", f"{-p}/{q}", f"{p + 1}/{q}"]
        )


def check_mutations(limits, seed, number):
    """Send mutated certificates to both checkers; return how many they accept.

    Everything that is accepted must have the leaders and limits of its input.
    """
    rng = random.Random(seed)
    documents = [json.dumps(limit.certificate()) for limit in limits]
    small = [json.loads(text) for text in documents if len(text) < 20_000]
    texts = []
    for _ in range(number):
        document = json.loads(rng.choice(documents))
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            if document:
                mutate(document, small, rng)
        text = json.dumps(document)
        if rng.random() < 0.01:
            field = rng.choice(list(document) or ["layer"])
            text = f'{text[:-1]}, "{field}": {json.dumps(document.get(field))}}}'
        if text not in documents:
            texts.append(text)
    accepted = 0
    reports = certificates.check_with_node(texts, encode=str)
    for text, script in zip(texts, reports, strict=True):
        try:
            document = json.loads(
                text, object_pairs_hook=certificate_checker.read_object
            )
        except ValueError:  # a key occurs twice
            assert not script["accepted"], text
            continue
        report = hm.check_certificate(document)
        assert report == certificate_checker.check(document)
        assert report.accepted == script["accepted"], (report, script, text[:2000])
        for reason in (report.reason, script["reason"]):
            assert reason.isprintable(), text[:2000]
            assert reason.isascii(), text[:2000]
            assert len(reason) < 120, text[:2000]
        if not report.accepted:
            assert str(report).startswith("Rejected: ")
            continue
        accepted += 1
        restored = hm.Limit.from_certificate(document)
        expected = compute_limit(document)
        assert describe(restored) == describe(expected), text[:2000]
        assert restored.leaders.tolist() == expected.leaders.tolist(), text[:2000]
        assert restored.emerged.tolist() == expected.emerged.tolist(), text[:2000]
    return accepted, len(texts)


@needs_node
@pytest.mark.parametrize(
    ("seed", "number"),
    [
        (0, 1500),
        pytest.param(1, 20_000, marks=(pytest.mark.slow, pytest.mark.exhaustive)),
    ],
)
def test_both_checkers_agree_on_mutated_certificates(limits, seed, number):
    accepted, mutated = check_mutations(limits, seed, number)
    assert mutated > 0.7 * number
    assert 0 < accepted < 0.3 * mutated  # such as 2/4 for 1/2, or another order


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
    {**SMALL, "leaders": SMALL["leaders"] * 2},
    {**SMALL, "leaders": SMALL["leaders"] * 500},
    {**SMALL, "sets": [SMALL["sets"][0] * 2, *SMALL["sets"][1:]]},
    {**SMALL, "sets": [[], *SMALL["sets"][1:]]},
    {**SMALL, "positions": SMALL["positions"] * 2},
    *({**SMALL, "proofs": [[kind, 0]] * 3} for kind in (*UNPRINTABLE, [], 0, None)),
    *({**MASKED, "labels": labels} for labels in ([0, 1, 2], [])),
    *(
        {**MASKED, "mask": mask}
        for mask in (
            ["100", "110", "111"],
            [[1], [0], []],
            [[0], [], []],
            [[], [0]],
            [[], [0], [1, 1]],
        )
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


def test_repetitions_are_rejected():
    """Under the causal mask the first two tokens are distinct, at one position."""
    limit = hm.limit([[1, 0], [1, 0], [0.5, 0.1]], hm.Hardmax(HALF, causal=True))
    document = limit.certificate()
    assert document["leaders"] == [0]
    changes = {"layer": 1, "changes": [[[2, [0, 1]], [2, [0, 1]]]]}
    moved = {**document, **changes, "proofs": [["C1", 0], ["C1", 0], ["C1", 1]]}
    moved["positions"] = [["1", "0"], ["1", "0"], [str(Fraction(2, 3)), "0"]]
    forged = [
        *({**document, "leaders": leaders} for leaders in ([0, 1], [1], [0] * 500)),
        {**document, "leaders": []},
        moved,
    ]
    for altered in forged:
        assert not hm.check_certificate(altered).accepted
        with pytest.raises(hm.ParameterError, match="document"):
            hm.Limit.from_certificate(altered)
    if certificates.NODE is not None:
        reports = certificates.check_with_node([*forged, document])
        assert [report["accepted"] for report in reports] == [False] * 5 + [True]


@pytest.mark.parametrize("part", ["proofs", "alpha", "mask", "changes", "format"])
@pytest.mark.parametrize("text", UNPRINTABLE, ids=["escapes", "lone", "bidi", "long"])
def test_rejections_print_no_text_of_the_document(part, text, tmp_path, capfd):
    value = [[text, 0]] * 3 if part == "proofs" else text
    value = [[[text, [0]]]] if part == "changes" else value
    file = tmp_path / "forged.json"
    file.write_text(json.dumps({**SMALL, part: value}), encoding="utf-8")
    command = [sys.executable, "-I", str(certificates.CHECKER), str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert main(["check-certificate", str(file)]) == 1
    printed = capfd.readouterr().out
    assert (done.returncode, done.stderr) == (1, "")
    for output in (done.stdout, printed):
        assert output.startswith("Rejected: ")
        assert output.removesuffix("\n").isprintable()
        assert output.isascii()
        assert len(output) < 200


def make_line(n, tokens=None, **parts):
    """Return a certificate under a mask of n tokens on a line, all of which lead."""
    points = tokens or [[str(i + 1)] for i in range(n)]
    document = {
        "format": certificate_checker.FORMAT,
        "alpha": ["1"],
        "A": None,
        "mask": [[i - 1] if i else [] for i in range(n)],
        "tokens": points,
        "labels": None,
        "layer": 0,
        "sets": [[i] for i in range(n)],
        "changes": [],
        "proofs": [["C1", 0]] * n,
        "positions": points,
        "leaders": list(range(n)),
        "points": points,
        "limits": list(range(n)),
        "weights": [[[i, "1"]] for i in range(n)],
    }
    return {**document, **parts}


def wait(layers, alpha, tokens=2):
    """Return a certificate in which all tokens lead, with proofs at a late layer."""
    proofs = [["C1", layers]] * tokens
    return make_line(
        tokens, layer=layers, changes=[[]] * layers, alpha=alpha, proofs=proofs
    )


LONG = certificate_checker.MAX_CHARACTERS


def make_beyond():
    """Return documents by the reason for which both checkers reject them."""
    step = f"1/{'3' * 40_000}"
    return {
        "a number has more than 100000 characters": make_line(
            1, tokens=[["9" * (LONG + 1)]]
        ),
        "a common denominator has more than 160000 bits": wait(3, [step]),
        "the common denominators of all layers have more than 50000000 bits": wait(
            400, [step, "1"], tokens=1
        ),
        "a mask of lists has more than 50000 tokens": make_line(50_001),
    }


def test_limits_of_documents():
    within = [
        make_line(1, tokens=[["9" * LONG]]),
        wait(5, [f"1/{'3' * 9_000}"]),
        wait(2_000, ["1"]),
        # As many layers as `hm.limit` runs by default, with float steps.
        wait(1_000, [str(Fraction(0.1))], tokens=1),
    ]
    beyond = make_beyond()
    for document in within:
        assert hm.check_certificate(document).accepted
    for reason, document in beyond.items():
        assert str(hm.check_certificate(document)) == f"Rejected: {reason}."
    if certificates.NODE is not None:
        reports = certificates.check_with_node([*within, *beyond.values()])
        reasons = [report["reason"] for report in reports]
        assert reasons == [""] * len(within) + list(beyond)


def test_both_checkers_have_the_same_limits():
    module = certificates.CHECKER.parent / "viewer" / "certificate.js"
    text = module.read_text(encoding="utf-8")
    limits = {
        name: value
        for name, value in vars(certificate_checker).items()
        if name.startswith("MAX_")
    }
    assert len(limits) == 7
    for name, value in limits.items():
        stated = re.search(rf"^const {name} = (.*?)n?;", text, re.MULTILINE)
        assert eval(stated[1]) == value, name


def test_a_chain_with_a_long_alpha_takes_no_long_power():
    run = hm.simulate(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF, exact=True), layers=12)
    alpha = Fraction(1, 400) + Fraction(1, 10**200)
    limit = hm.limit(run.exact(12), hm.Hardmax(alpha))
    assert limit.layer == 1
    assert "chain" in limit.proofs
    certificates.assert_accepted([limit])


def test_a_chain_mask_needs_no_list_of_pairs():
    document = make_line(10_000)
    tracemalloc.start()
    assert hm.check_certificate(document, sample=2).accepted
    assert tracemalloc.get_traced_memory()[1] < 100e6  # all pairs: over 1.6 GB
    tracemalloc.stop()
    tokens = [[str(1000 - i)] for i in range(1000)]
    mask = [[i + 1] for i in range(999)] + [[]]
    backwards = make_line(1000, tokens, mask=mask)
    report = hm.check_certificate(backwards)
    assert (report.accepted, report.inequalities) == (True, 500_500)
    if certificates.NODE is not None:
        script = certificates.check_with_node([backwards])[0]
        assert (script["accepted"], script["inequalities"]) == (True, 500_500)


def test_a_certificate_that_checkers_would_refuse_is_not_written():
    beside = [Fraction(1), Fraction(0)]
    long = [Fraction(1, 2), Fraction(1, 10**49_000)]
    with pytest.raises(hm.InputError, match="common denominators"):
        hm.limit([beside, long], hm.Hardmax(HALF)).certificate()
    shorter = [Fraction(1, 2), Fraction(1, 10**40_000)]
    limit = hm.limit([beside, shorter], hm.Hardmax(HALF))
    assert hm.check_certificate(limit.certificate()).accepted


def test_a_limit_beyond_floats_is_not_restored():
    document = make_line(1, tokens=[["1" + "0" * 400]])
    assert hm.check_certificate(document).accepted
    with pytest.raises(hm.ParameterError, match="document"):
        hm.Limit.from_certificate(document)


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
