# Two commands: `make demo` and `make test`. Each works alone on a fresh clone; the first run makes .venv.
PYTHON ?= python3
GPU_PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip install -q --disable-pip-version-check
TEST := $(BIN)/python -m pytest -n 2 --dist worksteal -q  # a worker without tests takes some of the other's

# Files with tests of a marker. Other files take time to import, or import packages that are not installed.
marked = $(shell grep -rl --include='*.py' 'mark\.$(1)\b' tests)

# Other Pythons that this version may run on: by name, or where pyenv keeps them.
PYTHONS := $(foreach name,python3.12 python3.13 python3.14,$(shell command -v $(name) 2>/dev/null)) \
	$(wildcard $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python)

.PHONY: demo check test lint types compiled pytest test-slow test-exhaustive test-certificates test-blas test-machines test-oldest test-pythons test-wheel try-wheel release \
	docs docs-open test-docs app screenshots test-gpu bench bench-gpu proofs clean

demo: .venv/installed
	$(BIN)/hardmax demo --out demo

# For every commit: about a minute.
check: lint types
	$(TEST) -m "quick and not slow" $(call marked,quick)

test: .venv/installed
	$(MAKE) --no-print-directory -j3 -O lint types compiled
	$(MAKE) --no-print-directory pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/installed
	$(BIN)/mypy

# Compile once: two test workers would compile the same functions at the same time.
compiled: .venv/installed
	$(BIN)/hardmax compile

pytest: .venv/installed
	$(TEST) -m "not slow and not site"

test-slow: .venv/installed
	$(TEST) -m "slow and not exhaustive and not site"

# More seeds and sizes of the properties that `make test` tests with some.
test-exhaustive: .venv/installed
	$(TEST) -m exhaustive

# Both checkers on the certificate of every certified limit that tests of limits make; Node.js runs the one in JavaScript.
test-certificates: .venv/installed
	$(TEST) --certificates -m "not slow and not site" $(shell grep -rlE --include='test_*.py' 'hm[.]limit|CausalLimit' tests)

# As if on other processors, on which OpenBLAS and torch round differently: one without AVX, and one without AVX-512.
test-blas: .venv/installed
	OPENBLAS_CORETYPE=Prescott OPENBLAS_NUM_THREADS=1 ATEN_CPU_CAPABILITY=default \
		$(TEST) -m "portable and not slow" $(call marked,portable)
	OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=2 ATEN_CPU_CAPABILITY=avx2 $(TEST) -m "portable and not slow" $(call marked,quick)

# The same, with kernels compiled for a processor without AVX: they are compiled again, which takes minutes.
test-machines: .venv/installed
	OPENBLAS_CORETYPE=Prescott OPENBLAS_NUM_THREADS=1 NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= ATEN_CPU_CAPABILITY=default \
		$(TEST) -m "portable and not slow" $(call marked,portable)

# With the oldest versions that pyproject.toml allows; `make test` has the newest.
test-oldest: .venv-oldest/installed
	.venv-oldest/bin/python -m pytest -n 2 -q -m "(quick or portable) and not slow" $(call marked,quick) $(call marked,portable)

.venv-oldest/installed: pyproject.toml constraints.txt tests/oldest.py
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) tests/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python $(PIP) -c .venv-oldest/constraints.txt -e '.[app,cluster,control,exact,fast,movies,scale,text]' \
		pytest pytest-timeout pytest-xdist hypothesis
	touch $@

# On every other Python at hand, without torch, of which there may be no small build for it.
test-pythons:
	@seen=""; for python in $(PYTHONS); do \
		version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
		case " $$seen " in *" $$version "*) continue;; esac; \
		seen="$$seen $$version"; echo "Python $$version"; \
		rm -rf .venv-other && $$python -m venv .venv-other && \
		.venv-other/bin/python $(PIP) -e '.[control,exact,fast]' pytest pytest-timeout pytest-xdist hypothesis && \
		.venv-other/bin/python -m pytest -n 2 -q -m "portable and not slow" $(call marked,portable) || exit 1; \
	done; echo "Other Pythons at hand:$${seen:- none}"

# The wheel in an environment of its own, without extras and away from the source.
test-wheel:
	rm -rf dist
	$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps --wheel-dir dist .
	$(MAKE) --no-print-directory try-wheel

try-wheel:
	rm -rf .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python $(PIP) dist/*.whl
	cd dist && ../.venv-wheel/bin/python ../tests/wheel.py

# All of a release except the upload: the archive and the wheel made from it, checked, and the wheel tried by itself.
release: .venv/installed
	$(BIN)/python $(PIP) build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(MAKE) --no-print-directory try-wheel

# The site in site/. A second run repeats only the examples that changed; `make clean` removes their results.
docs: .venv/docs
	MPLBACKEND=Agg $(BIN)/sphinx-build -q -W --keep-going -d site/.doctrees docs site

docs-open: docs
	$(BIN)/python -m webbrowser -t "file://$(CURDIR)/site/index.html"

# The site in a browser: no request to another host, links, search, and axe in two colour schemes and widths.
test-docs: docs
	$(TEST) -m site $(call marked,site)

.venv/docs: .venv/installed
	$(BIN)/python $(PIP) -c constraints.txt -e '.[docs]'
	touch $@

app: .venv/installed
	$(BIN)/hardmax app

# The pictures of the app in the docs; they need Chromium.
screenshots: .venv/installed
	$(BIN)/python -m studies.screenshots

# On a machine with a GPU, with its own Python: torch, Triton, pytest and what `import hardmax` needs.
test-gpu:
	PYTHONPATH=src $(GPU_PYTHON) -m pytest -n 4 -m gpu -p no:benchmark $(call marked,gpu)

bench-gpu:
	PYTHONPATH=src $(GPU_PYTHON) -m benchmarks.gpu benchmarks/results/gpu.json benchmarks/README.md

# On both kinds of machine: the processor as it is, and without AVX-512.
bench: .venv/installed
	$(BIN)/python -m benchmarks --out benchmarks/results/cpu.json --markdown benchmarks/README.md
	$(BIN)/python -m benchmarks --avx2 --out benchmarks/results/cpu.json --markdown benchmarks/README.md

# Formal proofs of the certificates. Coq prints each statement and the axioms that its proof uses; there must be none.
proofs:
	@command -v coqc > /dev/null || \
		{ echo "coqc is missing. Install the Debian packages coq and libcoq-mathcomp-algebra."; exit 1; }
	@cd proofs && printed=$$(coqc -q -w -notation-overridden,-ambiguous-paths Hardmax.v) && echo "$$printed" && \
		if echo "$$printed" | grep -q '^Axioms:'; then echo "A proof uses axioms."; exit 1; fi

clean:
	rm -f proofs/*.vo proofs/*.vok proofs/*.vos proofs/*.glob proofs/.*.aux
	rm -rf .venv .venv-oldest .venv-other .venv-wheel demo dist site figures \
		docs/gallery docs/static/live docs/static/mathjax docs/reference/command-line.md

# Made again when what is installed changes; an editable install follows the source by itself.
.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -c constraints.txt -e '.[test]'
	touch $@
