# make run: the live map on this machine. make test: everything. The rest: make help.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
export PATH := $(HOME)/.cargo/bin:$(PATH)
# Queries are checked against the committed .sqlx, whatever DATABASE_URL says; `make sqlx` writes it anew.
export SQLX_OFFLINE := true

WEB_SOURCES := $(shell find web -name node_modules -prune -o -path web/dist -prune -o -path web/test -prune -o -path web/e2e -prune -o -type f -print)

.PHONY: help run test lint planted bench sqlx sqlx-check web need-run need-test

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

run: need-run web ## builds everything and serves it; installs what is missing
	@exec cargo run --release --package seatwire -- serve

test: need-test web ## every test, browser included
	@scripts/test.sh

lint: need-run web/node_modules/.package-lock.json ## format and lints, nothing may be left
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	npm --prefix web run --silent lint
	for bug in server/tests/planted/*.patch; do git apply --check $$bug || exit 1; done

planted: need-test ## plants known bugs one by one; each must be caught by its test
	@scripts/planted.sh

bench: need-run web ## every number of the README, with its reference beside it
	@scripts/bench.sh

sqlx: need-run ## writes .sqlx anew from the queries and migrations
	@scripts/sqlx.sh write

sqlx-check: need-run ## fails when .sqlx is out of date
	@scripts/sqlx.sh check

web: web/dist/index.html ## builds the buyer app

web/node_modules/.package-lock.json: web/package-lock.json
	@$(MAKE) need-run
	npm --prefix web ci --no-fund --no-audit
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	npm --prefix web run build
	@touch $@

need-run:
	@scripts/need.sh run

need-test:
	@scripts/need.sh test
