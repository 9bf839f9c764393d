# claude-mem. `make` or `make help` lists what there is.

CARGO ?= cargo
BIN := target/bin
ARCH := $(shell uname -m)
# The hook starts fastest as a static musl binary. Where that cannot be built, the host's own target serves.
MUSL := $(if $(filter Linux,$(shell uname -s)),$(ARCH)-unknown-linux-musl)
MUSL_CC := $(shell command -v musl-gcc || command -v $(ARCH)-linux-musl-gcc)
HOOK_BUILD := $(CARGO) build --locked --quiet --profile hook --no-default-features --bin claude-mem-hook

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: hook ## Build both binaries, optimised, into target/bin
	@$(CARGO) build --locked --release --bin claude-mem
	@install -m 755 target/release/claude-mem $(BIN)/claude-mem

.PHONY: hook
hook:
	@mkdir -p $(BIN)
	@if [ -n "$(MUSL)" ] && [ -n "$(MUSL_CC)" ] && rustup target add $(MUSL) >/dev/null 2>&1 \
	   && $(HOOK_BUILD) --target $(MUSL); then \
	  install -m 755 target/$(MUSL)/hook/claude-mem-hook $(BIN)/claude-mem-hook; \
	else \
	  echo "note: no static hook here (it needs rustup and musl-gcc, Debian's musl-tools); building it for the host"; \
	  $(HOOK_BUILD) && install -m 755 target/hook/claude-mem-hook $(BIN)/claude-mem-hook; \
	fi

.PHONY: check
check: dependencies ## Format, lints, documentation, and what is used of others
	@.ci/timed format $(CARGO) fmt --check
	@.ci/timed lints $(CARGO) clippy --locked --all-targets -- -D warnings
	@.ci/timed 'lints of the hook' $(CARGO) clippy --locked --no-default-features --bin claude-mem-hook -- -D warnings
	@RUSTDOCFLAGS="-D warnings" .ci/timed documentation $(CARGO) doc --locked --no-deps --quiet

# Known vulnerabilities are in a database that has to be fetched: without it that part is left out, and said so.
ADVISORIES := https://github.com/rustsec/advisory-db

.PHONY: dependencies
dependencies:
	@if ! $(CARGO) deny --version >/dev/null 2>&1; then \
	  echo "skipped: cargo-deny is not installed (cargo install cargo-deny)"; \
	elif ! $(CARGO) fetch --locked --quiet 2>/dev/null; then \
	  echo "skipped: licences: what other systems than this one need cannot be fetched"; \
	else .ci/timed licences $(CARGO) deny --offline --locked check licenses bans sources; fi
	@if ! $(CARGO) audit --version >/dev/null 2>&1; then \
	  echo "skipped: cargo-audit is not installed (cargo install cargo-audit)"; \
	elif ! GIT_TERMINAL_PROMPT=0 git -c http.lowSpeedLimit=1 -c http.lowSpeedTime=20 ls-remote --quiet $(ADVISORIES) HEAD >/dev/null 2>&1; then \
	  echo "skipped: known vulnerabilities: $(ADVISORIES) cannot be reached"; \
	else .ci/timed vulnerabilities $(CARGO) audit; fi

.PHONY: test
test: check ## Everything that must hold
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  .ci/timed build $(CARGO) nextest run --locked --profile full --no-run --cargo-quiet \
	  && .ci/timed tests $(CARGO) nextest run --locked --profile full; \
	else .ci/timed tests $(CARGO) test --locked; fi

# Each target for so long, from its seeds and from what earlier runs found (fuzz/corpus, of which the useful part is packed).
SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
ONLY_FUZZ ?= $(FUZZ_TARGETS)

.PHONY: fuzz
fuzz: ## Feed every parser with nonsense, SECONDS=60 each (needs cargo-fuzz and a nightly toolchain)
	@if ! $(CARGO) fuzz --version >/dev/null 2>&1; then \
	  echo "skipped: cargo-fuzz is not installed (cargo install cargo-fuzz)"; exit 0; fi; \
	if ! $(CARGO) +nightly --version >/dev/null 2>&1; then \
	  echo "skipped: sanitizers need a nightly toolchain (rustup toolchain install nightly)"; exit 0; fi; \
	mkdir -p fuzz/corpus && tar -xkf fuzz/corpus.tar.xz -C fuzz/corpus 2>/dev/null; \
	found=; for target in $(ONLY_FUZZ); do \
	  echo "$$target:"; mkdir -p fuzz/corpus/$$target; \
	  $(CARGO) +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	    -max_total_time=$(SECONDS) -max_len=65536 -close_fd_mask=3 -print_final_stats=1 > target/fuzz-$$target.log 2>&1 \
	    || { found="$$found $$target"; grep 'cargo fuzz run' target/fuzz-$$target.log; }; \
	  grep -E 'number_of_executed_units|average_exec_per_sec|peak_rss_mb' target/fuzz-$$target.log; \
	done; \
	if [ -n "$$found" ]; then echo "something was found by:$$found (target/fuzz-*.log; the commands above show what)"; exit 1; fi

# What two targets find is large and slow to try: theirs stays here.
PACKED_FUZZ := $(filter-out import predecessor,$(FUZZ_TARGETS))

.PHONY: fuzz-corpus
fuzz-corpus: ## Pack what fuzzing found, as little as covers the same
	@rm -rf target/corpus; for target in $(PACKED_FUZZ); do mkdir -p target/corpus/$$target; \
	  $(CARGO) +nightly fuzz run $$target target/corpus/$$target fuzz/seeds/$$target fuzz/corpus/$$target -- \
	    -merge=1 -max_len=700 -close_fd_mask=3 > target/fuzz-$$target.log 2>&1 || exit 1; done
	@tar -C target/corpus --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf fuzz/corpus.tar.xz $(PACKED_FUZZ)

.PHONY: test-systemd
test-systemd: ## Only the service on a real systemd (as root; says why where it cannot)
	@$(CARGO) test --locked --test it systemd:: -- --nocapture

# The model is fetched once; without it evaluation and measurements are by words alone, and say so.
MODEL_CACHE ?= target/model-cache

# A failing seed says how to repeat it.
.PHONY: torture
torture: ## Try to break the programs by random schedules (make torture MINUTES=10, or SEED=7 STEPS=60)
	@CLAUDE_MEM_HOME=$(abspath target/tmp/model-cache) $(CARGO) run --locked --quiet --bin claude-mem -- model install || true
	@CLAUDE_MEM_TORTURE_SEED=$(or $(SEED),$(shell date +%s)) CLAUDE_MEM_TORTURE_STEPS=$(STEPS) \
	 CLAUDE_MEM_TORTURE_MINUTES=$(or $(MINUTES),$(if $(SEED),0,5)) \
	 $(CARGO) test --locked --quiet --test torture -- --nocapture whatever_happens

.PHONY: soak
soak: build ## Steady use, sampled and plotted as SVG (make soak MINUTES=5, or HOURS=8)
	@CLAUDE_MEM_TEST_BIN=$(CURDIR)/$(BIN) CLAUDE_MEM_SOAK_SECONDS=$(if $(HOURS),$(shell expr $(HOURS) \* 3600),$(shell expr $(or $(MINUTES),5) \* 60)) \
	 $(CARGO) test --locked --quiet --test torture -- --ignored --nocapture steady_use

.PHONY: bench
bench: build ## Measure, beside a baseline of the same run (make bench ONLY=hook)
	@rustc -O -C strip=symbols -o $(BIN)/nothing examples/nothing.rs
	@CLAUDE_MEM_HOME=$(abspath $(MODEL_CACHE)) $(BIN)/claude-mem model install >/dev/null || true
	@CLAUDE_MEM_BENCH_BIN=$(CURDIR)/$(BIN) CLAUDE_MEM_BENCH_RESULTS=$(CURDIR)/bench/results.json CLAUDE_MEM_EVAL_MODELS=$(abspath $(MODEL_CACHE))/models $(CARGO) bench --locked --quiet --bench bench -- $(ONLY)
	@$(CARGO) bench --locked --quiet --bench local --bench redact

# Where the programs go: ~/.local/bin, or PREFIX/bin.
PREFIX ?= $(HOME)/.local

.PHONY: install
install: build ## Build, copy to ~/.local/bin, wire the hooks, start the service, and see whether it works
	@$(BIN)/claude-mem install --bin-dir "$(PREFIX)/bin" $(INSTALL_FLAGS)
	@echo
	@"$(PREFIX)/bin/claude-mem" doctor

.PHONY: uninstall
uninstall: ## Take all of that back; what was remembered stays
	@if [ -x "$(PREFIX)/bin/claude-mem" ]; then "$(PREFIX)/bin/claude-mem" uninstall; \
	 else $(CARGO) run --locked --quiet --bin claude-mem -- uninstall; fi

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
OS := $(shell uname -s | tr A-Z a-z)
NAME := claude-mem-$(VERSION)-$(ARCH)-$(OS)
TREE := target/dist/$(NAME)
# A time for everything in the tarball, so that the same commit gives the same bytes.
EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

# Static, where the target is there: one tarball for every distribution. Otherwise for this one. Where it was built is nobody's
# business, and would make the same commit other bytes elsewhere.
.PHONY: dist-build
dist-build: export RUSTFLAGS := $(RUSTFLAGS) --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo --remap-path-prefix=$(CURDIR)=/claude-mem
dist-build: export CFLAGS := $(CFLAGS) -ffile-prefix-map=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
dist-build: hook
	@if [ -n "$(MUSL)" ] && [ -n "$(MUSL_CC)" ] && rustup target add $(MUSL) >/dev/null 2>&1 \
	   && $(CARGO) build --locked --release --target $(MUSL) --bin claude-mem; then \
	  install -m 755 target/$(MUSL)/release/claude-mem $(BIN)/claude-mem; \
	else \
	  echo "note: no static build here; building for the host"; \
	  $(CARGO) build --locked --release --bin claude-mem && install -m 755 target/release/claude-mem $(BIN)/claude-mem; \
	fi

.PHONY: dist-tree
dist-tree: dist-build
	@rm -rf $(TREE) && mkdir -p $(TREE)/bin $(TREE)/man $(TREE)/completions
	@install -m 755 $(BIN)/claude-mem $(BIN)/claude-mem-hook $(TREE)/bin/
	@$(BIN)/claude-mem man $(TREE)/man
	@for shell in bash zsh fish; do $(BIN)/claude-mem completions $$shell > $(TREE)/completions/claude-mem.$$shell; done
	@cp -R packaging config .claude-plugin $(TREE)/
	@cp README.md ARCHITECTURE.md CHANGELOG.md SECURITY.md LICENSE LICENSE-MIT LICENSE-APACHE $(TREE)/
	@mkdir -p $(TREE)/docs && cp docs/*.md $(TREE)/docs/

# Where a release is published. Nothing is assumed: without it, the formula takes the source tarball from this disk.
REPOSITORY ?=
SOURCE := claude-mem-$(VERSION)-source
SHA256 := $(if $(shell command -v sha256sum),sha256sum,shasum -a 256)

# The commit as it is, whatever else lies around.
.PHONY: source
source:
	@mkdir -p dist
	@git archive --format=tar --prefix=claude-mem-$(VERSION)/ HEAD | gzip -n9 > dist/$(SOURCE).tar.gz
	@cd dist && $(SHA256) $(SOURCE).tar.gz > $(SOURCE).tar.gz.sha256

.PHONY: formula
formula: source ## The Homebrew formula, in dist/ (make formula REPOSITORY=https://…, where releases are published)
	@sed -e 's|@REPOSITORY@|$(or $(REPOSITORY),file://$(CURDIR))|' \
	  -e 's|@URL@|$(if $(REPOSITORY),$(REPOSITORY)/releases/download/v$(VERSION),file://$(CURDIR)/dist)/$(SOURCE).tar.gz|' \
	  -e "s|@SHA256@|$$(cut -d ' ' -f 1 dist/$(SOURCE).tar.gz.sha256)|" -e 1d \
	  packaging/homebrew/claude-mem.rb.in > dist/claude-mem.rb

.PHONY: dist
dist: dist-tree formula ## A tarball with everything, the source, their checksums, and the Homebrew formula, in dist/
	@mkdir -p dist
	@if tar --version 2>/dev/null | grep -q GNU; then \
	  tar -C target/dist --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime=@$(EPOCH) -cf - $(NAME); \
	else tar -C target/dist -cf - $(NAME); fi | gzip -n9 > dist/$(NAME).tar.gz
	@cd dist && $(SHA256) $(NAME).tar.gz > $(NAME).tar.gz.sha256
	@cat dist/*.sha256

# Who answers for the package: unless somebody is named, the author of the commit.
MAINTAINER ?= $(shell git log -1 --format='%an <%ae>' 2>/dev/null)

.PHONY: deb
deb: dist-tree ## A Debian package, in dist/ (needs cargo-deb: cargo install cargo-deb)
	@rm -rf target/deb && mkdir -p dist target/deb
	@cp -R $(TREE)/bin $(TREE)/man $(TREE)/completions target/deb/
	@$(CARGO) deb --no-build --no-strip --maintainer "$(MAINTAINER)" --output dist/

.PHONY: eval
eval: ## How well search finds what was meant (make eval DATA=file.jsonl for data of your own)
	@CLAUDE_MEM_HOME=$(abspath $(MODEL_CACHE)) $(CARGO) run --locked --quiet --bin claude-mem -- model install || true
	@DATA=$(if $(DATA),$(abspath $(DATA))) CLAUDE_MEM_EVAL_MODELS=$(abspath $(MODEL_CACHE))/models $(CARGO) bench --locked --quiet --profile dev --bench eval

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
