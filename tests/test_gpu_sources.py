"""Sources of GPU kernels, which can be read without Triton."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import hardmax.attention

FOLDER = Path(hardmax.attention.__file__).parent
SOURCES = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("gpu*.py")}


def test_a_constant_has_one_value_in_all_modules():
    """Triton sorts equal names by their addresses, so a kernel with two of them has no
    stable key in the disk cache.
    """
    values = defaultdict(set)
    for source in SOURCES.values():
        for line in ast.parse(source).body:
            if (
                isinstance(line, ast.AnnAssign)
                and ast.unparse(line.annotation) == "tl.constexpr"
            ):
                values[ast.unparse(line.target)].add(ast.unparse(line.value))
    assert {"BLOCK", "TILE", "CHUNK"} <= set(values)
    assert {name: found for name, found in values.items() if len(found) > 1} == {}


def test_kernels_use_public_parts_of_triton_only():
    for source in SOURCES.values():
        assert (
            re.findall(r"triton\.(?:_C|backends|compiler|runtime)|triton\S*\._", source)
            == []
        )
