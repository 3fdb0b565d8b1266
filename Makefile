# What a developer runs. `make help` lists it.

GOTESTSUM  = go run gotest.tools/gotestsum@v1.13.0
GOLANGCI   = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
CACHE     ?= $(CURDIR)/.cache
# Where known vulnerabilities are looked up: the copy in deploy/vulndb, or with
# VULNDB=https://vuln.go.dev what is known now.
VULNDB    ?= file://$(CACHE)/vulndb
VULNCHECK  = go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db $(VULNDB) -test

SOAK      ?= 30m

.PHONY: help build warm warm-e2e test test-unit test-e2e lint vulndb bench bench-short soak clean notices

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## build ./quorate
	go build -trimpath -o quorate ./cmd/quorate

# What tests build is compiled before, so that it takes none of their time.
warm:
	go build -o /dev/null ./cmd/quorate

warm-e2e: warm
	cd e2e && go build -o /dev/null github.com/ava-labs/avalanchego/main

test: warm-e2e ## run every test, those against real nodes included
	@mkdir -p $(CACHE)
	go vet ./...
	cd bench && go vet ./...
	cd e2e && go vet ./...
	@status=0; \
	$(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/unit.json -- -race -timeout 15m ./... || status=1; \
	(cd bench && $(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/bench.json -- ./...) || status=1; \
	(cd e2e && E2E_CACHE=$(CACHE) $(GOTESTSUM) --format pkgname --jsonfile $(CACHE)/e2e.json -- -count=1 -timeout 20m ./...) || status=1; \
	echo "All tests:"; \
	$(GOTESTSUM) --format none --raw-command -- cat $(CACHE)/unit.json $(CACHE)/bench.json $(CACHE)/e2e.json || status=1; \
	exit $$status

test-unit: warm ## run the tests that need no real nodes
	go test -race -timeout 15m ./...

test-e2e: warm-e2e ## run the tests against real nodes (built once into .cache)
	cd e2e && E2E_CACHE=$(CACHE) go test -count=1 -timeout 20m -v ./...

lint: $(CACHE)/vulndb/index/db.json ## check formatting, run the linters, look for known vulnerabilities
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || (echo "run gofmt -w on these files" >&2; exit 1)
	$(GOLANGCI) run ./...
	cd bench && $(GOLANGCI) run ./...
	cd e2e && $(GOLANGCI) run ./...
	$(VULNCHECK) -C $(CURDIR) ./...
	$(VULNCHECK) -C $(CURDIR)/bench ./...
	$(VULNCHECK) -C $(CURDIR)/e2e ./...

$(CACHE)/vulndb/index/db.json: deploy/vulndb/vulndb.tar.gz
	rm -rf $(CACHE)/vulndb
	mkdir -p $(CACHE)/vulndb
	tar -xzmf $< -C $(CACHE)/vulndb

vulndb: ## renew the copy of the vulnerability database (FROM=a clone of github.com/golang/vulndb)
	go run ./deploy/vulndb "$(FROM)" deploy/vulndb

bench: ## run the short benchmarks; bench/README.md explains each
	go -C bench run ./blsbatch

bench-short: ## measure for about nine minutes, write docs/report and the README's figures
	go -C bench run ./report

soak: ## keep the service busy for half an hour while what it depends on fails; writes docs/soak.md
	go -C bench run ./soak -for $(SOAK) -out ../docs/soak.md

clean: ## remove what the targets made
	rm -rf quorate $(CACHE)

notices: ## write the licences of what is built in
	go run ./deploy/notices > THIRD_PARTY_NOTICES.new && mv THIRD_PARTY_NOTICES.new THIRD_PARTY_NOTICES
