"""Errors are objects: their parts, their kinds, and how surfaces spell the parameters
that they mention.
"""

import pickle
import re
from pathlib import Path

import pytest

import hardmax as hm
from hardmax._files import check_ending
from hardmax.app.problems import keep_followable, respell, spell_problem
from hardmax.cli import main as command_line
from hardmax.cli import output

pytestmark = pytest.mark.quick

ERROR = hm.ParameterError(
    "alpha",
    "be positive",
    -1,
    "A step of 0.5 is usual. Or pass `mask`. Try `alpha=0.5`.",
)


def as_options(name: str, value: str | None) -> str | None:
    """A surface that has `alpha` alone."""
    return (
        f"--{name}{'' if value is None else f' {value}'}" if name == "alpha" else None
    )


def test_parts_of_an_error():
    assert (ERROR.names, ERROR.must, ERROR.got) == (("alpha",), "be positive", "-1")
    assert str(ERROR).startswith(
        "`alpha` must be positive. Got -1. A step of 0.5 is usual."
    )
    assert (
        str(hm.ParameterError(Path("a/b.csv"), "be there", "nothing"))
        == "`a/b.csv` must be there. Got nothing."
    )
    assert (
        str(hm.ParameterError(("n", "d"), "go together", "one"))
        == "`n` and `d` must go together. Got one."
    )


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        (hm.InputError("Tokens must move. Got none that do."), (ValueError,)),
        (ERROR, (hm.InputError, ValueError)),
        (
            hm.ParameterTypeError("rule", "be a rule", "float"),
            (hm.ParameterError, ValueError, TypeError),
        ),
        (
            hm.ParameterIndexError("k", "be a saved layer", 9),
            (hm.ParameterError, ValueError, IndexError),
        ),
        (hm.MissingExtra("`exact=True`", "python-flint", "exact"), (ImportError,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kinds_and_pickling(error, kinds):
    assert all(isinstance(error, kind) for kind in kinds)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert type(error).__module__ == "hardmax"


def test_a_surface_spells_what_it_has_and_leaves_out_advice_that_it_cannot_follow():
    assert (
        spell_problem(ERROR, as_options)
        == "--alpha must be positive. Got -1. A step of 0.5 is usual. Try --alpha 0.5."
    )
    assert (
        respell("Of `beta`, `alpha` and `f(x)`.", as_options)
        == "Of `beta`, --alpha and `f(x)`."
    )
    assert (
        keep_followable(
            "`alpha` is 1.5. See `f(x)`. 2 is more. `beta` is less.", as_options
        )
        == "--alpha is 1.5."
    )
    assert (
        spell_problem(hm.InputError("See `alpha`, or `beta`."), as_options)
        == "See --alpha, or `beta`."
    )


@pytest.fixture
def options_of():
    """The options of a command, as while it runs."""
    from typer.main import get_command

    return lambda name: output.use_options(
        get_command(command_line.app).commands[name].params
    )


@pytest.mark.parametrize(
    ("command", "mention", "spelled"),
    [
        ("simulate", ("alpha",), "`--alpha`"),
        ("simulate", ("tokens",), "`TOKENS`"),
        ("simulate", ("max_steps", "50"), "`--max-steps 50`"),
        ("verify", ("rtol",), "`--rtol`"),
        ("simulate", ("kernel", '"auto"'), "`--kernel auto`"),
        ("simulate", ("any_A", "True"), "`--any-A`"),
        ("simulate", ("exact", "False"), "no `--exact`"),
        ("simulate", ("normalize", "False"), "`--no-normalize`"),
        ("simulate", ("normalized", "False"), "`--unnormalized`"),
        ("simulate", ("normalized", "True"), "no `--unnormalized`"),
        ("simulate", ("times",), "`--time`"),
        ("simulate", ("times", "np.arange(3)"), None),
        ("simulate", ("mask",), None),
        ("limit", ("layers",), None),
        ("control", ("steer",), "`--limit`"),
        ("train", ("random_state",), "`--seed`"),
    ],
)
def test_the_command_line_spells_parameters_by_its_options(
    options_of, command, mention, spelled
):
    with options_of(command):
        assert output.spell(*mention) == spelled
    assert output.spell("alpha") is None  # no command runs


def test_endings_of_files():
    assert check_ending("a/B.PNG", [".png", ".svg"]) == ".png"
    with pytest.raises(
        hm.ParameterError,
        match=re.escape("`out` must end in one of .a, .b, .c. Got 'noending'."),
    ):
        check_ending("noending", [".a", ".b", ".c"], "out")
