# Commands of a developer. `just` runs them (https://just.systems); each line also runs by itself in a shell.

# Lint, types, import rules and the unit tests that open no store: a minute, no server.
quick:
    uv run ruff check .
    uv run ruff format --check .
    uv run mypy
    uv run lint-imports
    uv run pytest tests/unit --ignore tests/unit/warehouse --ignore tests/unit/flows -m "not slow and not rare and not neo4j"

# Everything, with every server it needs: the test command of README.md.
all:
    uv run pytest

# Breaks one line at a time and runs the nearest tests; what survives was not tested. `just mutants 'polyhop.worker.ranking.bm25.*'`
# runs one module; the folder mutants/ keeps results, so that a second run goes on where the first one ended.
mutants pattern='*':
    NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=mutants nice -n 19 uv run --with mutmut==3.8.1 mutmut run --max-children 1 '{{pattern}}'
    uv run --with mutmut==3.8.1 mutmut results

# Fuzzes `polyhop ui` and `polyhop mcp` for so many minutes; a fault is a missing reply, a 5xx or words of a library.
fuzz minutes='30':
    uv run python tests/support/fuzz_servers.py --minutes {{minutes}}
