# make test needs Go, gcc and, through apt, PostgreSQL. Each target that needs something says so or installs it.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Seconds per fuzz target.
FUZZTIME ?= 30s

# What runs against real servers, in processes of its own, and measures times: one package after the other.
UNITS = $(shell $(GO) list ./... | grep -v /test/)

# Versions of PostgreSQL that fenceproxy is for.
MAJORS  ?= 14 15 16 17 18

.PHONY: build test unit integration lint demo bench bench-locks bench-idle fuzz mutants model torture clean tools driver-tools locks-full
.PHONY: test-drivers test-matrix test-newest storm soak-sidecar

build:
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/fenceproxy ./cmd/fenceproxy

test: tools lint unit integration test-newest

# -relay.pumps: sessions have two drivers. The texts of rewrite are judged by the million: under the race detector only its caches are.
unit: tools
	$(GO) test -race -timeout 10m $(filter-out %/rewrite,$(UNITS))
	$(GO) test -timeout 10m ./wire/relay -short -relay.pumps
	$(GO) test -timeout 10m ./rewrite
	$(GO) test -race -timeout 10m -run 'Concurrent|Cache' ./rewrite

# -count=1: the cache does not know that these tests build and start the proxy. Three packages at a time: they mostly wait.
integration: tools driver-tools
	$(GO) test -count=1 -p 3 -timeout 10m ./test/...

# Real drivers through the proxy, each check listed, and ten minutes of sqlsmith: go test does fifteen seconds of it.
test-drivers: tools driver-tools
	$(GO) test -count=1 -v -timeout 20m ./test/drivers -sqlsmith 10m

# Marks, conversations and end-to-end tests on every version of PostgreSQL. Some six minutes each.
test-matrix: tools
	@failed=""; for major in $(MAJORS); do \
		dir=$$(test/stack/server.sh $$major) || exit 1; \
		echo "PostgreSQL $$major in $$dir"; \
		FENCEPROXY_TEST_PG=$$dir FENCEPROXY_TEST_PG_MAJOR=$$major \
			$(GO) test -count=1 -p 1 -timeout 20m ./tokens/... ./rewrite ./test/conversation ./test/e2e || failed="$$failed $$major"; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# The newest version, where it can be had: the rest of make test runs on the one that the machine has.
NEWEST  = $(lastword $(MAJORS))
test-newest: tools
	@dir=$$(test/stack/server.sh $(NEWEST)) || { echo "no PostgreSQL $(NEWEST): not tested" >&2; exit 0; }; \
	FENCEPROXY_TEST_PG=$$dir FENCEPROXY_TEST_PG_MAJOR=$(NEWEST) \
		$(GO) test -count=1 -p 1 -timeout 10m -run '$(SMOKE)' ./tokens ./test/conversation ./test/e2e
SMOKE   = TestInstall|TestGuard|TestHole10|TestScripts|TestProxyReplies|TestEveryWriteFormInEveryTokenState/^(fresh|stale|absent)$$|TestPgx|TestPsql|TestFrozen

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l . >&2; echo "not gofmt clean" >&2; exit 1; }
	$(GO) vet ./...

# The zombie's story with real processes and locks, from an etcd or, LOCK=postgres, the lease table; then a proxy to try
# out, until Ctrl-C.
demo: tools
	@$(GO) build -o bin/demo ./test/demo
	@exec bin/demo

# The figures of the README, and whether each target is met. Some twelve minutes on an idle machine.
bench: bench-tools
	@$(GO) run ./test/bench $(BENCHFLAGS)

# The lock client's figures, and whether each target is met. Some three minutes on an idle machine.
bench-locks: tools
	@$(GO) build -o bin/benchlocks ./test/benchlocks
	@exec bin/benchlocks $(BENCHFLAGS)

# What 2,000 idle sessions cost in memory, beside pgbouncer. Half a minute; PostgreSQL itself takes some 5 GB.
bench-idle: bench-tools
	@$(GO) run ./test/benchidle $(BENCHFLAGS)

# 10,000 connections killed at random moments: go test does a tenth of them. SEED chooses others.
SEED    ?= 1
storm: tools
	$(GO) test -count=1 -v -timeout 20m -run 'TestStorm' ./test/storm -storm 10000 -seed $(SEED)

# Every schedule of the lock client's model, and 10,000 tenures of one lock: go test does a part of them.
locks-full: tools
	$(GO) test -count=1 -run TestSchedules -v ./lockclient -full
	$(GO) test -count=1 -run TestTenures -v -timeout 10m ./lockclient/etcd -full
	$(GO) test -count=1 -run 'TestContenders|TestSchedules' -v -timeout 10m ./lockclient/postgres -full

# Breaks one safeguard after the other and expects a test to notice. MUTANTFLAGS=-hunt: expects the harness of test/torture to
# find those that break the guarantee, and prints how long that took.
mutants: tools
	$(GO) run ./test/mutants $(MUTANTFLAGS)

# Every state of the protocol's model, and of twelve ways to break it. Under a minute; MODELFLAGS=-full has larger bounds.
model: tools
	$(GO) run ./test/model $(MODELFLAGS)

# Everything against the guarantee for ten minutes, by a seed that TORTUREFLAGS=-torture.seed=N sets. make test does one minute.
torture: tools
	$(GO) test ./test/torture -count=1 -timeout 30m -run TestTorture -v -torture.time=10m $(TORTUREFLAGS)

# Three sidecars beside three writers, killed and frozen at random for ten minutes, half of them with each lock service: who
# writes when by the database's own record, and how long hand-overs take. go test does 10 s of each.
soak-sidecar: tools
	$(GO) test ./test/sidecar -count=1 -timeout 30m -run TestSoak -v -soak.time=5m -soak.bound=3s $(SOAKFLAGS)

# Every fuzz target for FUZZTIME; go test runs their corpora (testdata/fuzz). make fuzz FUZZTIME=10m for the long run.
fuzz: tools
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzzminimizetime 20x -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

tools:
	@test/stack/install.sh

driver-tools:
	@test/stack/install.sh drivers

.PHONY: bench-tools
bench-tools:
	@test/stack/install.sh bench

clean:
	rm -rf bin
