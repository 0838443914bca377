GO          ?= go
# Steps of the differential test, in `make test` and in `make oracle`.
STEPS        ?= 200000
ORACLE_STEPS ?= 10000000
STATICCHECK  ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
COMPONENTS   := .components.env

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

.PHONY: build
build: ## build ./shadowlimit
	$(GO) build -o shadowlimit ./cmd/shadowlimit

.PHONY: test
test: components ## run all tests, also on a real Redis; installs missing components and names them
	$(GO) test ./...
	cd examples && $(GO) test ./...
	. ./$(COMPONENTS) && cd integration && $(GO) test -timeout 20m -steps $(STEPS)

.PHONY: servers
servers: ## run the suites on Redis 6.0, 7.0, 8.0 and Valkey 8.1, which are fetched from Debian and not installed
	GO="$(GO)" integration/servers.sh

.PHONY: long
long: components servers ## search for programs in which twins differ: thousands, drawn anew each time
	SHADOWLIMIT_LONG=1 $(GO) test ./shadow -run 'Twins' -rapid.checks 2000 -timeout 0

.PHONY: check
check: components ## run gofmt, vet, staticcheck, and all tests with the race detector
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'gofmt: run gofmt -w on these files'; exit 1; }
	$(GO) mod tidy -diff && cd integration && $(GO) mod tidy -diff && cd ../examples && $(GO) mod tidy -diff
	$(GO) vet ./... && $(GO) run $(STATICCHECK) ./...
	cd integration && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...
	cd examples && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./... && $(GO) test -race ./...
	$(GO) test -race -shuffle=on ./...
	. ./$(COMPONENTS) && cd integration && $(GO) test -race -timeout 20m

.PHONY: oracle
oracle: components ## compare Go, Redis and miniredis with the oracle for ORACLE_STEPS steps (10 million)
	. ./$(COMPONENTS) && cd integration && $(GO) test -timeout 0 -v -run TestDifferential -steps $(ORACLE_STEPS)

.PHONY: bench
bench: components ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...
	. ./$(COMPONENTS) && cd integration && $(GO) test -run '^$$' -bench . -benchmem

.PHONY: components
components:
	@integration/components.sh $(COMPONENTS)
