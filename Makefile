# Everything runs in .venv, made from the constraints file on first use.
PYTHON ?= python3
BIN := .venv/bin
# A process reads what another has compiled, whatever the machine says.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test suite test-service test-docs test-research test-all test-learn nightly proofs lint picture reference sbom lock release figures bench peers mutate reproduce docs paper clean

run: .venv/core
	$(BIN)/dpi demo --folder out

PYTEST = $(BIN)/python -m pytest -q -n auto
SERVICE := tests/service tests/agents tests/engine tests/sources tests/cli tests/report tests/display tests/discovery \
    packages/spark $(patsubst %,tests/store/test_%.py,faults interruption key_change kill two_writers)
BOOK := tests/docs tests/examples tests/tools tests/test_install_hints.py tests/test_platforms.py tests/test_wheel.py README.md
RESEARCH := packages/research packages/audit tests/apps tests/theory tests/estimator/test_filter.py \
    tests/mechanism/test_estimator.py tests/mechanism/class_estimator/test_slot.py tests/stream/test_long_lives.py

# The core. Types are checked on the processor that waits while the other collects tests.
test: .venv/dev
	$(MAKE) --no-print-directory -j 2 lint suite

suite: .venv/dev
	$(PYTEST) $(addprefix --ignore=,$(SERVICE) $(BOOK) $(RESEARCH))

# What CI runs besides: commands, service, sources, engines, pages and crashes; the book, examples and packaging; research,
# the audit and long streams.
test-service: .venv/dev
	$(PYTEST) $(SERVICE)

test-docs: .venv/dev
	$(PYTEST) $(BOOK)

test-research: .venv/dev
	$(PYTEST) $(RESEARCH)

# Everything: long forms, the page in a browser, servers, Spark (half a gigabyte and a Java). What is missing is skipped, and said.
test-all: .venv/spark
	DPI_SLOW=1 $(PYTEST)

# Ten steps of training, and numpy beside JAX: it needs the extra `learn`, half a gigabyte.
test-learn: .venv/learn
	$(BIN)/python -m pytest -q -n0 packages/research/tests/learn/test_training.py tests/estimator/test_filter.py

# Hours: properties alone, with examples that no run had before. What fails stays in .hypothesis, and is tried first the next time.
nightly: .venv/dev
	DPI_SLOW=1 DPI_EXAMPLES=nightly $(BIN)/python -m pytest -q -n auto -m hypothesis $(NIGHTLY) || { \
	    echo 'Put each "Failing test case" above into the tests: CONTRIBUTING.md, "Examples that were found".'; exit 1; }

# Coq checks the theorems of proofs/, and the running ledger is compared with the proved one. Says so where there is no Coq.
proofs: .venv/dev
	$(BIN)/python tools/proofs.py --install
	DPI_PROOFS=1 $(BIN)/python -m pytest -q -rs tests/proofs/test_coq.py tests/proofs/test_crash_protocol.py \
	    tests/proofs/test_doors.py tests/proofs/test_model.py tests/proofs/test_sampler.py tests/proofs/test_stores.py

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

picture: .venv/dev
	$(BIN)/python tools/rooms.py

# docs/cli.md, when an option has come, gone or changed.
reference: .venv/dev
	$(BIN)/python tools/options.py

# deploy/helm, when a manifest of deploy/kubernetes has changed.
chart: .venv/dev
	$(BIN)/python tools/chart.py

# What a core install holds: deploy/sbom.cdx.json.
sbom: .venv/release
	$(BIN)/python tools/sbom.py

# What a service needs, with the hashes of all its files: deploy/locked.txt. Options of an index come from uv's own settings.
lock: .venv/release
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --universal --python-version 3.11 \
	    -c constraints.txt --extra service --extra postgres --extra oidc -o deploy/locked.txt pyproject.toml

# dist/: packages built twice to equal bytes, checksums, bill of materials, provenance; wheels tried on each Python that is there.
# What is missing is said first, and nothing is built then, but for RELEASE=--rehearse.
release: .venv/release
	$(BIN)/python tools/release.py $(RELEASE)

# Hours, in one process; MUTATE names modules and options, such as MUTATE="budget/accounts.py --sample 50".
mutate: .venv/dev
	nice -n 10 $(BIN)/python benchmarks/mutation.py --report out/mutation.json $(MUTATE)

reproduce: .venv/reproduce
	$(BIN)/dpi reproduce all

# Writes figures into pages, and says which are older than what they depend on, and what it takes to measure them; NAMES="…" measures, NAMES=stale all of them.
# Brokers need their servers, the page a Chromium, Spark a Java, and the service a PostgreSQL; peers are made by `make peers`.
figures: .venv/$(if $(NAMES),bench,core) $(if $(filter spark stale,$(NAMES)),.venv/spark)
	$(BIN)/python -W ignore tools/results.py $(NAMES)

SPEED := performance- whole-release huge- endurance small-slots files- brokers start

# docs/performance.md, on a machine that does nothing else.
bench: .venv/bench peers
	$(BIN)/python -W ignore tools/results.py $(basename $(notdir $(wildcard $(SPEED:%=results/%*.json))))

# An environment for each library beside ours; says which of them this machine cannot have.
peers: .venv/bench
	$(BIN)/python benchmarks/peers/install.py

# The technical report, out/paper.pdf: docs/paper with the figures of results/. Typst is one wheel.
paper: .venv/paper
	$(BIN)/python -W ignore tools/paper.py

# The site, and how long its pages and sentences are.
docs: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -q -j auto -b html docs site
	cd site && $(CURDIR)/$(BIN)/python -m zipfile -c ../site.zip .
	$(BIN)/python tools/reading.py

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) -e '.[plot,parquet]'
	touch $@

.venv/dev: .venv/core packages/audit/pyproject.toml packages/research/pyproject.toml
	$(INSTALL) -e '.[test,lint,service,page,brokers,mcp,lineage]' -e packages/audit -e packages/research
	$(INSTALL) --no-deps -e packages/spark
	touch $@

.venv/learn: .venv/dev
	$(INSTALL) -e 'packages/research[learn]'
	touch $@

.venv/spark: .venv/dev
	$(INSTALL) -e '.[delta,cluster]' duckdb -e packages/spark
	touch $@

.venv/reproduce: .venv/core
	$(INSTALL) -e . -e packages/audit -e packages/research
	touch $@

.venv/bench: .venv/core
	$(INSTALL) -e '.[bench,brokers,page,service]' -e packages/audit -e packages/research
	touch $@

.venv/docs: .venv/core
	$(INSTALL) -e '.[docs]' -e packages/audit -e packages/research
	touch $@

.venv/paper: .venv/core
	$(INSTALL) -e '.[paper]' -e packages/audit
	touch $@

.venv/release: .venv/core
	$(INSTALL) -e '.[release]'
	touch $@

clean:
	rm -rf .venv benchmarks/peers/.venv-* site site.zip jupyter_execute out .mypy_cache .ruff_cache .pytest_cache .hypothesis
