# keygrasp: `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
ACTIVATE := set +u; . scripts/env.sh
ARGS ?=

.PHONY: help setup demo test check format clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16
	@echo 'ARGS="..." passes options on: make test ARGS="-k grasps", make demo ARGS="--help"'

setup: ## Create .venv with the pinned packages and build the ROS 2 workspace; does nothing where that is done
	@python=$$(scripts/check_tools.sh); "$$python" scripts/set_up.py

demo: setup ## Ten picks of ten objects through the whole ROS 2 graph, and a report
	@$(ACTIVATE); exec python -m keygrasp_ros.demo $(ARGS)

test: setup ## The whole test suite
	@$(ACTIVATE); exec python scripts/run_tests.py $(ARGS)

check: setup ## Linters, formatters and types
	@$(ACTIVATE); exec scripts/run_checks.sh

format: setup ## Let ruff format and sort what it can
	@$(ACTIVATE); ruff format --quiet . && ruff check --quiet --fix .

clean: ## Remove .venv, the built workspace and caches
	@rm -rf .venv .cache ros2_ws/build ros2_ws/install ros2_ws/log build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
