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
check: ## Format, lints and documentation
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --no-default-features --bin claude-mem-hook -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --offline check licenses bans sources; \
	 else echo "skipped: cargo-deny is not installed (cargo install cargo-deny)"; fi

.PHONY: test
test: check ## Everything that must hold
	@if $(CARGO) nextest --version >/dev/null 2>&1; then $(CARGO) nextest run --locked --profile full; else $(CARGO) test --locked; fi

.PHONY: test-systemd
test-systemd: ## Only the service on a real systemd (as root; says why where it cannot)
	@$(CARGO) test --locked --test it systemd:: -- --nocapture

.PHONY: bench
bench: build ## Measure, beside a baseline of the same run (make bench ONLY=hook)
	@$(CARGO) build --locked --quiet --release --example nothing
	@install -m 755 target/release/examples/nothing $(BIN)/nothing
	@CLAUDE_MEM_BENCH_BIN=$(CURDIR)/$(BIN) $(CARGO) bench --locked --quiet --bench bench -- $(ONLY)
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

.PHONY: eval
eval: ## How well search finds what was meant (make eval DATA=file.jsonl for data of your own)
	@DATA=$(if $(DATA),$(abspath $(DATA))) $(CARGO) bench --locked --quiet --bench eval

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
