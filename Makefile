# What a newcomer needs: `make demo`. `make help` lists the rest. Needs Python 3.11 or later, Java 17 or later, and make.
# PYTHON=/path/to/python chooses the interpreter; JAVA_HOME chooses the Java; TIDEMARK_JARS moves the jar cache.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
ARCHIVE := $(VENV)/.archived
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup dev java demo first-hour test test-all test-places check format bench bench-scale bench-endless bench-fresh tour mutants faults chaos cdc bundle-check screenshots docs lock clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup: java $(STAMP) $(ARCHIVE)  ## Install into .venv what a user needs: pinned Python packages, this project, the JVM jars
	@$(BIN)/tidemark jars fetch > /dev/null

dev: setup $(DEV)  ## Install the tools for tests, checks and benchmarks too

demo: setup  ## Run the main job on a real local Kafka broker and print the tables
	@$(BIN)/tidemark demo

first-hour: dev  ## Play a newcomer's first hour with a topic of their own, and check what each command prints
	@$(BIN)/python -m tests.first_hour

# Processes, each with one Spark session and one broker. One that has nothing left takes tests from another. A third one uses
# the tenth of two cores that two leave idle while they wait for other programs.
PROCESSES := 2
test: dev  ## Run the tests: every stage on real Spark, Delta and Kafka, a kill included
	@$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal --durations 25 --durations-min 5

test-all: export TESTS := all
test-all: PROCESSES := 3
test-all: test  ## Run all tests: also those of tests/beyond.toml, and every property with many more examples

# What is marked `everywhere` runs in a folder and in S3 with all the others, and here elsewhere: see tests/support/places.py.
# Senders are killed many times there, and seldom in `make test-all`: see `kills` in tests/support/producing.py.
test-places: dev  ## Run the rivals of commits in stores, and the tests of every place in a Hive Metastore, in Azure and in Google's store
	@TESTS=places $(BIN)/python -m pytest tests/producer tests/model tests/chaos tests/browser
	@TESTS=places TESTS_TIMES=200 $(BIN)/python -m pytest tests/lakehouse/delta/test_s3_commits.py tests/pipelines/test_s3.py
	@TESTS=places $(BIN)/python -m pytest tests/tidemark/test_examples.py tests/cluster/test_standalone.py tests/test_first_hour.py
	@TESTS=places $(BIN)/python -m pytest tests/faults/test_machine.py tests/faults/test_broker_faults.py tests/cdc
	@TESTS=places $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m everywhere -k "s3 or (test_place and folder)"
	@TESTS=places TESTS_PLACE=metastore $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m everywhere
	@TESTS=places TESTS_PLACE=metastore-s3 $(BIN)/python -m pytest tests/scenario/test_place.py
	@for place in azure google; do \
		TESTS=places TESTS_PLACE=$$place $(BIN)/python -m pytest tests/lakehouse/delta/test_store_commits.py || exit; \
		TESTS=places TESTS_PLACE=$$place $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m everywhere || exit; \
	done

check: dev  ## Lint, formatting, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: dev  ## Fix what ruff can fix, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev  ## Measure loads of each shape of numbers, small runs and the peers, and write docs/benchmarks.md (an hour)
	@$(BIN)/python -m bench.run --save

bench-scale: dev  ## Measure growth, 50,000 streams, a cold run, Kafka to Gold, change events and readers in S3 (half an hour)
	@$(BIN)/python -m bench.run --only growth streams cold whole events readers --save

bench-endless: dev  ## Measure a thousand runs in one process: how long they take, what memory and tables hold (three hours)
	@$(BIN)/python -m bench.run --only endless --save

bench-fresh: dev  ## Measure the time from Kafka to Gold at a steady rate: RATE=20000 a second, MINUTES=30
	@$(BIN)/python -m bench.fresh $(if $(RATE),--rate $(RATE)) $(if $(MINUTES),--minutes $(MINUTES))

tour: dev  ## Count the files that a reader of one load and of one record passes through
	@$(BIN)/python -m bench.tour

mutants: dev  ## Apply 80 small faults to copies of the core, one at a time, and expect tests to catch each (40 minutes)
	@$(BIN)/python -m tests.mutants.run

faults: dev  ## Kill 300 processes over a million records, and compare with the reference (two hours)
	@$(BIN)/python -m tests.faults.run

# A sitting that was interrupted goes on where it was; ANEW=1 begins again.
chaos: dev  ## Strike Kafka's leaders under producers of every setting, and compare Silver with the topics (two hours)
	@$(BIN)/python -m tests.chaos.run --write $(if $(ANEW),--anew)

# The first time, this fetches Debezium's 66 jars.
cdc: dev  ## Record what Debezium sends of a PostgreSQL, killed in transactions, for the tests (minutes; needs PostgreSQL)
	@$(BIN)/python -m tests.cdc.record

# The first time, this builds the platform's command line from its Go module, which takes minutes.
bundle-check: $(DEV)  ## Validate and plan the Databricks bundle, both targets, without a workspace (needs Go)
	@$(BIN)/python -m tests.packaging.bundle_check

screenshots: dev  ## Run the pipeline, and keep pictures of its report in docs/images (needs Chromium)
	@$(BIN)/python -m tests.browser.screenshots

# Not --quiet: mkdocs counts only the warnings that it shows.
docs: dev  ## Build the documents as a site in build/site, with every link checked; what is written from the code comes first
	@$(BIN)/python -m tests.docs.reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "build/site/index.html"

# Universal: every lock holds for every platform and for Python 3.11 and later. No index is named in it; pip's configuration decides.
# requirements.lock is what a user installs, -dev what a developer adds, -build what makes the environment and builds pyspark in it.
# resources/files/requirements.txt is for a platform that brings its Spark: without hashes, because the wheel beside it has none.
# Our own producer kit is in none: it is installed from this checkout.
LOCKING := $(BIN)/uv pip compile --universal --python-version 3.11 --custom-compile-command "make lock" --quiet \
	--no-emit-package tidemark-producer
UPGRADING := $(if $(UPGRADE),--upgrade)
lock: $(DEV)  ## Resolve the locks of Python packages anew from pyproject.toml (UPGRADE=1: take newer versions)
	$(LOCKING) $(UPGRADING) --generate-hashes pyproject.toml --extra local --extra avro --output-file requirements.lock
	$(LOCKING) $(UPGRADING) --generate-hashes --group build --output-file requirements-build.lock
	$(LOCKING) $(UPGRADING) --generate-hashes pyproject.toml --extra local --extra avro --group dev \
		--constraints requirements.lock --constraints requirements-build.lock --output-file requirements-dev.lock
	$(LOCKING) --no-annotate pyproject.toml --extra report --extra watch --constraints requirements.lock --output-file resources/files/requirements.txt

clean:  ## Remove .venv and every build and cache folder (the jar cache stays)
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# `java -version` is read, not only found: macOS has a /usr/bin/java that merely says where to get one.
java:
	@if [ -n "$$JAVA_HOME" ]; then java="$$JAVA_HOME/bin/java"; else java=java; fi; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	if [ "$${version:-0}" -lt 17 ]; then \
		echo "Tidemark needs Java 17 or later; $$java is $${version:-missing}." >&2; \
		echo "  Debian, Ubuntu: apt install openjdk-17-jre-headless" >&2; \
		echo "  macOS:          brew install openjdk@17, then export JAVA_HOME=\"\$$(brew --prefix openjdk@17)\"" >&2; \
		echo "  others:         any OpenJDK build of 17 or later; set JAVA_HOME to its folder" >&2; \
		exit 1; \
	fi

# Candidates are run, not only looked up: a version manager's shim is on the path also when its Python is not installed.
# The versions that the lock was tried on come first, any later one after them.
# Builds are not isolated: an isolated one would fetch build tools that no lock pins. They come from requirements-build.lock.
$(STAMP): requirements.lock requirements-build.lock pyproject.toml producer/pyproject.toml
	@if ! $(BIN)/python -c '' 2> /dev/null; then \
		python=; bare=; \
		for last in 13 99; do \
			for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
				"$$candidate" -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $$last))" 2> /dev/null || continue; \
				if "$$candidate" -c 'import ensurepip, venv' 2> /dev/null; then python=$$candidate; break 2; fi; \
				bare=$$candidate; \
			done; \
		done; \
		if [ -z "$$python" ] && [ -n "$$bare" ]; then \
			echo "$$bare cannot make a virtual environment: its ensurepip is missing." >&2; \
			echo "  Debian, Ubuntu: apt install python3-venv" >&2; \
			exit 1; \
		elif [ -z "$$python" ]; then \
			echo "Tidemark needs Python 3.11 or later; found: $$(python3 --version 2> /dev/null || echo none)." >&2; \
			echo "  Debian, Ubuntu: apt install python3 python3-venv" >&2; \
			echo "  macOS:          brew install python@3.13" >&2; \
			echo "  others:         your package manager, pyenv or uv; then make PYTHON=/path/to/python3.13" >&2; \
			exit 1; \
		fi; \
		echo "Making $(VENV) with $$("$$python" --version)."; \
		rm -rf $(VENV); "$$python" -m venv $(VENV); \
	fi
	@echo "Installing the pinned Python packages; the first time this downloads about 1 GB, most of it Spark."
	@$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: --requirement requirements-build.lock
	@$(BIN)/python -m pip install --quiet --require-hashes --no-build-isolation --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable ./producer --editable .
	@touch $(STAMP)

# Where Java makes no such archive, sessions start without one, and it says so.
$(ARCHIVE): $(STAMP) lakehouse/machine/jvm.xml lakehouse/machine/jvm.sha256 lakehouse/machine/storage_jar.py
	@$(BIN)/tidemark jars fetch > /dev/null
	@echo "Making an archive of the classes that Spark loads, so that every start is seconds sooner; this takes a minute, once."
	@$(BIN)/python -P -m lakehouse.machine.class_archive || true
	@touch $(ARCHIVE)

$(DEV): requirements-dev.lock $(STAMP)
	@$(BIN)/python -m pip install --quiet --require-hashes --no-build-isolation --requirement requirements-dev.lock
	@touch $(DEV)
