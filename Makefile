# make test needs Go, gcc and, through apt, PostgreSQL. Each target that needs something says so or installs it.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Seconds per fuzz target.
FUZZTIME ?= 30s

# What runs against real servers, in processes of its own, and measures times: one package after the other.
UNITS = $(shell $(GO) list ./... | grep -v /test/)

.PHONY: build test unit integration lint demo bench bench-locks fuzz mutants clean tools locks-full

build:
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/fenceproxy ./cmd/fenceproxy

test: tools lint unit integration

# -relay.pumps: sessions have two drivers. The texts of rewrite are judged by the million: under the race detector only its caches are.
unit: tools
	$(GO) test -race -timeout 10m $(filter-out %/rewrite,$(UNITS))
	$(GO) test -timeout 10m ./wire/relay -short -relay.pumps
	$(GO) test -timeout 10m ./rewrite
	$(GO) test -race -timeout 10m -run 'Concurrent|Cache' ./rewrite

# -count=1: the cache does not know that these tests build and start the proxy.
integration: tools
	$(GO) test -count=1 -p 1 -timeout 10m ./test/...

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

# Every schedule of the lock client's model, and 10,000 tenures of one lock: go test does a part of them.
locks-full: tools
	$(GO) test -count=1 -run TestSchedules -v ./lockclient -full
	$(GO) test -count=1 -run TestTenures -v -timeout 10m ./lockclient/etcd -full
	$(GO) test -count=1 -run 'TestContenders|TestSchedules' -v -timeout 10m ./lockclient/postgres -full

# Breaks one safeguard after the other and expects a test to notice.
mutants: tools
	$(GO) run ./test/mutants $(MUTANTFLAGS)

# Every fuzz target for FUZZTIME.
fuzz: tools
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

tools:
	@test/stack/install.sh

.PHONY: bench-tools
bench-tools:
	@test/stack/install.sh bench

clean:
	rm -rf bin
