"""How many sums the registers hold of the processor that numba compiles for, which need not be the one it runs on."""

# mypy: allow-untyped-calls

from functools import cache

from llvmlite import binding, ir
from numba.core.registry import cpu_target

from hardmax._private_apis import may_use_private

LANES = 16  # numbers of one sum: one cache line of float32


def numbers_in_register(triple: str, cpu: str, features: str) -> int:
    """How many float32 a register holds, by what LLVM makes of 16 lanes: the name of a processor does not tell."""
    module, lanes = ir.Module(), ir.VectorType(ir.FloatType(), LANES)
    twice = ir.Function(module, ir.FunctionType(ir.VoidType(), [lanes.as_pointer()]), "twice")
    builder = ir.IRBuilder(twice.append_basic_block())
    once = builder.load(twice.args[0])
    builder.store(builder.fadd(once, once), twice.args[0])
    builder.ret_void()
    module.triple = triple
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features)
    trial = machine.emit_assembly(binding.parse_assembly(str(module)))
    return 16 if "%zmm" in trial else 8 if "%ymm" in trial else 4


@cache
def sums_at_once() -> int:
    """How many sums of 16 lanes stay in registers, beside 16 numbers, one that is everywhere, and their product."""
    triple, width = binding.get_process_triple(), 8  # without private names of numba; matters for speed only
    if may_use_private("numba"):
        triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
        width = numbers_in_register(triple, cpu, features)
    registers = 16 if width < 16 and triple.startswith("x86") else 32
    each = LANES // width
    return min(LANES, (registers - each - 2) // each)
