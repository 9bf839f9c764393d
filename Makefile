# claude-mem. `make` or `make help` lists the targets.

CARGO ?= cargo
BIN := target/bin
ARCH := $(shell uname -m)
OS := $(shell uname -s | tr A-Z a-z)
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
HOOK_BUILD := MAKEFLAGS= $(CARGO) build --locked --quiet --profile hook --no-default-features --bin claude-mem-hook
# Linked statically and at a fixed address the hook starts in half the time (docs/decisions/013-hook.md). The C library for that comes
# with Debian's libc6-dev; Fedora has it in glibc-static.
HOOK_STATIC := --target $(HOST) --config 'target.$(HOST).rustflags = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"]'

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Side by side: the hook's last step uses one processor only. Without MAKEFLAGS, because cargo would take -j2 for its own limit.
.PHONY: build
build: ## Build both programs, optimised, into target/bin
	@$(MAKE) --no-print-directory -j2 service hook

.PHONY: service
service:
	@mkdir -p $(BIN)
	@MAKEFLAGS= $(CARGO) build --locked --release --bin claude-mem
	@install -m 755 target/release/claude-mem $(BIN)/claude-mem

.PHONY: hook
hook:
	@mkdir -p $(BIN)
	@if [ $(OS) = linux ] && $(HOOK_BUILD) $(DIST_FLAGS) $(HOOK_STATIC); then \
	  install -m 755 target/$(HOST)/hook/claude-mem-hook $(BIN)/claude-mem-hook; \
	else \
	  if [ $(OS) = linux ]; then echo "note: no static C library here (Fedora: glibc-static): the hook is linked dynamically and starts more slowly"; fi; \
	  $(HOOK_BUILD) $(DIST_FLAGS) && install -m 755 target/hook/claude-mem-hook $(BIN)/claude-mem-hook; \
	fi

.PHONY: check
check: dependencies ## Check format, lints, documentation and dependencies
	@.ci/timed format $(CARGO) fmt --check
	@.ci/timed lints $(CARGO) clippy --locked --all-targets -- -D warnings
	@.ci/timed 'lints of the hook' $(CARGO) clippy --locked --no-default-features --bin claude-mem-hook -- -D warnings
	@RUSTDOCFLAGS="-D warnings" .ci/timed documentation $(CARGO) doc --locked --no-deps --quiet
	@CARGO="$(CARGO)" .ci/timed 'types on macOS' .ci/check-macos

# The database of known vulnerabilities must be fetched: without network access that check is skipped with a note.
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
test: check ## Run all checks and tests
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  .ci/timed build $(CARGO) nextest run --locked --profile full --no-run --cargo-quiet \
	  && .ci/timed tests $(CARGO) nextest run --locked --profile full; \
	else .ci/timed tests $(CARGO) test --locked; fi

# Needs PostgreSQL and an optimised build, and takes ten minutes.
.PHONY: sync-figures
sync-figures: build ## Measure synchronisation: the first one, the steady state, 1,000 devices
	@CLAUDE_MEM_TEST_BIN=$(CURDIR)/$(BIN) $(CARGO) nextest run --run-ignored only --no-capture -E 'test(sync::figures)'

# Run time of each target in seconds. Starts from its seeds and the findings of earlier runs (fuzz/corpus; the useful part is packed).
SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
ONLY_FUZZ ?= $(FUZZ_TARGETS)

.PHONY: fuzz
fuzz: ## Fuzz every parser, SECONDS=60 each (needs cargo-fuzz and a nightly toolchain)
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
	if [ -n "$$found" ]; then echo "failures found by:$$found (see target/fuzz-*.log; repeat them with the commands above)"; exit 1; fi

# The findings of two targets are large and slow to run: they are not packed.
PACKED_FUZZ := $(filter-out import predecessor,$(FUZZ_TARGETS))

.PHONY: fuzz-corpus
fuzz-corpus: ## Pack the fuzzing corpus, minimised
	@rm -rf target/corpus; for target in $(PACKED_FUZZ); do mkdir -p target/corpus/$$target; \
	  $(CARGO) +nightly fuzz run $$target target/corpus/$$target fuzz/seeds/$$target fuzz/corpus/$$target -- \
	    -merge=1 -max_len=700 -close_fd_mask=3 > target/fuzz-$$target.log 2>&1 || exit 1; done
	@tar -C target/corpus --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf fuzz/corpus.tar.xz $(PACKED_FUZZ)

.PHONY: test-systemd
test-systemd: ## Test only the service on a real systemd (as root; prints the reason if it cannot)
	@$(CARGO) test --locked --test it install::systemd:: -- --nocapture

# The model is fetched once; without it evaluation and measurements cover search by words only, and report that.
MODEL_CACHE ?= target/model-cache

# A failing seed prints the command that repeats it.
.PHONY: torture
torture: ## Try to break the programs by random schedules (make torture MINUTES=10, or SEED=7 STEPS=60)
	@CLAUDE_MEM_HOME=$(abspath target/tmp/model-cache) $(CARGO) run --locked --quiet --bin claude-mem -- model install minilm || true
	@CLAUDE_MEM_TORTURE_SEED=$(or $(SEED),$(shell date +%s)) CLAUDE_MEM_TORTURE_STEPS=$(STEPS) \
	 CLAUDE_MEM_TORTURE_MINUTES=$(or $(MINUTES),$(if $(SEED),0,5)) \
	 $(CARGO) test --locked --quiet --test torture -- --nocapture every_accepted_event

.PHONY: soak
soak: build ## Sample and plot steady use as SVG (make soak MINUTES=5, or HOURS=8)
	@CLAUDE_MEM_TEST_BIN=$(CURDIR)/$(BIN) CLAUDE_MEM_SOAK_SECONDS=$(if $(HOURS),$(shell expr $(HOURS) \* 3600),$(shell expr $(or $(MINUTES),5) \* 60)) \
	 $(CARGO) test --locked --quiet --test torture -- --ignored --nocapture steady_use

.PHONY: bench
bench: build ## Measure against a baseline of the same run (make bench ONLY=hook)
	@rustc -O -C strip=symbols -o $(BIN)/nothing examples/nothing.rs
	@CLAUDE_MEM_HOME=$(abspath $(MODEL_CACHE)) $(BIN)/claude-mem model install >/dev/null || true
	@CLAUDE_MEM_BENCH_BIN=$(CURDIR)/$(BIN) CLAUDE_MEM_BENCH_RESULTS=$(CURDIR)/bench/results.json CLAUDE_MEM_EVAL_MODELS=$(abspath $(MODEL_CACHE))/models $(CARGO) bench --locked --quiet --bench bench -- $(ONLY)
	@$(CARGO) bench --locked --quiet --bench local --bench redact

.PHONY: screenshots
screenshots: build ## Take the screenshots of docs/viewer from an invented history (needs chromium and pngquant)
	@npm install --silent --no-audit --no-fund --prefix target/browser playwright-core
	@cd target/browser && node ../../docs/viewer/shoot.mjs $(CURDIR)/$(BIN) $(CURDIR)/docs/viewer
	@pngquant --force --ext .png 128 docs/viewer/*.png

# The programs are installed to PREFIX/bin.
PREFIX ?= $(HOME)/.local

.PHONY: install
install: build ## Build, install to ~/.local/bin, wire the hooks, start the service, and run doctor
	@$(BIN)/claude-mem install --bin-dir "$(PREFIX)/bin" $(INSTALL_FLAGS)
	@echo
	@"$(PREFIX)/bin/claude-mem" doctor

.PHONY: uninstall
uninstall: ## Remove hooks, service and programs; the data stays
	@if [ -x "$(PREFIX)/bin/claude-mem" ]; then "$(PREFIX)/bin/claude-mem" uninstall; \
	 else $(CARGO) run --locked --quiet --bin claude-mem -- uninstall; fi

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
NAME := claude-mem-$(VERSION)-$(ARCH)-$(OS)
TREE := target/packages/$(NAME)
# The timestamp of everything in the packages, so that the same commit gives the same bytes.
EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
MUSL := $(if $(filter linux,$(OS)),$(ARCH)-unknown-linux-musl)
MUSL_CC := $(shell command -v musl-gcc || command -v $(ARCH)-linux-musl-gcc)
SOURCES := $(or $(CARGO_HOME),$(HOME)/.cargo)

# Static if the musl target is available: one tarball for every distribution; otherwise for the host. Build paths are
# remapped: they are private, and would make the bytes of one commit differ between machines.
.PHONY: dist-build
dist-build: DIST_FLAGS := --config "target.'cfg(all())'.rustflags = ['--remap-path-prefix=$(SOURCES)=/cargo', '--remap-path-prefix=$(CURDIR)=/claude-mem']"
dist-build: export CFLAGS := $(CFLAGS) -ffile-prefix-map=$(SOURCES)=/cargo
dist-build: hook
	@if [ -n "$(MUSL)" ] && [ -n "$(MUSL_CC)" ] && rustup target add $(MUSL) >/dev/null 2>&1 \
	   && $(CARGO) build --locked --profile dist $(DIST_FLAGS) --target $(MUSL) --bin claude-mem; then \
	  install -m 755 target/$(MUSL)/dist/claude-mem $(BIN)/claude-mem; \
	else \
	  echo "note: without musl-gcc and its Rust target claude-mem is built for this system's C library"; \
	  $(CARGO) build --locked --profile dist $(DIST_FLAGS) --bin claude-mem && install -m 755 target/dist/claude-mem $(BIN)/claude-mem; \
	fi

.PHONY: dist-tree
dist-tree: dist-build
	@rm -rf $(TREE) && mkdir -p $(TREE)/bin $(TREE)/man $(TREE)/completions
	@install -m 755 $(BIN)/claude-mem $(BIN)/claude-mem-hook $(TREE)/bin/
	@$(BIN)/claude-mem man $(TREE)/man
	@install -m 644 packaging/man/claude-mem-hook.1 $(TREE)/man/
	@for shell in bash zsh fish; do $(BIN)/claude-mem completions $$shell > $(TREE)/completions/claude-mem.$$shell; done
	@cp -R packaging config .claude-plugin $(TREE)/
	@cp README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE LICENSE-MIT LICENSE-APACHE $(TREE)/
	@cp -R docs $(TREE)/

# The address where releases are published. Without it, formula and install script use the files on this disk.
REPOSITORY ?=
RELEASE := $(if $(REPOSITORY),$(REPOSITORY)/releases/download/v$(VERSION),file://$(CURDIR)/dist)
SOURCE := claude-mem-$(VERSION)-source
SHA256 := $(if $(shell command -v sha256sum),sha256sum,shasum -a 256)

# The commit alone, without untracked files.
.PHONY: source
source:
	@mkdir -p dist
	@git archive --format=tar --prefix=claude-mem-$(VERSION)/ HEAD | gzip -n9 > dist/$(SOURCE).tar.gz
	@cd dist && $(SHA256) $(SOURCE).tar.gz > $(SOURCE).tar.gz.sha256

.PHONY: formula
formula: source ## Write the Homebrew formula to dist/ (make formula REPOSITORY=https://…, where releases are published)
	@sed -e 's|@REPOSITORY@|$(or $(REPOSITORY),file://$(CURDIR))|' -e 's|@URL@|$(RELEASE)/$(SOURCE).tar.gz|' \
	  -e "s|@SHA256@|$$(cut -d ' ' -f 1 dist/$(SOURCE).tar.gz.sha256)|" -e 1d \
	  packaging/homebrew/claude-mem.rb.in > dist/claude-mem.rb

.PHONY: dist
dist: dist-tree formula ## Write tarballs, checksums, install script and Homebrew formula to dist/ (also: make dist REPOSITORY=https://…)
	@if tar --version 2>/dev/null | grep -q GNU; then \
	  tar -C target/packages --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime=@$(EPOCH) -cf - $(NAME); \
	else tar -C target/packages -cf - $(NAME); fi | gzip -n9 > dist/$(NAME).tar.gz
	@cd dist && $(SHA256) $(NAME).tar.gz > $(NAME).tar.gz.sha256
	@sed -e 's|@RELEASE@|$(RELEASE)|' -e 's|@VERSION@|$(VERSION)|' packaging/install.sh.in > dist/install.sh && chmod 755 dist/install.sh
	@cat dist/*.sha256

# The package's maintainer; by default the author of the commit.
MAINTAINER ?= $(shell git log -1 --format='%an <%ae>' 2>/dev/null)

.PHONY: deb
deb: dist-tree ## Write a Debian package to dist/ (needs dpkg-deb)
	@mkdir -p dist
	@SOURCE_DATE_EPOCH=$(EPOCH) packaging/debian/build $(TREE) $(VERSION) "$(MAINTAINER)" dist

.PHONY: eval
eval: ## Measure the recall of search (DATA=file.jsonl for your own data; also LOCOMO, HISTORY, QUESTIONS)
	@CLAUDE_MEM_HOME=$(abspath $(MODEL_CACHE)) $(CARGO) run --locked --quiet --bin claude-mem -- model install || true
	@DATA=$(if $(DATA),$(abspath $(DATA))) LOCOMO=$(if $(LOCOMO),$(abspath $(LOCOMO))) HISTORY=$(if $(HISTORY),$(abspath $(HISTORY))) \
	 QUESTIONS=$(if $(QUESTIONS),$(abspath $(QUESTIONS))) CLAUDE_MEM_EVAL_MODELS=$(abspath $(MODEL_CACHE))/models $(CARGO) bench --locked --quiet --profile dev --bench eval

# DATA has a folder for each project, with transcripts in claude/**/*.jsonl. Also: ONLY=notes|tokens, SEED, SAMPLE, TURNS
# (benches/eval_notes/main.rs). Optimising our own code a little halves the time; the dependencies are those of the tests.
.PHONY: eval-notes
eval-notes: ## Replay transcripts and print figures about their notes (make eval-notes DATA=dir)
	@DATA=$(if $(DATA),$(abspath $(DATA))) ONLY=$(ONLY) SEED=$(SEED) SAMPLE=$(SAMPLE) TURNS=$(TURNS) \
	 $(CARGO) bench --locked --quiet --profile dev --config profile.dev.package.claude-mem.opt-level=1 --bench eval_notes

# The same transcripts in order of time: each session gets the context that memory had then. Also: SEED, STARTS, MOMENTS
# (benches/eval_recall/main.rs). The sample to read is written to target/eval-recall.
.PHONY: eval-recall
eval-recall: ## Replay transcripts and print figures about the context of sessions (make eval-recall DATA=dir)
	@DATA=$(if $(DATA),$(abspath $(DATA))) SEED=$(SEED) STARTS=$(STARTS) MOMENTS=$(MOMENTS) \
	 $(CARGO) bench --locked --quiet --profile dev --config profile.dev.package.claude-mem.opt-level=1 --bench eval_recall

# The same replay: memories that starts show although their code is gone or reversed (benches/eval_true/main.rs).
.PHONY: eval-true
eval-true: ## Replay transcripts and count memories that no longer hold (make eval-true DATA=dir)
	@CLAUDE_MEM_HOME=$(abspath $(MODEL_CACHE)) $(CARGO) run --locked --quiet --bin claude-mem -- model install || true
	@DATA=$(if $(DATA),$(abspath $(DATA))) CLAUDE_MEM_EVAL_MODELS=$(abspath $(MODEL_CACHE))/models \
	 $(CARGO) bench --locked --quiet --profile dev --config profile.dev.package.claude-mem.opt-level=1 --bench eval_true

.PHONY: clean
clean: ## Remove build output
	$(CARGO) clean
