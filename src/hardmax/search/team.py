"""Compiled code in the threads of the OpenMP that torch has loaded, for calls between operations of torch.

After each operation torch's threads spin for a while, in case there is another one. Threads of our own would have to
share the cores with them; torch's own begin at once. Where there is no OpenMP, or little to do, one thread does it all.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

import ctypes
import os
from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from hardmax._types import IntArray
from hardmax.search.threads import share
from hardmax.search.vectors import for_llvm, int64, intrinsic

ALONE = 2e6  # multiplications up to which one thread is done before others have begun
START, THREADS, TASKS, DONE, JOINED, PARTS = range(6)  # what a team has: the last are the next tasks of all parts
_PROCESS = os.getpid()


@cache
def _start() -> int:
    """The address of `GOMP_parallel(function, data, threads, flags)`, which calls function(data) in so many threads."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):  # none was loaded for all to see, or this is another system
        return 0


def _starter(threads: int, tasks: int, effort: float) -> int:
    """What starts so many threads for some work; 0 where none shall be started.

    After a fork OpenMP would wait for threads that only the first process has.
    """
    several = threads > 1 and tasks > 1 and effort > ALONE
    return _start() if several and os.getpid() == _PROCESS else 0


def gather(work: Callable[[IntArray], None], threads: int, tasks: int, effort: float) -> int:
    """Do work that takes its tasks by `taken` in threads of OpenMP; where there is none, in those of `share`.

    Returns how many tasks are left, which nobody has counted as `done`.
    """
    team = np.zeros(PARTS + threads, np.int64)
    start = _starter(threads, tasks, effort)
    team[START], team[THREADS], team[TASKS] = start, threads, tasks
    if start:
        work(team)
    else:
        share(lambda some: work(team), tasks, effort)
    return tasks - int(team[DONE])


@njit
def join(team: IntArray) -> int:
    """Become a member of a team: which part of the tasks, as many as there are threads, is one's own."""
    return counted(team, JOINED) % team[THREADS]


@njit
def taken(team: IntArray, own: int) -> int:
    """Take a task that no other thread of the team has, of one's own part as long as there is one; -1 for none.

    Threads join about in their order, and torch gives the first one the first part of an array: its caches hold it.
    """
    threads, tasks = team[THREADS], team[TASKS]
    for k in range(threads):
        part = (own + k) % threads
        task = part * tasks // threads + counted(team, PARTS + part)
        if task < (part + 1) * tasks // threads:
            return task
    return -1


@njit
def done(team: IntArray) -> None:
    """Count a task that is done."""
    counted(team, DONE)


@for_llvm(int64, None, int64)
def counted(builder, team, place):
    """Add one to a number of all threads; what it was before."""
    return builder.atomic_rmw("add", builder.gep(team, [place]), place.type(1), "monotonic")


@intrinsic
def together(typing, work, arguments, team):
    """Call work(*arguments) in every thread of a team. What it raises is lost: it must tell by what it writes."""
    chosen = work.get_call_type(typing, tuple(arguments), {})

    def body(context, builder, signature, args):
        compiled, opaque = work.dispatcher.get_compile_result(chosen), ir.IntType(8).as_pointer()
        context.active_code_library.add_linking_library(compiled.library)
        kind = ir.FunctionType(ir.VoidType(), [opaque])
        member = ir.Function(builder.module, kind, builder.module.get_unique_name("member"))
        member.linkage = "internal"
        inside = ir.IRBuilder(member.append_basic_block())
        given = cgutils.alloca_once_value(builder, args[1])
        values = cgutils.unpack_tuple(inside, inside.load(inside.bitcast(member.args[0], given.type)))
        context.call_internal_no_propagate(inside, compiled.fndesc, chosen, values)
        inside.ret_void()
        numbers = context.make_array(team)(context, builder, value=args[2]).data
        start, threads = (builder.load(builder.gep(numbers, [ir.IntType(64)(i)])) for i in range(2))
        data = builder.bitcast(given, opaque)
        with builder.if_else(cgutils.is_not_null(builder, start)) as (several, alone):
            with several:
                count = builder.trunc(threads, ir.IntType(32))
                call = ir.FunctionType(ir.VoidType(), [kind.as_pointer(), opaque, count.type, count.type])
                builder.call(builder.inttoptr(start, call.as_pointer()), [member, data, count, count.type(0)])
            with alone:
                builder.call(member, [data])
        return context.get_dummy_value()

    return types.void(work, arguments, team), body
