"""Files of trajectories: round trips, broken files, and writes that fail."""

import dataclasses
import json
import os
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems import theory, token_sets
from tests.problems.oracle import sets_of

pytestmark = pytest.mark.quick

MATRIX = [[2.0, 0.1], [0.1, 1.0]]
THIRDS = [[Fraction(1, 3), 0], [0, Fraction(2, 3)]]


def runs():
    rng = np.random.default_rng(0)
    plane = token_sets.lattice(rng, 8, 2)
    yield "single", hm.simulate(plane, hm.Hardmax(0.1), layers=3)
    yield "batch", hm.simulate(rng.normal(size=(3, 5, 2)), hm.Hardmax(0.5), layers=2)
    masked = np.array([[[1.0, 2.0], [np.nan, 0.0]], [[3.0, 1.0], [-1.0, 0.0]]])
    yield (
        "mask",
        hm.simulate(
            masked, hm.Hardmax(0.5), layers=2, mask=[[True, False], [True, True]]
        ),
    )
    yield (
        "fractions",
        hm.simulate(token_sets.rational(rng), hm.Hardmax(Fraction(1, 3)), layers=3),
    )
    yield "matrix", hm.simulate(plane, hm.Hardmax(0.5, MATRIX), layers=2)
    yield (
        "exact matrix",
        hm.simulate(plane, hm.Hardmax(0.5, THIRDS, exact=True), layers=2),
    )
    yield (
        "any matrix",
        hm.simulate(plane, hm.Hardmax(0.5, [[0, 1], [-1, 0]], any_A=True), layers=2),
    )
    yield "alphas", hm.simulate(plane, hm.Hardmax([0.1, Fraction(1, 3)]), layers=4)
    yield "last", hm.simulate(plane, hm.Hardmax(0.5), layers=4, save="last")
    yield "narrow", hm.simulate(plane.astype(np.float32), hm.Hardmax(0.5), layers=2)
    yield "grown", hm.simulate(plane, hm.Hardmax(3, normalize=False), layers=520)
    yield "causal", hm.simulate(plane, hm.Hardmax(0.5, causal=True), layers=2)


RUNS = dict(runs())


@pytest.mark.parametrize("name", RUNS)
def test_round_trip(name, tmp_path):
    run = RUNS[name]
    run.to_npz(tmp_path / "run.npz")
    back = hm.Trajectory.from_npz(tmp_path / "run.npz")
    assert back.tokens.dtype == run.tokens.dtype
    assert np.array_equal(back.tokens, run.tokens, equal_nan=True)
    assert (repr(back), back.stats, back.saved.tolist()) == (
        repr(run),
        run.stats,
        run.saved.tolist(),
    )
    assert (repr(back.rule), back.rule.steps) == (repr(run.rule), run.rule.steps)
    assert np.array_equal(back.rule.matrix, run.rule.matrix)
    assert np.array_equal(back.mask, run.mask)
    assert np.array_equal(back.decided, run.decided)
    pairs = (
        [(back[b], run[b]) for b in range(len(run.records))]
        if run.batched
        else [(back, run)]
    )
    for one, other in pairs:
        assert one.leaders.tolist() == other.leaders.tolist()
        assert one.emerged.tolist() == other.emerged.tolist()
        assert all(sets_of(one, k) == sets_of(other, k) for k in run.saved.tolist())
        assert (one.exact(-1) == other.exact(-1)).all()


@pytest.mark.parametrize("name", RUNS)
def test_json_is_plain(name):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    run = RUNS[name]
    data = json.loads(run.to_json(), parse_constant=refuse)
    first, one = (data["token_sets"][0], run[0]) if run.batched else (data, run)
    assert data["status"] == run.status
    assert first["leaders"] == one.leaders.tolist()
    assert first["sets"][-1] == sets_of(one, -1)
    alpha = data["rule"]["alpha"]
    assert [
        Fraction(a) for a in (alpha if isinstance(alpha, list) else [alpha])
    ] == list(run.rule.steps)
    if name in ("mask", "grown"):
        assert (
            None in np.array(first["tokens"], object).ravel().tolist()
        )  # NaN and infinity


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.npz"
    RUNS["single"].to_npz(path)
    return path


SENTENCE = r"must be a trajectory saved with to_npz. Got "


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # NumPy leaves a broken archive open
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_truncated_file(share, saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ValueError, match=SENTENCE):
        hm.Trajectory.from_npz(saved)


FOREIGN = {
    "other archive": lambda path: np.savez(path, tokens=np.eye(2)),
    "newer format": lambda path: np.savez(path, format="hardmax-trajectory-99"),
    "no rule": lambda path: np.savez(path, format="hardmax-trajectory-2"),
    "pickle": lambda path: np.savez(
        path, format=np.array(["hardmax-trajectory-2", None], object)
    ),
    "text": lambda path: path.write_text("x,y\n1,2\n"),
    "folder": lambda path: path.mkdir(),
    "array": lambda path: (
        np.save(path.with_suffix(".npy"), np.eye(2)),
        path.with_suffix(".npy").rename(path),
    ),
    "missing": lambda path: None,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_another_file_is_refused_without_running_code(name, tmp_path):
    FOREIGN[name](tmp_path / "run.npz")
    with pytest.raises(
        FileNotFoundError if name == "missing" else ValueError, match=SENTENCE
    ):
        hm.Trajectory.from_npz(tmp_path / "run.npz")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_flipped_bytes_are_harmless_or_refused(saved):
    whole = saved.read_bytes()
    for at in range(0, len(whole), 47):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            hm.Trajectory.from_npz(saved)
        except ValueError as error:
            assert "must be a trajectory saved with to_npz" in str(error)  # noqa: PT017  many are harmless


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(saved, monkeypatch):
    before = saved.read_bytes()

    def half_written(file, **_):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", half_written)
    with pytest.raises(OSError, match="No space left"):
        RUNS["alphas"].to_npz(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["run.npz"]


def test_folders_are_made_and_impossible_paths_are_reported(tmp_path):
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=1)
    run.to_npz(tmp_path / "a" / "b" / "run.npz")
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["run.npz"]
    for path in (tmp_path / "a" / "b" / "run.npz" / "x.npz", tmp_path):
        with pytest.raises(OSError, match="must be a file that can be written"):
            run.to_npz(path)


def spoiled(result, path, **changes):
    """The file of a result with some arrays changed or, for None, left out."""
    result.to_npz(path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays |= {
        name: change(arrays[name]) if callable(change) else change
        for name, change in changes.items()
    }
    np.savez(
        path, **{name: array for name, array in arrays.items() if array is not None}
    )
    return path


CHANGES = {
    "last beyond": lambda a: (
        np.append(a.ravel()[:-1], 1000).astype(a.dtype).reshape(a.shape)
    ),
    "shorter": lambda a: a[:-1],
    "backwards": lambda a: a[::-1],
    "narrow": lambda a: a[..., :1],
    "NaN": lambda a: a * np.nan,
}
HUGE = "1e30000000"
HARD = hm.simulate(
    np.random.default_rng(0).normal(size=(8, 2)), hm.Hardmax(0.1), layers=3
)
TIED = hm.simulate(
    [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0]], hm.Hardmax(1), layers=0
)
FLOW = hm.simulate(
    np.eye(2), hm.SelfAttention(V=np.diag([1.0, 0.5])), times=1, method="euler", dt=0.25
)
SPOILED = [
    *(
        (HARD, name, "last beyond")
        for name in ("0/labels", "0/members", "0/emerged", "0/real")
    ),
    *((HARD, name, "backwards") for name in ("0/real", "saved")),
    *((HARD, name, "shorter") for name in ("0/members", "saved")),
    (HARD, "0/members", lambda a: a.astype(float)),
    (HARD, "0/sizes", lambda a: a * 0),
    (HARD, "0/searched", lambda a: a + 1),
    (HARD, "0/searched_rows", "backwards"),
    (HARD, "0/proof", lambda a: a * 0),
    (HARD, "0/proof", lambda a: a + 3),
    (HARD, "0/settled", lambda a: a - 5),
    (HARD, "0/emerged", lambda a: np.where(a == 0, 1, a)),
    (HARD, "0/emerged", lambda a: np.where(a < 0, 0, a)),
    (HARD, "0/rows", lambda a: a[np.r_[0, 0, 2 : len(a)]]),  # two equal classes
    (HARD, "0/rows", "narrow"),
    (HARD, "0/rows", "NaN"),
    (HARD, "tokens", lambda a: a[0]),
    (HARD, "tokens", "narrow"),
    (HARD, "saved", lambda a: a + 1),
    (HARD, "token_sets", lambda a: 5),
    (HARD, "token_sets", lambda a: 1.5),
    (HARD, "0/rows", lambda a: np.full(a.shape, HUGE)),
    (HARD, "rule", lambda a: str(a).replace("0.1", f'"{HUGE}"')),
    (HARD, "rule", lambda a: '{"rule": "Normalize"}'),
    (HARD, "batched", lambda a: "x"),
    (HARD, "stats", lambda a: "[]"),
    (
        TIED,
        "0/members",
        lambda a: a[np.r_[0, 1, 2, 4, 3, 5]],
    ),  # the members of a set must increase
    *(
        (FLOW, name, "shorter")
        for name in ("real", "rescaled", "start", "powers", "logs")
    ),
    (FLOW, "real", lambda a: ~a),
    (FLOW, "saved", "NaN"),
    (FLOW, "saved", lambda a: np.arange(len(a))),
    (FLOW, "tokens", "narrow"),
]
NAMED = {"tokens": "tokens|rows", "0/rows": f"rows|{HUGE}", "rule": f"rule|{HUGE}"}


@pytest.mark.parametrize(("run", "name", "change"), SPOILED)
def test_every_array_is_checked(run, name, change, tmp_path):
    path = spoiled(run, tmp_path / "run.npz", **{name: CHANGES.get(change, change)})
    named = NAMED.get(name, name.removeprefix("0/"))
    with pytest.raises(ValueError, match=SENTENCE + rf"a broken file \(.*({named})"):
        hm.Trajectory.from_npz(path)


def test_attention_that_was_held_is_checked(tmp_path):
    run = hm.simulate(np.eye(3), hm.SelfAttention(), times=1)
    held = dataclasses.replace(run, held=((0.5, np.eye(3)),))
    held.to_npz(tmp_path / "run.npz")
    assert hm.Trajectory.from_npz(tmp_path / "run.npz").held[0][0] == 0.5
    path = spoiled(held, tmp_path / "run.npz", **{"held/0/attention": lambda a: a[:2]})
    with pytest.raises(ValueError, match="`held/0/attention`"):
        hm.Trajectory.from_npz(path)


def test_files_have_the_mode_of_the_users_mask_at_any_time(tmp_path):
    """The mask belongs to the whole process: asking for it by setting it would let
    other threads write open files.
    """
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "umask", lambda mask: asked.append(mask))
        RUNS["single"].to_npz(tmp_path / "run.npz")
    assert not asked
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            RUNS["single"].to_npz(tmp_path / f"{mask}.npz")
        finally:
            os.umask(before)
        assert (tmp_path / f"{mask}.npz").stat().st_mode & 0o777 == 0o666 & ~mask
