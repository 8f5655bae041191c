# Two commands: `make demo` and `make test`. Each works alone on a fresh clone; the first run makes .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types pytest docs bench clean

demo: .venv/installed
	$(BIN)/hardmax demo --out demo

test: lint types pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

pytest: .venv/installed
	$(BIN)/python -m pytest -n 2

docs: .venv/installed
	$(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

bench: .venv/installed
	$(BIN)/hardmax bench --out benchmarks/results/cpu.json --markdown benchmarks/README.md

clean:
	rm -rf .venv demo site figures

# The mark is renewed when what is installed changes; an editable install follows the source by itself.
.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@
