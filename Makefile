# What a developer runs. `make help` lists it.

GOTESTSUM  = go run gotest.tools/gotestsum@v1.13.0
# One summary of all modules' tests, which ends the output.
SUMMARY    = echo "All modules:"; $(GOTESTSUM) --format none --raw-command -- cat $(CACHE)/*.json
GOLANGCI   = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
CACHE     ?= $(CURDIR)/.cache
# Where known vulnerabilities are looked up: the copy in deploy/vulndb, or with
# VULNDB=https://vuln.go.dev what is known now.
VULNDB    ?= file://$(CACHE)/vulndb
VULNCHECK  = go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db $(VULNDB) -test

# make lint vets. Before tests, vet would analyse all dependencies once more.
NOVET      = -vet=off
# Go does not see that results depend on the service that a test builds, or on files of another module.
UNCACHED   = -count=1
# The tests against real networks that make test runs.
NETWORKS   = ^(TestWarpMessages|TestNodeSurface)$$
# The tests that drive a browser over the service, which they build. make test runs them without other packages, which would
# take the processors that pages need to be ready in time.
BROWSER    = TestConsoleInABrowser|TestReferenceInABrowser
BROWSER_IN = ./handlers/console/browsertest
# Tests with the directive test:plain compare results of one goroutine, or after processes were killed, with the truth.
# The race detector only makes them slower.
MARKED     = grep -r --include='*_test.go' '^//test:plain$$'
PLAIN      = $(shell $(MARKED) -hA1 . | sed -n 's/^func \(Test[A-Za-z0-9_]*\).*/\1/p' | sort -u | paste -sd'|')
PLAIN_IN   = $(shell $(MARKED) -l . | xargs -n1 dirname | sort -u)
# The packages whose tests take longest begin first.
LONGEST    = ./internal/store ./internal/index/primary ./cmd/quorate

SOAK      ?= 30m
FUZZ      ?= 10m
FUZZERS   ?= $(shell getconf _NPROCESSORS_ONLN)

# The file descriptors of a process: simulated networks need several thousand.
FILES      = ulimit -n "$$(ulimit -Hn)" 2>/dev/null || true

.PHONY: help build deps test test-all fuzz lint vulndb bench bench-short soak clean notices release

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## build ./quorate
	go build -trimpath -buildvcs=auto -o quorate ./cmd/quorate

deps: ## install what the tests need, where apt may be used
	@internal/testenv/install.sh
	@mkdir -p $(CACHE)

test: deps ## run what every change must pass: the product's tests, and two against real networks
	@$(FILES); status=0; rm -f $(CACHE)/*.json; \
	$(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/unit.json -- $(NOVET) -short -skip '^($(BROWSER))$$' -p 4 -timeout 10m ./... || status=1; \
	$(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/browser.json -- $(NOVET) $(UNCACHED) -run '^($(BROWSER))$$' -timeout 10m $(BROWSER_IN) || status=1; \
	(cd e2e && export E2E_CACHE=$(CACHE) && go run ./localnet/build && $(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/e2e.json -- $(NOVET) $(UNCACHED) -short -run '$(NETWORKS)' -timeout 10m ./...) || status=1; \
	$(SUMMARY) || status=1; exit $$status

test-all: deps ## run every test of all modules, also the slow ones, with the race detector and against all kinds of real networks
	@$(FILES); status=0; rm -f $(CACHE)/*.json; \
	$(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/unit.json -- $(NOVET) -race -skip '^($(PLAIN)|$(BROWSER))$$' -p 3 -timeout 40m $(LONGEST) ./... || status=1; \
	(status=0; \
	nice $(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/plain.json -- $(NOVET) -run '^($(PLAIN))$$' -timeout 20m $(PLAIN_IN) || status=1; \
	$(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/browser.json -- $(NOVET) $(UNCACHED) -run '^($(BROWSER))$$' -timeout 20m $(BROWSER_IN) || status=1; \
	(cd bench && $(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/bench.json -- $(NOVET) $(UNCACHED) ./...) || status=1; \
	(cd deploy/helm && $(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/helm.json -- $(NOVET) $(UNCACHED) ./...) || status=1; \
	exit $$status) & others=$$!; \
	(cd e2e && export E2E_CACHE=$(CACHE) && go run ./localnet/build -subnet-evm && $(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/e2e.json -- $(NOVET) $(UNCACHED) -timeout 25m ./...) || status=1; \
	wait $$others || status=1; \
	$(SUMMARY) || status=1; exit $$status

fuzz: ## give each parser hostile input for FUZZ, FUZZERS of them at a time
	@grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sed -E 's,/[^/]*:func , ,' | sort | \
	xargs -n 2 -P $(FUZZERS) sh -c 'out=$$(go test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZ) -parallel 1 "$$0" 2>&1); status=$$?; \
		echo "$$0 $$1"; echo "$$out" | if [ $$status = 0 ]; then tail -3; else cat; fi; exit $$status'

lint: $(CACHE)/vulndb/index/db.json ## check formatting, run the linters, look for known vulnerabilities
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || (echo "run gofmt -w on these files" >&2; exit 1)
	$(GOLANGCI) run ./...
	cd bench && $(GOLANGCI) run ./...
	cd e2e && $(GOLANGCI) run ./...
	cd deploy/helm && $(GOLANGCI) run ./...
	$(VULNCHECK) -C $(CURDIR) ./...
	$(VULNCHECK) -C $(CURDIR)/bench ./...
	$(VULNCHECK) -C $(CURDIR)/e2e ./...

$(CACHE)/vulndb/index/db.json: deploy/vulndb/vulndb.tar.gz
	rm -rf $(CACHE)/vulndb
	mkdir -p $(CACHE)/vulndb
	tar -xzmf $< -C $(CACHE)/vulndb

vulndb: ## renew the copy of the vulnerability database (FROM=a clone of github.com/golang/vulndb)
	go run ./deploy/vulndb "$(FROM)" deploy/vulndb

bench: ## verify signatures of one message as one batch, and one by one; bench/README.md has all benchmarks
	go test ./bls -run xxx -bench Verify -cpu 1

bench-short: ## measure for about five minutes, write docs/benchmarks.md and docs/report
	go -C bench run ./report

soak: ## keep the service busy for half an hour while what it depends on fails; writes docs/soak.md
	go -C bench run ./soak -for $(SOAK) -out ../docs/soak.md

release: ## write what is released into dist: archives, packages, the chart, checksums
	deploy/release.sh dist

clean: ## remove what the targets made
	rm -rf quorate dist $(CACHE)

notices: ## write the licences of what is built in
	go run ./deploy/notices > THIRD_PARTY_NOTICES.new && mv THIRD_PARTY_NOTICES.new THIRD_PARTY_NOTICES
