GO          ?= go
# `make test` has fewer programs of property tests and no tests that wait long; `make long` has all.
SHORT        ?= -short
# Steps of the differential test, in `make test` and in `make oracle`.
STEPS        ?= $(if $(SHORT),4000,200000)
ORACLE_STEPS ?= 10000000
# Tests of processes that run at once: they wait for most of their time.
WAITING      ?= 8
STATICCHECK  ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
COMPONENTS   := .components.env
# Tests and compilers of minutes have memory enough to collect it less often. Benchmarks have the default.
export GOGC  ?= 400
bench scale: export GOGC := 100
# Tests of integration and of servers wait for most of their time, so two targets run at once: of `make test` first integration, as
# all targets that could begin before it wait for the components.
MAKEFLAGS    += -j2
# Modules of adapters: a framework that the library itself does not need.
ADAPTERS     := $(patsubst %/go.mod,%,$(wildcard adapters/*/go.mod shadow/httplimit/*/go.mod envoy/go.mod))

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

.PHONY: build
build: ## build ./shadowlimit
	$(GO) build -o shadowlimit ./cmd/shadowlimit

.PHONY: test testintegration testroot testmodules
test: testintegration testroot testmodules ## run the tests, also on a real Redis, but for those that take long; installs missing components and names them

testintegration: components
	. ./$(COMPONENTS) && cd integration && $(GO) test $(SHORT) -vet=off -timeout 20m -parallel $(WAITING) -steps $(STEPS)

testroot: components
	$(GO) test $(SHORT) -vet=off ./...

testmodules: components
	. ./$(COMPONENTS) && cd bench && $(GO) test -vet=off -count=1 ./... # reads README.md and docs, which the cache of tests does not know
	set -e; for m in examples examples/otel; do (cd $$m && $(GO) test -vet=off ./...); done
	cd release && $(GO) test $(SHORT) -vet=off ./...
	cd deploy && $(GO) test -vet=off ./...
	set -e; for m in $(ADAPTERS); do (cd $$m && $(GO) test -vet=off ./...); done

.PHONY: servers
servers: components ## run the suites on Redis 6.0, 7.0, 8.0 and Valkey 8.1, which are fetched from Debian and not installed
	GO="$(GO)" SHORT="$(SHORT)" SERVER_STEPS="$(if $(SHORT),$(STEPS))" integration/servers.sh

.PHONY: search
search: ## look for a step on which a server differs from the oracle, in STEPS (1000000) steps from SEED (1) on
	SEARCH_STEPS="$(or $(STEPS),1000000)" SEED="$(or $(SEED),1)" GO="$(GO)" integration/servers.sh

.PHONY: alerts
alerts: components ## run the cases of all alerts by promtool
	. ./$(COMPONENTS) && $(GO) test ./alerts

.PHONY: mutants
mutants: components ## delete each condition of each alert, or of ALERT, and require that a case of promtool fails
	. ./$(COMPONENTS) && cd integration && SHADOWLIMIT_LONG=1 $(GO) test -run 'EveryConditionOfARule/$(ALERT)' -count=1 -timeout 20m

.PHONY: long
long: components mutants ## search for programs in which twins, models or ledgers fail: thousands, others each time
	$(MAKE) test servers SHORT=
	SHADOWLIMIT_LONG=1 $(GO) test ./shadow -run 'Twins|DisturbedTime' -rapid.checks 2000 -timeout 0
	SHADOWLIMIT_LONG=1 $(GO) test ./shadow ./internal/evidence -run 'FleetKeepsItsPromises|Ledger' -rapid.checks 5000 -timeout 0
	. ./$(COMPONENTS) && cd integration && SHADOWLIMIT_LONG=1 $(GO) test -run 'LeadersThatStop|^TestNight$$' -count=1 -timeout 30m
	. ./$(COMPONENTS) && cd integration && $(GO) test -run RandomDisturbances -disturbances 300 -seed 0 -timeout 60m -v

.PHONY: scale
scale: components ## measure fleets of 10 to 1,000 instances and write docs/performance.md; PART=fleets, commands, keys or ledger
	. ./$(COMPONENTS) && cd integration && SHADOWLIMIT_SCALE=$(or $(PART),all) $(GO) test -v -count=1 -timeout 0 -run '^TestScale$$'

.PHONY: lint
lint: components ## run gofmt, go mod tidy, vet and staticcheck on all modules
	@files=$$(gofmt -l .); test -z "$$files" || { echo "$$files"; echo 'gofmt: run gofmt -w on these files'; exit 1; }
	set -e; for m in . integration bench examples examples/otel release deploy $(ADAPTERS); do (cd $$m && $(GO) mod tidy -diff && nice $(GO) vet ./... && nice $(GO) run $(STATICCHECK) ./...); done # nice to tests that watch the time

.PHONY: check
check: lint components ## run lint, and all tests with the race detector
	$(GO) test -race -shuffle=on ./...
	set -e; for m in examples examples/otel $(ADAPTERS); do (cd $$m && $(GO) test -race ./...); done
	. ./$(COMPONENTS) && cd integration && $(GO) test -race -timeout 20m -parallel $(WAITING)

.PHONY: oracle
oracle: components ## compare Go, Redis and miniredis with the oracle for ORACLE_STEPS steps (10 million)
	. ./$(COMPONENTS) && cd integration && $(GO) test -timeout 0 -v -run TestDifferential -steps $(ORACLE_STEPS)

.PHONY: bench
bench: components ## compare with other limiters and write docs/performance.md; ROUNDS=1 only runs, PART=redis,memory chooses
	. ./$(COMPONENTS) && cd bench && $(GO) run . -rounds $(or $(ROUNDS),15) -parts $(or $(PART),all) -write ../docs/performance.md

.PHONY: release
release: ## make VERSION (v0.9.0) in dist: modules as a GOPROXY has them, binaries, checksums, SPDX lists, images, and tags here
	cd release && $(GO) run . -version "$(VERSION)" -out ../dist

.PHONY: components
components:
	@integration/components.sh $(COMPONENTS)
