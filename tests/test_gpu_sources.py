"""What Triton's keys on disk ask of the sources of GPU kernels, which can be read without Triton."""

import ast
from collections import defaultdict
from pathlib import Path

import hardmax.attention
from hardmax.attention.gpu_compile import MODULES, Request

FOLDER = Path(hardmax.attention.__file__).parent
SOURCES = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("gpu*.py")}


def test_a_constant_has_one_value_in_all_modules():
    """Triton sorts equal names by where they lie in memory, so that a kernel with two of them has no lasting key."""
    values = defaultdict(set)
    for source in SOURCES.values():
        for line in ast.parse(source).body:
            if isinstance(line, ast.AnnAssign) and ast.unparse(line.annotation) == "tl.constexpr":
                values[ast.unparse(line.target)].add(ast.unparse(line.value))
    assert {"BLOCK", "COPIED", "CHUNK"} <= set(values)
    assert {name: found for name, found in values.items() if len(found) > 1} == {}


def test_all_functions_are_hashed_in_one_order():
    """Those of a module come after those of the modules that it imports."""
    compiled = {name for name, source in SOURCES.items() if "@triton.jit" in source}
    assert set(MODULES) == compiled
    for at, name in enumerate(MODULES):
        imported = {
            line.module.rsplit(".", 1)[1]
            for line in ast.parse(SOURCES[name]).body
            if isinstance(line, ast.ImportFrom) and line.module is not None and line.module.startswith("hardmax.")
        }
        assert imported & compiled <= set(MODULES[:at])


def test_a_process_that_cannot_compile_ends():
    process = Request("hardmax.attention.gpu_search", "no such kernel", {}, {}, {}, {}, ("cuda", 90, 32)).begin()
    assert process.wait(60) != 0
