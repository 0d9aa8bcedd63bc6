# Everything a developer or CI runs. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
REQUIREMENTS := $(VENV)/.requirements
PROJECT := $(VENV)/.project
KERNELS := $(VENV)/.kernels
# Besides PYTHON; the tests of planning run on each that is here.
PYTHONS ?= 3.12 3.13
# uv, itself one of the locked, installs in seconds what takes pip a minute. It reads no configuration of pip: where it
# reaches no index, pip does it all.
UV_LINES := awk '/^[a-zA-Z0-9]/ { ours = /^uv==/ } ours && /==|--hash/'
LOCKED := --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --annotation-style line

WORKERS ?= auto
# Tests wait too, so there are more workers than cores; those of scenarios have a control plane each.
HOSTS ?= $(shell echo $$(($$(nproc) + 1)))
# Seconds on two cores; a run of over one and a half times as many fails.
UNIT_BUDGET ?= 260
E2E_BUDGET ?= 480
TESTS ?=
ON_CONTROL_PLANES := e2e tests/integration tests/packaging/test_workflows.py

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  \033[36m%-22s\033[0m %s\n", $$1, $$2}'

.PHONY: setup
setup: $(PROJECT) ## Make .venv (VENV) from the locked requirements
$(REQUIREMENTS): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "hetserve needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv --clear $(VENV)
	@echo "installing the locked requirements into $(VENV) (up to three minutes)"
	@$(UV_LINES) requirements.lock > $(VENV)/uv.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock || \
		$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@touch $@
# --no-deps: the lock has decided. So a bound that it does not keep is seen only by pip check.
$(PROJECT): pyproject.toml $(REQUIREMENTS)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/pip check
	@touch $@

# Needs no more than uv: a lock that breaks a bound of pyproject.toml fails setup, and is mended here.
.PHONY: lock
lock: $(REQUIREMENTS) ## Rewrite requirements.lock and peers.lock from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --all-extras $(LOCKED) --output-file requirements.lock
	$(BIN)/uv pip compile --group pyproject.toml:peers $(LOCKED) --output-file peers.lock

.PHONY: tools
tools: setup ## Build the pinned control plane and Prometheus into the user's cache (minutes, once; KUBERNETES=1.35: of that version)
	@PYTHONPATH=e2e $(BIN)/python -m harness.tools

.PHONY: peers
peers: setup ## Install Envoy and tritonclient (peers.lock) into an environment of their own in the user's cache; print where
	@PYTHONPATH=e2e $(BIN)/python -m harness.peers

.PHONY: kernels
kernels: $(KERNELS) ## Compile the kernels of planning and simulation into the user's cache (a minute, once)
$(KERNELS): $(PROJECT) $(shell grep -rl "hetserve.compiled" src)
	@PYTHONPATH=. $(BIN)/python images/kernels.py
	@touch $@

.PHONY: demo
demo: setup ## Bring a control plane up, install hetserve, apply the samples, show them (FLAGS=--prometheus: beside it)
	@PYTHONPATH=e2e $(BIN)/python -m harness.demo up $(FLAGS)

.PHONY: demo-load
demo-load: setup ## Play a day of load in five minutes on the demo, and draw it (FLAGS="--seconds 120 --load TRACE.csv --out FILE.svg")
	@PYTHONPATH=e2e $(BIN)/python -m harness.demo load $(FLAGS)

.PHONY: demo-down
demo-down: setup ## Stop the demo and remove its state
	@PYTHONPATH=e2e $(BIN)/python -m harness.demo down

.PHONY: test
test: test-unit e2e ## Run every test but the deep ones, those on a real control plane too

.PHONY: test-deep
test-deep: deep-tests modelcheck-deep mutants test-pythons ## Run what make test leaves out: at length, in depth, with many examples (hours)

.PHONY: deep-tests
deep-tests: setup tools kernels peers ## Run the deep tests, and each law with many examples (TESTS=tests/properties/test_wake_laws.py)
	HETSERVE_TEST_TIER=deep $(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "deep or law" $(TESTS)

.PHONY: gateway-tests
gateway-tests: setup peers ## Run the tests of a router beside a real Envoy and real gRPC, which are installed first
	$(BIN)/pytest -n 0 -m deep tests/unit/router/test_behind_a_gateway.py tests/unit/router/test_beside_grpc.py

.PHONY: flakes
flakes: setup tools kernels ## Run the scenarios N times beside BURNERS busy processes; say what failed, and what was nearly too slow
	@PYTHONPATH=e2e $(BIN)/python -m harness.flakes --runs $(or $(N),5) --burners $(or $(BURNERS),2) --workers $(HOSTS) $(or $(TESTS),$(ON_CONTROL_PLANES))

.PHONY: coverage
coverage: setup tools kernels ## The same, and print which lines no test reaches (twice the processor time)
	$(BIN)/pytest -n $(HOSTS) --dist loadgroup -m "not deep" --cov --cov-report=term

.PHONY: test-unit
test-unit: setup kernels ## Run the tests that need no control plane, but for the deep ones
	$(BIN)/pytest -n $(HOSTS) --dist loadgroup -m "not cluster and not deep" --budget $(UNIT_BUDGET) $(FLAGS) \
		--ignore tests/integration $(or $(TESTS),tests)

# The three that are left out cost much of the time and look at luck, order and size, which are the same on every Python.
.PHONY: test-planning
test-planning: setup ## Plan the samples and run the tests of planning
	for sample in manifests/samples/*.yaml; do $(BIN)/hetserve plan "$$sample" > $(VENV)/plan.txt; done
	$(BIN)/pytest -n $(WORKERS) -m "not deep" tests/unit/planning tests/properties/test_planning_*.py tests/adversarial/test_planning_*.py \
		--deselect tests/properties/test_planning_planners_laws.py::test_the_order_of_the_types_does_not_change_a_most_throughput_plan \
		--deselect tests/unit/planning/test_search_methods.py::test_the_bayesian_search_finds_a_peak_sooner_than_chance \
		--deselect tests/properties/test_planning_extremes.py::test_a_smaller_load_never_costs_more

.PHONY: test-pythons
test-pythons: ## Run test-planning on each of PYTHONS (3.12 3.13) that is here, set up anew from the lock
	@MAKE="$(MAKE)" .ci/pythons $(PYTHONS)

.PHONY: e2e
e2e: setup tools kernels ## Run the tests on a real control plane, but for the deep ones (TESTS="e2e/test_demo.py" KUBERNETES=1.35)
	$(BIN)/pytest -n $(HOSTS) --dist loadgroup -m "cluster and not deep" --budget $(E2E_BUDGET) $(FLAGS) $(or $(TESTS),$(ON_CONTROL_PLANES))

.PHONY: lint
lint: setup ## Check style, formatting, import contracts and the workflows of CI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pytest -q -p no:cacheprovider tests/packaging/test_workflows.py

.PHONY: format
format: setup ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: typecheck
typecheck: setup ## Check the types (mypy, strict)
	$(BIN)/mypy

.PHONY: generate
generate: setup tools ## Rewrite generated files: CRDs, chart templates, manifests, docs
	@PYTHONPATH=e2e $(BIN)/python -m harness.generate

.PHONY: docs
docs: setup ## Build the documentation as a site into build/site; a warning, such as a link to nowhere, fails it
	$(BIN)/python -m sphinx --quiet --fail-on-warning --builder html docs build/site
	@echo "the site is in build/site/index.html"

.PHONY: verify
verify: setup tools ## Prove that the generated files are current
	@PYTHONPATH=e2e $(BIN)/python -m harness.generate --check

.PHONY: bench
bench: setup ## Run the benchmarks and print ours beside the alternative
	for file in benchmarks/bench_*.py; do $(BIN)/python -m "benchmarks.$$(basename "$$file" .py)"; done

.PHONY: bench-planning
bench-planning: setup ## Measure the planners and write docs/results/planning.md: ranking, the integer program, goals beside
	$(BIN)/python -m benchmarks.planning_report

.PHONY: bench-kairos
bench-kairos: setup ## Measure Kairos's figures again and write docs/results/kairos.md (FLAGS=--full: longer)
	$(BIN)/python -m benchmarks.bench_dispatch
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.kairos $(FLAGS)

.PHONY: bench-fang
bench-fang: setup ## Train Fang's scheduler, measure its tables and figures again and write docs/results/fang.md (FLAGS=tables: that part; --quick; a quarter of an hour on two cores)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.fang $(FLAGS)

.PHONY: bench-placement
bench-placement: setup tools ## Measure placement on a real scheduler and write docs/results/placement.md (FLAGS=--quick: shorter)
	PYTHONPATH=e2e $(BIN)/python -m benchmarks.placement $(FLAGS)

.PHONY: bench-operator
bench-operator: setup tools ## Measure the operator with 1,000 services and write docs/results/operator.md (FLAGS=scaled: those that follow their load; --quick: a tenth)
	PYTHONPATH=e2e $(BIN)/python -m benchmarks.operator $(FLAGS)

.PHONY: bench-http
bench-http: setup ## Measure what a request costs our HTTP loop and servers of libraries (FLAGS="--rounds 9"; a minute)
	$(BIN)/python -m benchmarks.http $(FLAGS)

.PHONY: bench-router
bench-router: setup kernels ## Measure the router beside nginx, HAProxy and Envoy and write docs/results/router.md (FLAGS=money: that part; --quick; 20 minutes)
	PYTHONPATH=e2e OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.router $(FLAGS)

.PHONY: bench-superserve
bench-superserve: setup ## Measure SuperServe's figures and our policy beside them and write docs/results/superserve.md (FLAGS="bursts cells": these parts; --quick)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.superserve $(FLAGS)

.PHONY: bench-sharing
bench-sharing: setup ## Measure what holds together on shared GPUs and write docs/results/sharing.md (FLAGS=traps: that part; half an hour on two cores)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.sharing $(FLAGS)

.PHONY: bench-hetsev
bench-hetsev: setup kernels ## Play HetSev's sections 6.1 to 6.3 with its rivals and write docs/results/hetsev.md (FLAGS="cost ablation": these parts; --quick; half an hour on two cores)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.hetsev $(FLAGS)

.PHONY: bench-scaling
bench-scaling: setup ## Measure what following a load is worth and write docs/results/scaling.md (FLAGS=worth: that part; a quarter of an hour on two cores)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.scaling $(FLAGS)

.PHONY: bench-flow
bench-flow: setup ## Measure planner flow on random pools and write docs/results/flow.md (FLAGS="--jobs 16"; an hour on two cores)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.flow $(FLAGS)

.PHONY: modelcheck
modelcheck: setup ## Visit every state of placement in small clusters with few faults (FLAGS=--deep: more of both)
	PYTHONPATH=proofs $(BIN)/python -m modelcheck $(FLAGS)

.PHONY: modelcheck-deep
modelcheck-deep: setup
	PYTHONPATH=proofs $(BIN)/python -m modelcheck --deep

.PHONY: mutants
mutants: setup ## Plant known bugs into copies of the source and show the test that catches each
	PYTHONPATH=proofs:tests/support $(BIN)/python -m mutants $(FLAGS)

.PHONY: house
house: setup ## Count lines, large folders and names that mean two things (FLAGS="--before REV --json")
	@PYTHONPATH=proofs $(BIN)/python -m house $(FLAGS)

.PHONY: images
images: setup ## Build the images operator, extender, router, cli and worker (ENGINE=docker|podman|buildah, BASE=debian, REGISTRY=)
	@$(BIN)/python -m images.build

.PHONY: images-report
images-report: setup ## Say how large the images are and write what they hold; fails where a goal is missed
	@$(BIN)/python -m images.report

# A cluster of real containers; engine, node image and cluster are made where they are missing, and the cluster is kept.
.PHONY: e2e-kind
e2e-kind: setup ## Run the scenarios on a kind cluster with the images (FLAGS="-k drained"; BASE=debian as of images)
	@PYTHONPATH=e2e $(BIN)/python -m harness.kind up
	$(BIN)/pytest -n 2 --dist loadgroup -m kind e2e/kind $(FLAGS)

.PHONY: e2e-kind-down
e2e-kind-down: setup ## Delete the kind cluster
	@PYTHONPATH=e2e $(BIN)/python -m harness.kind down
