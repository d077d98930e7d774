# `make doctor` sets everything up and examines a real vLLM on the CPU; `make test` sets everything up and passes the tests.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PATIENT := .patient
RAY := .ray
# Each worker of a test run may have an engine of its own, of about a gigabyte; one more than processors, since tests wait
# for programs, too. The quick ones need less. A worker costs six to eleven seconds of a processor before its first test.
WORKERS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 4)))
QUICK_WORKERS ?= $(shell n=$$(nproc); echo $$((n < 8 ? n + 1 : 8)))
PYTEST = $(VENV)/bin/pytest --dist loadgroup --numprocesses
QUICK = "not engine and not ray and not v0 and not gpu and not alone and not long"

# Where a shell forbids Python to keep what it compiled, each worker and each program under test compiles all again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: doctor check test test-power sweep wrappings lint lowest docs benchmarks clean

doctor: $(VENV)/.ready $(PATIENT)/.ready
	$(VENV)/bin/rldoctor check --python $(PATIENT)/bin/python --level rollout

# What takes no long time by itself, for every change; `make test` is the whole.
check: lint
	$(PYTEST) $(QUICK_WORKERS) --quiet -m $(QUICK)

test: lint $(PATIENT)/.ready $(RAY)/.ready
	# The one part does not hide what the other has to say.
	$(VENV)/bin/pytest --quiet -m alone; alone=$$?; $(PYTEST) $(WORKERS) -m "not alone and not power" && exit $$alone

# Every fault of tests/probes/faults/table.py in a real engine; the page of them is docs/faults.md.
test-power: $(VENV)/.ready $(PATIENT)/.ready
	$(VENV)/bin/pytest tests/probes/scenarios/test_power.py

# Secrets in every notation, place, command and format; half an hour, or one of several parts of it: make sweep PART=3/8.
PART ?= 1/1
sweep: $(VENV)/.ready
	$(VENV)/bin/python -m tests.redact.sweep --part $(PART)

# Every log of the tests in every way in which logs are kept and pasted: ten thousand pairs, some minutes.
wrappings: $(VENV)/.ready
	$(VENV)/bin/python -m tests.logs.sweep

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

# The quick tests with the lowest versions of the dependencies that pyproject.toml allows.
lowest: $(VENV)/.ready
	$(PYTHON) -m venv --clear $(VENV)-lowest
	$(VENV)/bin/python scripts/lowest.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip --disable-pip-version-check install --quiet \
		--editable '.[dev]' --constraint $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/pytest --numprocesses $(QUICK_WORKERS) --dist loadgroup --quiet -m $(QUICK)

# The documentation, from its pages and from the source, in site/.
docs: $(VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

benchmarks: $(VENV)/.ready $(PATIENT)/.ready
	$(VENV)/bin/python -m benchmarks.static_check $(PATIENT)/bin/python
	$(VENV)/bin/python -m benchmarks.rollout_probe $(PATIENT)/bin/python
	$(VENV)/bin/python -m benchmarks.compare_level $(PATIENT)/bin/python

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev]'
	# Start-up counts, also in shells that forbid Python to keep what it compiled.
	$(VENV)/bin/python -m compileall -q rldoctor checks
	touch $@

$(PATIENT)/.ready: scripts/cpu_patient.txt scripts/cpu_patient.sh
	scripts/cpu_patient.sh $(PATIENT) $(PYTHON)

# Beside vLLM it would change how the engine starts its workers.
$(RAY)/.ready: Makefile
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip --disable-pip-version-check install --quiet ray==2.60.0
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(PATIENT) $(RAY)
