# make setup | make test | make train | make campaign | make results
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
SOURCES := setup.py pyproject.toml $(wildcard common/replay/cc/*.cc common/replay/cc/*.h)

.PHONY: setup lint test train campaign results soak sanitize minatar peers clean

setup: $(VENV)/.built

$(VENV)/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed, $(PYTHON) is " + sys.version.split()[0] + "; set PYTHON=")'
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@touch $@

$(VENV)/.built: $(VENV)/.locked $(SOURCES)
	@command -v $${CXX:-g++} >/dev/null || { echo "error: no C++ compiler: \"$${CXX:-g++}\" is not on the PATH; install g++ (Debian: apt-get install g++) or set CXX" >&2; exit 1; }
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

lint: setup
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m ruff check --quiet .
	$(RUN) -m mypy

# Much of a test of roles is waiting: two files at a time. More would make the waits too short. In
# the order of the folders, since the longest files have few tests and would come last.
test: setup lint
	$(RUN) -m pytest --numprocesses=auto --maxprocesses=2 --dist=loadfile --no-loadscope-reorder \
		--durations=20

train: setup
	$(RUN) -m binaries.d4pg --flagfile=reproductions/d4pg/quickstart.flags

# The runs of results/campaign.csv, two at once; CAMPAIGN_CORES=1 makes one at a time.
campaign: setup minatar
	$(RUN) -m binaries.campaign $(if $(CAMPAIGN_CORES),--cores=$(CAMPAIGN_CORES))

# Every figure and table of results/, and its overview, from results/runs, reported and benchmarks.
results: setup
	rm -rf results/figures results/tables
	$(RUN) -m binaries.figures --all
	$(RUN) -m binaries.tables --all
	$(RUN) -m binaries.claims --output=results/tables --overview=results/README.md

# Fifteen minutes of training through kills, freezes and a full disk.
soak: setup
	$(RUN) tests/roles/soak.py

# Hostile operations on the C++ core of the replay memories: optimised as for runs, then under the
# sanitizers of addresses and undefined behaviour, then under the one of data races. A program stops
# at the first error, or prints its counts.
HOSTILE := tests/replay/cc/hostile_operations.cc $(filter-out %ops.cc %/kernel_arguments.cc,$(wildcard common/replay/cc/*.cc))
FLAGS_release := -O3
FLAGS_address := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS
FLAGS_thread := -O1 -fsanitize=thread

sanitize: build/sanitize/release build/sanitize/address build/sanitize/thread
	@for program in $^; do echo "$$program:"; $$program || exit 1; done

build/sanitize/%: $(HOSTILE) $(wildcard common/replay/cc/*.h) Makefile
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -g -Wall -Wextra -Werror -pthread $(FLAGS_$*) -Icommon/replay/cc $(HOSTILE) -o $@

# The games of the suite "minatar", whose licence, GPL-3, is not that of what `setup` installs.
minatar: $(VENV)/.minatar

$(VENV)/.minatar: $(VENV)/.built
	$(RUN) -m pip install --quiet --disable-pip-version-check --constraint requirements.lock --no-build-isolation --editable '.[minatar]'
	@touch $@

# What `python -m binaries.benchmark --peers` compares with.
peers: setup
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[peers]' --no-build-isolation

clean:
	rm -rf $(VENV) build *.egg-info common/replay/_ops.tf-*.so
