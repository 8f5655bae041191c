"""Compiles Triton kernels in processes of their own, at the same time: Triton compiles in one thread after another.

Each process leaves its machine code in Triton's folder on disk and ends, and whoever waits for it loads that. If one
fails, or if another Triton does not know what is asked of it here, the kernel is compiled where it is launched.
"""

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

OTHER_TRITON = AttributeError, ImportError, KeyError, TypeError  # what one raises that is built in another way
MODULES = "gpu_keys", "gpu_duplicates", "gpu_exact", "gpu_decide", "gpu_search", "gpu_rows", "gpu_gradient"
_LOCK = threading.Lock()  # Triton has one hook for all threads


def can_begin() -> bool:
    """Whether there is a Python to be started: not where a program has one built in, which would start itself."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


@cache
def settle_keys() -> None:
    """Have Triton hash all functions in one order: what it calls a kernel on disk depends on those it met before."""
    with suppress(AttributeError):
        for module in MODULES:
            for function in vars(import_module(f"hardmax.attention.{module}")).values():
                if hasattr(function, "used_global_vals"):
                    _ = function.cache_key


class Request(NamedTuple):
    """What a kernel is compiled for, in Triton's words."""

    module: str
    name: str
    signature: dict[str, Any]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    options: dict[str, Any]
    target: tuple[Any, ...]

    def source(self) -> Any:
        """The kernel with the types of its arguments."""
        from triton.compiler import ASTSource

        kernel = getattr(import_module(self.module), self.name)
        return ASTSource(kernel, self.signature, self.constants, self.attributes)

    def compile(self) -> None:
        """Write the machine code to disk; no GPU is needed for it, nor torch."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler import compile

        compile(self.source(), target=GPUTarget(*self.target), options=self.options)

    def is_on_disk(self) -> bool:
        """Whether that has been done before."""
        from triton._C.libtriton import get_cache_invalidating_env_vars
        from triton.backends.compiler import GPUTarget
        from triton.compiler import make_backend
        from triton.runtime.cache import get_cache_key, get_cache_manager

        source, backend = self.source(), make_backend(GPUTarget(*self.target))
        key = get_cache_key(source, backend, backend.parse_options(self.options), get_cache_invalidating_env_vars())
        name = f"{source.name[:150]}.json"
        return name in (get_cache_manager(sha256(key.encode()).hexdigest()).get_group(name) or {})

    def begin(self) -> "subprocess.Popen[bytes]":
        """Compile it in a process of its own."""
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        call = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
        process = subprocess.Popen(
            call, env=os.environ | {"PYTHONPATH": paths}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        with process.stdin as given:
            pickle.dump(self, given)
        threading.Thread(target=process.wait, daemon=True).start()  # nobody else may wait for it
        return process


def main() -> None:
    """Compile what is asked for on standard input."""
    settle_keys()
    request: Request = pickle.load(sys.stdin.buffer)
    request.compile()


def request_of(kernel: Any, ask: Callable[[], Any]) -> Request | None:
    """What Triton would compile `kernel` for when it is asked to; None if it has done so in this process."""
    from triton import knobs
    from triton.runtime import driver

    found: list[Request] = []
    here, target = threading.get_ident(), driver.active.get_current_target()

    def hook(*, fn: Any, compile: dict[str, Any], **rest: Any) -> Any:
        if threading.get_ident() != here or fn.jit_function is not kernel:  # is not asked for here
            return None if before is None else before(fn=fn, compile=compile, **rest)
        options = json.loads(compile["specialization_data"])["options"].items()
        found.append(Request(
            fn.module, fn.name, compile["signature"], compile["constants"], compile["configs"][0],
            {key: tuple(value) if isinstance(value, list) else value for key, value in options},
            (target.backend, target.arch, target.warp_size),
        ))  # fmt: skip
        return True  # do not compile

    with _LOCK:
        before = knobs.runtime.jit_cache_hook
        knobs.runtime.jit_cache_hook = hook
        try:
            ask()
        finally:
            knobs.runtime.jit_cache_hook = before
    return found[0] if found else None
