#!/usr/bin/env bash
# Runs every check to the end, shows the output of those that fail, and exits with 1 if any did. Changes nothing.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

failed=0
check() {
  local output
  if output=$("$@" 2>&1); then
    echo "ok      $1 ${2:-}"
  else
    echo "FAILED  $*"
    echo "$output"
    failed=1
  fi
}

check ruff check .
check ruff format --check .
check mypy
check codespell
check shellcheck --external-sources scripts/*.sh docker/*.sh .ci/run
check hadolint docker/*.Dockerfile
exit "$failed"
