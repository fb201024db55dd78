# What is done often in this checkout. `make` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build images demo test host-test soak bench docs deb tarball reproduce sbom audit fmt lint clean cargo root tools

# Finds a container engine, or starts one for the time of the command; see the script.
ENGINE := packaging/engine.sh run --
IMAGES := packaging/images/build.sh

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS=$$'\t' read -r name text; do printf '  make %-9s %s\n' "$$name" "$$text"; done

build: cargo ## compile stokerd and stokerctl, optimised (target/release)
	cargo build --release

images: ## build the container images, those that changed
	$(ENGINE) $(IMAGES)

# The programs are built with the example, so that they all share one set of crates.
demo: cargo root ## show one host at work, with a browser and a sandbox
	$(ENGINE) sh -c '$(IMAGES) --only chromium --only python && \
	    cargo build --release --bins --example demo && cargo run --quiet --release --example demo'

# The tests come last, so that their count is the last thing on the screen; nothing before them keeps them from running.
# The demo is a test too (tests/it/demo.rs), so it is built before.
test: root lint tools ## check format and lints, then run every test: a whole host in a virtual machine, and against a real engine
	cargo test --doc
	runner='cargo nextest run'; cargo nextest --version >/dev/null 2>&1 || runner='cargo test --lib --bins --tests'; \
	    $(ENGINE) sh -c "$(IMAGES) && cargo build --bins --example demo && { code=0; tests/host/run.sh || code=1; \
	    STOKER_REQUIRE_DOCKER=1 $$runner && exit \$$code; }"

SEEDS ?= 20
HOURS ?= 2
soak: cargo ## play the drawn and the stress runs with many seeds, and each workload for long: SEEDS=20 HOURS=2
	STOKER_SEEDS=$(SEEDS) cargo test --release --test it stress:: -- --nocapture
	STOKER_SEEDS=$$(( $(SEEDS) * 50 )) cargo test --release --test it sim::whatever -- --nocapture
	cargo build --release --bins
	while read -r workload profile; do for seed in $$(seq $(SEEDS)); do \
	    echo "$$workload, seed $$seed"; target/release/stokerctl simulate profiles/$$profile.toml --workload workloads/$$workload.toml \
	    --seed $$seed --hours $(HOURS) --check --json >/dev/null; done; done \
	    <<< $$'bad-day dev\nevaluation sandbox-64g\nheavy-pages browser-64g\nmixed-day mixed-256g'

host-test: cargo root tools ## the part of it with the virtual machine: systemd and cgroup v2, the package installed
	$(ENGINE) sh -c '$(IMAGES) --only tiny && tests/host/run.sh'

bench: cargo root ## measure what lending, looking and the daemon itself cost, against their bars
	$(ENGINE) sh -c '$(IMAGES) --only tiny && \
	    cargo build --release --bins --example bench && cargo run --quiet --release --example bench'

docs: cargo ## write manual pages, completions, the catalog and notices (target/docs), and packaging/host.toml
	rm -rf target/docs
	cargo run --quiet --example docs -- target/docs
	cargo run --quiet --example docs -- --host-toml packaging/host.toml

# Paths of the machine that builds are left out, and times are the last commit's, so that the same sources give the same
# packages anywhere with the same compiler; `make reproduce` shows whether they do.
FLAGS := --remap-path-prefix=$$PWD=. --remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=cargo
PACKAGE = STOKER_BUILD="$$(git describe --always --dirty 2>/dev/null || echo unknown)" \
    SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)" CARGO_INCREMENTAL=0 \
    RUSTFLAGS="$(FLAGS)" CARGO_TARGET_DIR=target/package
# tool NAME VERSION: installs a cargo tool of that name where there is none.
tool = command -v cargo-$(1) >/dev/null || cargo install --locked cargo-$(1)@$(2)

deb: docs ## build the package for Debian and Ubuntu (target/deb)
	$(call tool,deb,3.8.0)
	rm -rf target/deb && mkdir -p target/deb
	$(PACKAGE) cargo deb --locked --strip --no-dbgsym --output target/deb/
	! command -v lintian >/dev/null || lintian --fail-on error target/deb/*.deb
	@ls target/deb/*.deb

# What the .deb has, for other distributions, with a script that puts it there. Their C library may be older or another one,
# so the programs bring theirs; they ask it for no names of users, groups or hosts, which is what cannot be linked in.
tarball: private FLAGS += -C target-feature=+crt-static -C strip=symbols
tarball: deb ## build the archive for other distributions (target/tarball)
	host=$$(rustc -vV | sed -n 's/^host: //p'); \
	    $(PACKAGE) cargo build --release --locked --bins --target "$$host" && \
	    packaging/tarball.sh target/deb/*.deb "target/package/$$host/release" target/tarball

reproduce: cargo ## build the packages of the last commit twice, in two places, and compare them byte by byte
	packaging/reproduce.sh

sbom: cargo ## list what is built in, as CycloneDX (target/sbom/stoker.cdx.json)
	$(call tool,cyclonedx,0.5.9)
	SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" cargo cyclonedx --format json --spec-version 1.5 --describe crate
	mkdir -p target/sbom && mv stoker.cdx.json target/sbom/

audit: cargo ## ask for unfit licences and known faults of what is built in (these from the network)
	$(call tool,deny,0.20.2)
	cargo deny --offline check licenses bans sources
	cargo deny check advisories

fmt: cargo ## format the source
	cargo fmt

lint: cargo ## check format and lints
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

clean: cargo ## remove what was built here, and stop a private engine that was left behind
	packaging/engine.sh down
	cargo clean

tools:
	@packaging/tools.sh

cargo:
	@command -v cargo >/dev/null || { echo 'there is no cargo; install Rust from https://rustup.rs (packages of distributions are too old)' >&2; exit 69; }

root:
	@[ "$$(id -u)" = 0 ] || { echo 'stokerd enters the network namespaces of containers, which needs root: sudo env "PATH=$$PATH" make ...' >&2; exit 77; }
