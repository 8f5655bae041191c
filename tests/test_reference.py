"""The reference documents every public name with all sections, and the versions of the
code.
"""

import inspect
import re
import shlex
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from numpydoc.docscrape import ClassDoc, FunctionDoc

import hardmax as hm
from hardmax.cli.main import app
from hardmax.text import storage, training
from hardmax.trajectories.base import Trajectory
from tests.test_docs import run_examples

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PLACE = re.compile(r"^ *\.\. (?:auto\w+|py:data):: (hardmax\.\S+)", re.MULTILINE)
MADE = "command-line.md"
PAGES = [page for page in sorted(REFERENCE.glob("*.md")) if page.name != MADE]
sys.path.append(str(REFERENCE.parent))
read: Callable[[Path], str] = import_module(
    "extensions.reference"
).read  # with a section for each name
PLACES = [name for page in PAGES for name in PLACE.findall(read(page))]
PACKAGES = ("control", "draw", "rules", "scale", "text", "theorems", "transformers")


def resolve(path: str) -> Any:
    """Return the object of a public path; functions come before modules of the same
    name.
    """
    thing: Any = hm
    for depth, part in enumerate(path.split(".")[1:], 2):
        thing = getattr(thing, part, None) or import_module(
            ".".join(path.split(".")[:depth])
        )
    return thing


def public() -> dict[str, Any]:
    names = {
        f"hardmax.{name}": getattr(hm, name)
        for name in dir(hm)
        if not name.startswith("_")
    }
    for package in PACKAGES:
        module = import_module(f"hardmax.{package}")
        names |= {
            f"hardmax.{package}.{name}": getattr(module, name)
            for name in module.__all__
        }
    return {
        path: thing
        for path, thing in names.items()
        if not isinstance(thing, ModuleType)
    }


CALLABLE = [path for path in PLACES if callable(resolve(path))]
FUNCTIONS = [path for path in CALLABLE if not inspect.isclass(resolve(path))]
CLASSES = [path for path in CALLABLE if inspect.isclass(resolve(path))]


def named(section: Any) -> list[str]:
    """Return the names of a section of a docstring."""
    return [name.lstrip("*") for entry in section for name in entry.name.split(", ")]


def test_every_public_name_is_documented_once() -> None:
    assert len(set(PLACES)) == len(PLACES)
    documented = [resolve(path) for path in PLACES]
    assert [
        path
        for path, thing in public().items()
        if not any(thing is other for other in documented)
    ] == []


def test_the_entry_page_lists_all_of_them() -> None:
    listed = re.findall(
        r"^ +(hardmax\.\S+)$", read(REFERENCE / "index.md"), re.MULTILINE
    )
    assert listed == [path for path in listed if path in CALLABLE]
    assert sorted(listed) == sorted(CALLABLE)


@pytest.mark.parametrize("path", CALLABLE)
def test_examples_of_the_gallery_are_linked(path: str) -> None:
    assert any(f".. minigallery:: {path}\n" in read(page) for page in PAGES)


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions_document_parameters_and_results(path: str) -> None:
    function = resolve(path)
    document, signature = FunctionDoc(function), inspect.signature(function)
    assert document["Summary"]
    assert named(document["Parameters"]) == list(signature.parameters)
    assert bool(document["Returns"]) == (signature.return_annotation is not None)
    assert document["Examples"]


@pytest.mark.parametrize("path", CLASSES)
def test_classes_document_parameters_and_attributes(path: str) -> None:
    kind = resolve(path)
    document = ClassDoc(kind)
    assert document["Summary"]
    assert document["Examples"]
    listed_names = {*named(document["Parameters"]), *named(document["Attributes"])}
    if issubclass(kind, Trajectory):
        listed_names |= set(named(ClassDoc(Trajectory)["Attributes"]))
    if (
        not issubclass(kind, Exception | str | list)
        and kind.__init__ is not object.__init__
    ):
        takes = [name for name in _parameters(kind) if not name.startswith("_")]
        assert [name for name in takes if name not in listed_names] == []
    assert [
        name for name in named(document["Parameters"]) if name not in _parameters(kind)
    ] == []


def _parameters(kind: type) -> list[str]:
    try:
        return [
            name
            for name in inspect.signature(kind).parameters
            if name not in ("args", "kwargs")
        ]
    except ValueError:
        return []


@pytest.mark.parametrize("path", CLASSES)
def test_methods_and_properties_have_a_sentence(path: str) -> None:
    kind = resolve(path)
    for name, member in inspect.getmembers_static(kind):
        own = (
            getattr(member, "__func__", None)
            or getattr(member, "fget", None)
            or getattr(member, "func", member)
        )
        if name.startswith("_") or not str(getattr(own, "__module__", "")).startswith(
            "hardmax"
        ):
            continue
        sentences = [
            inspect.getdoc(vars(base)[name])
            for base in kind.__mro__
            if name in vars(base)
        ]
        assert any(sentences), name


def _is_wrapped(path: str) -> bool:
    thing = resolve(path)
    return inspect.isfunction(thing) and inspect.unwrap(thing) is not thing


@pytest.mark.parametrize("path", [path for path in FUNCTIONS if _is_wrapped(path)])
def test_examples_of_decorated_functions_run(path: str) -> None:
    """Run those that the collection of doctests leaves out."""
    run_examples(inspect.getdoc(resolve(path)) or "", path)


def test_versions_of_files_are_those_of_the_code() -> None:
    page = (REFERENCE / "file-formats.md").read_text(encoding="utf-8")
    table = page.partition("| what |")[2].partition("\n\n")[0]
    listed_names = {
        version
        for row in table.splitlines()[2:]
        for version in re.findall(r"`(hardmax-[\w-]+)`", row)
    }
    sources = (
        path.read_text(encoding="utf-8")
        for path in Path(hm.__file__).parent.rglob("*.py")
    )
    formats = {
        name
        for source in sources
        for name in re.findall(r'"(hardmax-[\w-]+-\d+)"', source)
    }
    assert listed_names == formats | {storage.FORMAT, training.CHECKPOINT_FORMAT}
    assert f"`{storage.FORMAT}`, version {storage.VERSION} |" in table


def commands(group: Any, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    inside = [((*words, name), command) for name, command in group.commands.items()]
    return [
        pair
        for path, one in inside
        for pair in (
            [(path, one)] if not hasattr(one, "commands") else commands(one, path)
        )
    ]


@pytest.mark.parametrize(
    ("path", "command"), commands(typer.main.get_command(app), ("hardmax",))
)
def test_commands_have_a_sentence_and_an_example_that_parses(
    path: tuple[str, ...], command: Any
) -> None:
    assert command.help
    assert command.help.partition("\n\n")[0].endswith(".")
    words = shlex.split(command.epilog.removeprefix("Try: "))
    assert words[: len(path) - 1] == list(path[:-1])
    command.make_context(path[-1], words[len(path) :])
    assert [
        one.name for one in command.params if one.name != "help" and not one.help
    ] == []
