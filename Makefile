# Every command of this project; `make` alone lists them.

BIN := .venv/bin
# Four keep two cores busy: tests wait for servers, leases and timers for much of their time.
WORKERS ?= 4
FUZZ_FRAMES ?= 1000000
FUZZ_REST ?= 20000
FUZZ_FILES ?= 5000
CHAOS_SCHEDULES ?= 10000
LEDGER_LIVES ?= 300
CLUSTER_CHAOS_SECONDS ?= 300
CLUSTER_CHAOS_RUNS ?= 1
LAB_KILLS ?= 200
LAB_MACHINES ?= 200
MIRROR_KILLS ?= 10
# Every run draws a new seed and prints it; CHAOS_SEED and FUZZ_SEED repeat a run.
ifndef CHAOS_SEED
CHAOS_SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
ifndef FUZZ_SEED
FUZZ_SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
SOAK_SECONDS ?= 3600
SOAK_BACKEND ?= all
SOAK_SEED ?=
UV := $(BIN)/uv
COMPILE_GROUP := $(UV) pip compile --universal --python-version 3.11 \
	--no-header --no-emit-index-url --no-annotate --generate-hashes --quiet
COMPILE := $(COMPILE_GROUP) pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help setup demo test check web-types format fuzz chaos soak profile bench lock reference \
	audit sbom

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Prepare this machine and .venv for the other commands (fast when nothing changed)
	@.ci/setup test

demo: ## Start Dragoman and see it work (installs only what it needs)
	@.ci/setup demo
	$(BIN)/dragoman demo

# A file stays with one worker; tests/places.py says in which order the files are handed out. Byte
# code is kept, so that no worker and no process that a test starts compiles what another one has.
test: export PYTHONDONTWRITEBYTECODE =
test: setup ## Run every test
	.ci/web npm run test --silent
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: setup ## Lint, format, types, architecture, documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests benchmarks examples supply_chain
	$(BIN)/lint-imports
	@site=$$(mktemp -d) && trap 'rm -rf "$$site"' EXIT && \
		NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir "$$site"
	@! grep -nvE '^[a-z0-9._-]+==[^ ]+( ; [^\\]+)? \\$$|^    --hash=sha256:[0-9a-f]{64}( \\)?$$' requirements/*.txt || \
		{ echo "requirements must name packages and their hashes only: no options, no addresses"; exit 1; }
	.ci/web npm run types --silent
	.ci/web npm run lint --silent
	@! grep -nE '"resolved"|"https?:.*\.tgz' web/package-lock.json || \
		{ echo "web/package-lock.json must hold no addresses; run: .ci/web lock"; exit 1; }
	@schema=$$(mktemp) && trap 'rm -f "$$schema"' EXIT && .ci/web schema "$$schema" && \
		cmp "$$schema" web/src/api/schema.d.ts || \
		{ echo "the API has changed; run: make web-types"; exit 1; }
	@types=$$(mktemp) && trap 'rm -f "$$types"' EXIT && .ci/web protocol "$$types" && \
		cmp "$$types" clients/typescript/src/protocol.ts || \
		{ echo "the protocol has changed; run: make web-types"; exit 1; }

web-types: setup ## Generate the types of the console and the TypeScript client again
	.ci/web schema web/src/api/schema.d.ts
	.ci/web protocol clients/typescript/src/protocol.ts

format: setup ## Format the code and sort its imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: export DRAGOMAN_FUZZ_SEED = $(FUZZ_SEED)
fuzz: setup ## Send broken frames, requests and files (FUZZ_FRAMES=1000000 FUZZ_REST=20000 FUZZ_FILES=5000 FUZZ_SEED=...)
	@echo "The seed is $(FUZZ_SEED). The same again: make fuzz FUZZ_SEED=$(FUZZ_SEED)"
	$(BIN)/python -m tests.fuzz_frames --count $(FUZZ_FRAMES) --seed $(FUZZ_SEED)
	DRAGOMAN_FUZZ_FRAMES=$(FUZZ_FRAMES) $(BIN)/pytest -n $(WORKERS) --timeout 0 \
		tests/integration/gateway/test_same_on_both_transports.py \
		tests/integration/gateway/test_endpoints_under_fuzz.py
	$(BIN)/python -m tests.fuzz_files --count $(FUZZ_FILES) --seed $(FUZZ_SEED)
	$(BIN)/python -m tests.fuzz_rest --cases $(FUZZ_REST) --seed $(FUZZ_SEED)
	$(BIN)/python -m tests.fuzz_nearly_right --cases $(FUZZ_REST) --seed $(FUZZ_SEED)

chaos: export DRAGOMAN_CHAOS_FIRST_SEED = $(CHAOS_SEED)
chaos: setup ## Break nodes, network, ledger and lab on new schedules (CHAOS_SCHEDULES=10000 CHAOS_SEED=...)
	@echo "The first seed is $(CHAOS_SEED). The same schedules again: make chaos CHAOS_SEED=$(CHAOS_SEED)"
	DRAGOMAN_CHAOS_SCHEDULES=$(CHAOS_SCHEDULES) $(BIN)/pytest -n $(WORKERS) --timeout 0 \
		tests/simulation/test_chaos.py tests/simulation/test_sessions_laws.py \
		tests/simulation/test_cluster_chaos.py tests/simulation/test_cluster_sessions_laws.py \
		tests/simulation/test_cluster_old_dumps.py
	DRAGOMAN_CHAOS_SCHEDULES=$(LEDGER_LIVES) $(BIN)/pytest -n $(WORKERS) --timeout 0 \
		tests/contract/shared/test_laws.py
	DRAGOMAN_CHAOS_SCHEDULES=$(LAB_KILLS) $(BIN)/pytest -n $(WORKERS) --timeout 0 -k kill_at_a_random \
		tests/integration/lab_engine/test_crashes.py tests/integration/lab_engine/test_repetitions.py \
		tests/integration/lab_engine/test_scoring.py
	DRAGOMAN_CHAOS_SCHEDULES=$(LAB_MACHINES) $(BIN)/pytest -n 2 --timeout 0 -k change_nothing \
		tests/integration/lab_engine/test_many_machines.py
	DRAGOMAN_CHAOS_SCHEDULES=$(MIRROR_KILLS) $(BIN)/pytest -n $(WORKERS) --timeout 0 -k kill_9 \
		tests/contract/lab_mirror
	DRAGOMAN_CLUSTER_CHAOS_SECONDS=$(CLUSTER_CHAOS_SECONDS) DRAGOMAN_CLUSTER_CHAOS_SEED=$(CHAOS_SEED) \
		DRAGOMAN_CLUSTER_CHAOS_RUNS=$(CLUSTER_CHAOS_RUNS) $(BIN)/pytest --timeout 0 \
		tests/integration/cluster_chaos
	DRAGOMAN_ROLLING_SESSIONS=200 $(BIN)/pytest -s --timeout 0 tests/integration/rolling_update

soak: setup ## Load servers and a cluster for an hour and check that nothing grows (SOAK_SECONDS=3600 SOAK_BACKEND=all)
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) --backend $(SOAK_BACKEND) \
		$(if $(SOAK_SEED),--seed $(SOAK_SEED))

profile: setup ## Show where a job's calls go, and draw where its time goes (profile.svg)
	$(BIN)/python -m benchmarks profile --svg profile.svg

bench: setup ## Run the benchmarks, with a bare relay and other task queues for comparison
	$(BIN)/python -m benchmarks

reference: setup ## Write the generated pages under docs/reference again
	$(BIN)/python -m dragoman.settings.reference > docs/reference/settings.md
	$(BIN)/python -m dragoman.live.protocol.reference > docs/reference/protocol.md
	$(BIN)/python -m dragoman.cli.redis_keys > docs/reference/redis-keys.md
	$(BIN)/python -m dragoman.observability.reference > docs/reference/metrics.md
	$(BIN)/python -m dragoman.api.reference > docs/reference/rest.md
	$(BIN)/python -m dragoman.cli.reference > docs/reference/cli.md
	$(BIN)/python -m dragoman.cli.python_reference > docs/reference/python.md
	$(BIN)/python -m supply_chain.licences > docs/reference/licences.md

audit: setup ## Look up known weaknesses of every package; fails where there is no data
	$(BIN)/python -m supply_chain.audit

sbom: setup ## Write a bill of materials of what an installation has (CycloneDX, sbom.cdx.json)
	$(BIN)/python -m supply_chain.sbom sbom.cdx.json

lock: setup ## Write requirements/*.txt and web/package-lock.json again
	$(COMPILE) --extra all --output-file requirements/all.txt
	$(COMPILE) --constraint requirements/all.txt --extra all --group dev --output-file requirements/dev.txt
	$(COMPILE) --constraint requirements/all.txt --extra local --extra vad --output-file requirements/demo.txt
	for group in build uv web; do \
		$(COMPILE_GROUP) --constraint requirements/dev.txt --group $$group --output-file requirements/$$group.txt || exit; \
	done
	.ci/web lock
