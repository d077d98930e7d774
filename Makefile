# `make doctor` sets everything up and examines a real vLLM on the CPU; `make test` sets everything up and passes the tests.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PATIENT := .patient
RAY := .ray

.PHONY: doctor test lint benchmarks clean

doctor: $(VENV)/.ready $(PATIENT)/.ready
	$(VENV)/bin/rldoctor check --python $(PATIENT)/bin/python --level rollout

test: lint $(PATIENT)/.ready $(RAY)/.ready
	$(VENV)/bin/pytest

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

benchmarks: $(VENV)/.ready $(PATIENT)/.ready
	$(VENV)/bin/python -m benchmarks.static_check $(PATIENT)/bin/python
	$(VENV)/bin/python -m benchmarks.rollout_probe $(PATIENT)/bin/python
	$(VENV)/bin/python -m benchmarks.compare_level $(PATIENT)/bin/python

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev]'
	# Start-up counts, and some shells forbid Python to keep what it compiled.
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
	rm -rf $(VENV) $(PATIENT) $(RAY)
