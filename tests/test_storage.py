"""Files: what is written comes back, broken ones get a sentence, and nothing is left half-written."""

import json
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems import clouds, theory
from tests.problems.oracle import sets_of

MATRIX = [[2.0, 0.1], [0.1, 1.0]]
THIRDS = [[Fraction(1, 3), 0], [0, Fraction(2, 3)]]


def runs():
    rng = np.random.default_rng(0)
    plane = clouds.lattice(rng, 8, 2)
    yield "single", hm.simulate(plane, hm.Hardmax(0.1), layers=3)
    yield "batch", hm.simulate(rng.normal(size=(3, 5, 2)), hm.Hardmax(0.5), layers=2)
    masked = np.array([[[1.0, 2.0], [np.nan, 0.0]], [[3.0, 1.0], [-1.0, 0.0]]])
    yield "mask", hm.simulate(masked, hm.Hardmax(0.5), layers=2, mask=[[True, False], [True, True]])
    yield "fractions", hm.simulate(clouds.rational(rng), hm.Hardmax(Fraction(1, 3)), layers=3)
    yield "matrix", hm.simulate(plane, hm.Hardmax(0.5, MATRIX), layers=2)
    yield "exact matrix", hm.simulate(plane, hm.Hardmax(0.5, THIRDS, exact=True), layers=2)
    yield "any matrix", hm.simulate(plane, hm.Hardmax(0.5, [[0, 1], [-1, 0]], any_A=True), layers=2)
    yield "alphas", hm.simulate(plane, hm.Hardmax([0.1, Fraction(1, 3)]), layers=4)
    yield "last", hm.simulate(plane, hm.Hardmax(0.5), layers=4, save="last")
    yield "narrow", hm.simulate(plane.astype(np.float32), hm.Hardmax(0.5), layers=2)
    yield "grown", hm.simulate(plane, hm.Hardmax(1, normalize=False), layers=1030)
    yield "tolerance", hm.simulate(plane, hm.Hardmax(1, ties=0.01), layers=2)


RUNS = dict(runs())


@pytest.mark.parametrize("name", RUNS)
def test_round_trip(name, tmp_path):
    run = RUNS[name]
    run.to_npz(tmp_path / "run.npz")
    back = hm.Trajectory.from_npz(tmp_path / "run.npz")
    assert back.tokens.dtype == run.tokens.dtype
    assert np.array_equal(back.tokens, run.tokens, equal_nan=True)
    assert (repr(back), back.stats, back.saved.tolist()) == (repr(run), run.stats, run.saved.tolist())
    assert (repr(back.rule), back.rule.steps) == (repr(run.rule), run.rule.steps)
    assert np.array_equal(back.rule.matrix, run.rule.matrix)
    assert np.array_equal(back.mask, run.mask)
    assert np.array_equal(back.decided, run.decided)
    pairs = [(back[b], run[b]) for b in range(len(run.clouds))] if run.batched else [(back, run)]
    for one, other in pairs:
        assert one.leaders.tolist() == other.leaders.tolist()
        assert one.emerged.tolist() == other.emerged.tolist()
        assert all(sets_of(one, k) == sets_of(other, k) for k in run.saved.tolist())
        if name not in ("last", "tolerance"):
            assert (one.exact(-1) == other.exact(-1)).all()


@pytest.mark.parametrize("name", RUNS)
def test_json_is_plain(name):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    run = RUNS[name]
    data = json.loads(run.to_json(), parse_constant=refuse)
    first, cloud = (data["clouds"][0], run[0]) if run.batched else (data, run)
    assert data["status"] == run.status
    assert first["leaders"] == cloud.leaders.tolist()
    assert first["sets"][-1] == sets_of(cloud, -1)
    assert data["rule"]["alpha"] == [str(a) for a in run.rule.steps]
    if name in ("mask", "grown"):
        assert None in np.array(first["tokens"], object).ravel().tolist()  # NaN and infinity


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.npz"
    RUNS["single"].to_npz(path)
    return path


SENTENCE = r"must be a trajectory saved with to_npz. Got "


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # NumPy leaves a broken archive open
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_truncated_file(share, saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ValueError, match=SENTENCE):
        hm.Trajectory.from_npz(saved)


def test_foreign_files(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, tokens=np.eye(2))
    with pytest.raises(ValueError, match=SENTENCE + "another kind of archive. Choose another file."):
        hm.Trajectory.from_npz(path)
    np.savez(path, format="hardmax-trajectory-99")
    with pytest.raises(
        ValueError, match=SENTENCE + "the format 'hardmax-trajectory-99'. A newer version of hardmax may read"
    ):
        hm.Trajectory.from_npz(path)
    np.savez(path, format="hardmax-trajectory-1")
    with pytest.raises(ValueError, match=SENTENCE + ".*clouds"):
        hm.Trajectory.from_npz(path)
    with pytest.raises(FileNotFoundError, match=SENTENCE + "no file by that name."):
        hm.Trajectory.from_npz(tmp_path / "missing.npz")
    with pytest.raises(ValueError, match=SENTENCE + "another kind of file"):
        hm.Trajectory.from_npz(tmp_path)


def test_text_file(tmp_path):
    path = tmp_path / "run.npz"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match=SENTENCE) as caught:
        hm.Trajectory.from_npz(path)
    assert "pickle" not in str(caught.value)


def test_array_file(tmp_path):
    np.save(tmp_path / "run.npy", np.eye(2))
    with pytest.raises(ValueError, match=SENTENCE):
        hm.Trajectory.from_npz(tmp_path / "run.npy")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_flipped_bytes_are_harmless_or_get_the_sentence(saved):
    whole = saved.read_bytes()
    for at in range(0, len(whole), 23):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            hm.Trajectory.from_npz(saved)
        except ValueError as error:
            assert "must be a trajectory saved with to_npz" in str(error)  # noqa: PT017  many are harmless


def test_no_code_comes_from_a_file(tmp_path):
    path = tmp_path / "run.npz"
    np.savez(path, format=np.array(["hardmax-trajectory-1", None], object))  # an object array is a pickle
    with pytest.raises(ValueError, match=SENTENCE + ".*allow_pickle=False"):
        hm.Trajectory.from_npz(path)


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


def test_folders_are_made_and_impossible_paths_get_a_sentence(tmp_path):
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=1)
    run.to_npz(tmp_path / "a" / "b" / "run.npz")
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["run.npz"]
    with pytest.raises(OSError, match=r"must be a file that can be written. Got: .*. Choose another path."):
        run.to_npz(tmp_path / "a" / "b" / "run.npz" / "x.npz")


def test_writing_onto_a_folder_gets_a_sentence(tmp_path):
    with pytest.raises(OSError, match=r"must be a file that can be written. Got: .*Choose another path."):
        RUNS["single"].to_npz(tmp_path)
