# Every target makes .venv (with .venv/bin/trimtab in it) when it is missing or out of date: plain python3 and pip, nothing else.

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.stamp
BUILT_FROM := pyproject.toml requirements.lock $(wildcard fastpath/*.pyx fastpath/*.pxd fastpath/c/*.c fastpath/c/*.h)

# The oldest pair that is supported; generated code runs on it and on everything newer. See [project.dependencies] in pyproject.toml.
PROTO_VENV := build/proto-venv
PROTO_STAMP := $(PROTO_VENV)/.stamp
PROTO_TOOLS := grpcio-tools==1.72.1 grpcio==1.72.1 protobuf==6.30.0 setuptools==80.9.0
PROTOS := $(wildcard proto/trimtab/v1/*.proto)

OLDEST_VENV := build/oldest-venv
OLDEST_STAMP := $(OLDEST_VENV)/.stamp

.PHONY: demo test kill-test lint proto bench lock oldest clean

demo: $(STAMP)
	$(VENV)/bin/python -m sidecar.demo

test: $(STAMP)
	$(VENV)/bin/python -m pytest

# Minutes to an hour: KILLS=30 is what the tests run.
KILLS ?= 1000
kill-test: $(STAMP)
	$(VENV)/bin/python -m tests.fault.kills --kills $(KILLS)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/buf lint proto

bench: $(STAMP)
	$(VENV)/bin/python -m bench

proto: $(PROTO_STAMP)
	$(PROTO_VENV)/bin/python -m grpc_tools.protoc -Iproto --python_out=. --pyi_out=. --grpc_python_out=. $(PROTOS)

# The same edge and client on the lower bounds of pyproject.toml.
oldest: $(STAMP) $(OLDEST_STAMP)
	$(OLDEST_VENV)/bin/python -m pytest --quiet tests/rpc tests/client tests/unit

# The lock holds for Python 3.11 and newer; only this target needs uv.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra dev --extra plot \
		--output-file requirements.lock pyproject.toml

clean:
	rm -rf build dist bench/out scratch *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis fastpath/_fast.c fastpath/_near.c fastpath/_wire.c fastpath/*.so
	rm -f $(STAMP)

$(STAMP): $(BUILT_FROM)
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(OLDEST_STAMP): pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST_VENV)
	$(OLDEST_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt '.[dev]'
	touch $@

$(PROTO_STAMP): Makefile
	$(PYTHON) -m venv $(PROTO_VENV)
	$(PROTO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PROTO_TOOLS)
	touch $@
