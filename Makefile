# make setup | make wheel | make test | make train | make campaign | make results | make pages | make docs | make lock | make lines
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
SOURCES := setup.py pyproject.toml $(wildcard common/replay/cc/*.cc common/replay/cc/*.h)

# Byte code is made only for what programs import, a small part of the packages. Container images
# often forbid writing it; then each process would compile TensorFlow anew, which takes 11 CPU seconds.
PIP := $(RUN) -m pip install --disable-pip-version-check --no-compile
# Locked packages come with hashes, and the lock has all that they require.
FROM_LOCK := --no-deps --require-hashes --requirement
UV := build/uv/bin/uv
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup wheel lint test train campaign results pages docs lock lines soak sanitize minatar hand maze video peers clean

setup: $(VENV)/.built

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "error: Python 3.11, 3.12 or 3.13 is needed, $(PYTHON) is " + sys.version.split()[0] + "; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(UV): | $(RUN)
	@$(PIP) --quiet --target=build/uv uv==0.13.9

# uv takes a quarter of pip's CPU time; pip where uv cannot be had, or does not reach the index.
$(VENV)/.locked: requirements.lock | $(RUN)
	@echo "== the packages of requirements.lock, 3 GB, into $(VENV)"
	$(MAKE) --silent $(UV) && $(UV) pip install --python=$(RUN) $(FROM_LOCK) requirements.lock || $(PIP) $(FROM_LOCK) requirements.lock
	@touch $@

$(VENV)/.built: $(VENV)/.locked $(SOURCES)
	@command -v $${CXX:-g++} >/dev/null || { echo "error: no C++ compiler: \"$${CXX:-g++}\" is not on the PATH; install g++ (Debian: apt-get install g++) or set CXX" >&2; exit 1; }
	@echo "== the replay operations, compiled for TensorFlow: half a minute"
	$(PIP) --quiet --no-build-isolation --no-deps --editable .
	@echo "== byte code of what the programs import"
	@$(RUN) -m compileall -q common binaries reproductions
	@$(RUN) -c 'import tensorflow, sonnet, tensorflow_probability, dm_control.suite, gymnasium, ale_py, pandas, scipy.stats, matplotlib.pyplot' 2>$(VENV)/imports.log || { cat $(VENV)/imports.log >&2; exit 1; }
	@touch $@

# A wheel of the programs, for this Python, this kind of machine and the locked TensorFlow.
wheel: setup
	$(RUN) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

lint: setup
	$(RUN) -m ruff format --check --quiet .
	$(RUN) -m ruff check --quiet .
	$(RUN) -m mypy

# Much of a test of roles is waiting: three files at a time keep two cores busy. More would make the
# waits too short. In the order of the folders, since the longest files have few tests and would
# come last.
test: setup lint
	$(RUN) -m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder \
		--durations=20

train: setup
	$(RUN) -m binaries.d4pg --flagfile=reproductions/d4pg/quickstart.flags

# The runs of results/campaign.csv, two at once; CAMPAIGN_CORES=1 makes one at a time.
campaign: setup minatar
	$(RUN) -m binaries.experiment --list=results/campaign.csv $(if $(CAMPAIGN_CORES),--cores=$(CAMPAIGN_CORES))

# Every figure and table of results/, and its overview, from results/runs, reported and benchmarks.
results: setup
	rm -rf results/figures results/tables
	$(RUN) -m binaries.results --all

# Tables of hyperparameters in READMEs.
pages: setup
	$(RUN) -m binaries.pages

# A site of all pages and docstrings in build/site, made without TensorFlow in an environment of its own.
DOCS := build/docs

docs: $(DOCS)/.locked
	$(DOCS)/bin/sphinx-build --quiet --fail-on-warning --keep-going -c docs . build/site
	@echo "site build/site/index.html"

$(DOCS)/.locked: docs/requirements.lock
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(FROM_LOCK) docs/requirements.lock
	@touch $@

# Renews both locks for Python 3.11 to 3.13 within what setup.py asks for; UPGRADE=--upgrade also
# takes newer versions of what they have.
COMPILE := $(UV) pip compile --quiet --universal --python-version=3.11 --generate-hashes --no-annotate --custom-compile-command="make lock" $(UPGRADE)

lock: setup $(UV)
	$(COMPILE) setup.py --extra=all --extra=test --python=$(RUN) --no-build-isolation --output-file=requirements.lock
	$(COMPILE) docs/requirements.in --output-file=docs/requirements.lock

# How long each room is, and how much of that is logic; needs no set-up.
lines:
	@$(PYTHON) tests/lines.py

# Training through kills, freezes and a full disk, each agent after the other; SOAK=aql chooses one.
SOAK ?= d4pg aql reactor refer
soak: setup
	@failed=; for name in $(SOAK); do \
		echo "== $$name"; $(RUN) tests/roles/soak.py $$name || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "error: these soaks failed:$$failed" >&2; exit 1; }

# Hostile operations on the C++ core of the replay memories: optimised as for runs, then under the
# sanitizers of addresses and undefined behaviour, then under the one of data races. A program stops
# at the first error, or prints its counts.
HOSTILE := $(wildcard tests/replay/cc/*.cc) $(filter-out %ops.cc,$(wildcard common/replay/cc/*.cc))
FLAGS_release := -O3
FLAGS_address := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS
FLAGS_quick := $(subst -O1,-O0,$(FLAGS_address))  # for a test, which compiles longer than it runs
FLAGS_thread := -O1 -fsanitize=thread

sanitize: build/sanitize/release build/sanitize/address build/sanitize/thread
	@for program in $^; do echo "$$program:"; $$program || exit 1; done

build/sanitize/%: $(HOSTILE) $(wildcard common/replay/cc/*.h tests/replay/cc/*.h) Makefile
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -g1 -Wall -Wextra -Werror -pthread $(FLAGS_$*) -Icommon/replay/cc $(HOSTILE) -o $@

# The games of the suite "minatar", whose licence, GPL-3, is not that of what `setup` installs. Its
# other requirements are for its window.
minatar: $(VENV)/.minatar

$(VENV)/.minatar: $(VENV)/.built
	$(PIP) --quiet --no-deps minatar==1.0.15
	@touch $@

# The engine of the suite "maze". Its wheel brings no licence file, so `setup` leaves it out; of what
# it depends on, only numpy is needed.
maze: $(VENV)/.maze

$(VENV)/.maze: $(VENV)/.built
	$(PIP) --quiet --no-deps vizdoom==1.3.2
	@touch $@

# The MPL hand of the suite "hand", 90 MB. What else its package needs is not used, and asks for an
# older MuJoCo.
hand: $(VENV)/.hand

$(VENV)/.hand: $(VENV)/.built
	$(PIP) --quiet --no-deps myosuite==2.12.2
	@touch $@

# For `evaluate --video=FILE.mp4`, 103 MB; its wheel holds x264, whose licence is GPL-2.
video: $(VENV)/.video

$(VENV)/.video: $(VENV)/.built
	$(PIP) --quiet --no-deps av==18.1.0
	@touch $@

# What `python -m binaries.benchmark --peers` compares with: cpprb, and learners in build/peers, of
# 1 GB. Where PyTorch's own index cannot be reached, PyTorch comes with CUDA: 6 GB.
peers: setup build/peers/bin/python
	$(PIP) --quiet --no-deps cpprb==11.0.0

LEARNERS := torch==2.15.0 jax==0.10.2 optax==0.2.8 stable-baselines3==2.9.2
build/peers/bin/python: | $(UV)
	$(UV) venv --quiet --clear --python=$(RUN) build/peers.new
	$(UV) pip install --quiet --torch-backend=cpu --python=build/peers.new/bin/python $(LEARNERS) || \
		$(UV) pip install --quiet --python=build/peers.new/bin/python $(LEARNERS)
	mv build/peers.new build/peers

clean:
	rm -rf $(VENV) build *.egg-info common/replay/_ops.tf-*.so
