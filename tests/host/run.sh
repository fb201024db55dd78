#!/usr/bin/env bash
# The host test: boots a virtual machine with Debian 12, systemd, cgroup v2 and Docker, and runs `checks/` inside. Before
# that lintian reads the package, which counts as a check.
#
# Prints `ok NAME` or `FAILED NAME: WHY` for each check and closes with `N passed, N failed`. A check is a script in
# `checks/` with a number for its place; it sources guest/lib.sh, and has what the ones before it left; the last ones
# come after a reboot. The image stoker/tiny must be in the engine at DOCKER_HOST.
#
#   tests/host/run.sh [CHECK]...   all checks, or those whose names begin like this; 02 installs what the others need
#
# STOKER_HOST_CACHE: where the base disk is kept (/var/cache/stoker-host). STOKER_HOST_ACCEL: qemu's accelerator; tcg,
# software alone, works everywhere; kvm is much faster where it works. What it needs comes by apt-get where it is missing.
# Where it cannot run at all it says SKIPPED and succeeds; with CI=true or STOKER_REQUIRE_HOST=1 it fails.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
deadline=1500 # seconds from the boot to the end, for a machine that is stuck; a quiet host needs less than half of it
scratch='' machine='' base='' checks=("${@:-}")

say() { printf '%s\n' "$*"; }

# cannot WHY: this machine cannot run the test.
cannot() {
    if [[ ${CI:-} == true || ${STOKER_REQUIRE_HOST:-} == 1 ]]; then
        say "FAILED host test: $*"
        exit 1
    fi
    say "SKIPPED: no host test here: $*"
    exit 0
}

# needs PROGRAM PACKAGE...
needs() {
    command -v "$1" >/dev/null && return
    { command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; } || cannot "there is no $1 (Debian's package $2)"
    say "installing ${*:2} with apt-get"
    { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 install \
        --no-install-recommends "${@:2}"; } >"$scratch/apt.log" 2>&1 || { tail -n 5 "$scratch/apt.log"; cannot "$2 could not be installed"; }
}

# shellcheck disable=SC2317 # called by a trap
clean() {
    if [[ -n $machine ]]; then
        kill -KILL "$machine" 2>/dev/null || true
        wait "$machine" 2>/dev/null || true
    fi
    [[ -z $scratch ]] || rm -rf --one-file-system -- "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP
scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/stoker-host.XXXXXX")

# shellcheck source=tests/host/disk.sh
. "$here/disk.sh"

# packages FOLDER: the package, and one of an earlier version with the same in it, to upgrade from.
packages() {
    cd "$here/../.." || return
    # The version of the tool is the Makefile's.
    command -v cargo-deb || cargo install --locked cargo-deb@3.8.0 || return
    make docs && for version in 0.0.1 0.0.2; do
        # The Makefile's options, but what is there already, and packed in a hurry.
        cargo deb --profile dev --no-build --strip --no-dbgsym --fast --deb-version "$version" --output "$1/stoker-$version.deb" || return
    done
}

# lint PACKAGE: counts in `passed` or `failed`; nothing is installed for it here.
lint() {
    if ! command -v lintian >/dev/null; then
        if [[ ${CI:-} == true || ${STOKER_REQUIRE_HOST:-} == 1 ]]; then
            say "FAILED lintian: there is none (Debian's package lintian; packaging/tools.sh brings it)"
            ((failed += 1))
        else
            say "SKIPPED: the package is not looked at, there is no lintian"
        fi
    elif lintian --fail-on error "$1" >"$scratch/lintian.log" 2>&1; then
        say "ok lintian"
        ((passed += 1))
    else
        say "FAILED lintian: $(grep -m 1 '^E:' "$scratch/lintian.log" || tail -n 1 "$scratch/lintian.log")"
        sed 's/^/    /' "$scratch/lintian.log"
        ((failed += 1))
    fi
}

# What the guest is handed: one folder, as a disk that is only read.
payload() {
    local folder=$scratch/payload target=$here/../.. tests check
    mkdir -p "$folder/bin"
    # With the example, so that programs and tests share one set of crates.
    (cd "$target" && cargo build --bins --example demo)
    tests=$(cd "$target" && cargo test --lib --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    target=$(dirname "$(dirname "$tests")") # which is elsewhere with CARGO_TARGET_DIR
    cp "$tests" "$folder/bin/stoker-tests"
    strip "$folder"/bin/* # a tenth remains, and the guest reads it from an emulated disk
    cp -r "$here/guest" "$folder/"
    packages "$folder" >"$scratch/packages.log" 2>&1 || { tail -n 20 "$scratch/packages.log"; say "FAILED host test: no package"; exit 1; }
    mkdir "$folder/checks"
    for check in "${checks[@]}"; do cp "$here/checks/$check"* "$folder/checks/"; done
    docker save stoker/tiny:latest >"$folder/tiny.tar" || { say "there is no image stoker/tiny; packaging/images/build.sh makes it"; exit 69; }
    truncate -s 512M "$scratch/payload.ext4"
    mkfs.ext4 -q -O ^has_journal -d "$folder" "$scratch/payload.ext4"
}

# An old processor and no mitigations: what it does not have need not be emulated, which is a third of the time.
# The guest's reports come over a port of their own, so that they are whole lines whatever the console says.
boot() {
    qemu-img create -q -f qcow2 -b "$base/disk.ext4" -F raw "$scratch/disk.qcow2"
    mkfifo "$scratch/report"
    qemu-system-x86_64 -nodefaults -no-user-config -display none -nic none \
        -machine q35 -accel "${STOKER_HOST_ACCEL:-tcg}" -cpu Nehalem -smp 2 -m 4096 \
        -kernel "$base/vmlinuz" -initrd "$base/initrd.img" -append "root=/dev/vda rw console=ttyS0 psi=1 panic=-1 mitigations=off loglevel=4" \
        -drive "file=$scratch/disk.qcow2,if=virtio,format=qcow2,cache=unsafe" \
        -drive "file=$scratch/payload.ext4,if=virtio,format=raw,readonly=on" \
        -device virtio-rng-pci -serial "file:$scratch/console" \
        -device virtio-serial-pci -chardev "file,id=report,path=$scratch/report" -device virtserialport,chardev=report,name=stoker \
        </dev/null >"$scratch/qemu.log" 2>&1 &
    machine=$!
}

# Passes on what the guest says; counts `passed` and `failed`, and when it said so sets `ended`.
listen() {
    local line end=$((SECONDS + deadline))
    ended=''
    while ((SECONDS < end)) && IFS= read -r -t $((end - SECONDS)) line; do
        case $line in
        end) ended=1; break ;;
        ok\ *) ((passed += 1)) ;;
        FAILED\ *) ((failed += 1)) ;;
        esac
        say "$line"
    done <"$scratch/report"
}

[[ $(uname -m) == x86_64 ]] || cannot "the machine it boots runs this host's programs, and is an x86_64 one"
needs qemu-system-x86_64 qemu-system-x86
needs qemu-img qemu-utils
needs mkfs.ext4 e2fsprogs
needs strip binutils
base_disk
payload
passed=0 failed=0
lint "$scratch/payload/stoker-0.0.1.deb"
began=$SECONDS
boot
listen
if [[ -z $ended ]]; then
    ((failed += 1))
    why="the guest ended before its checks did"
    ((SECONDS - began < deadline)) || why="not done within $deadline s"
    say "FAILED machine: $why; the end of its console:"
    tail -n 40 "$scratch/console" "$scratch/qemu.log" | tr -d '\r' | sed 's/^/    /'
fi
say "host test: $passed passed, $failed failed, in $((SECONDS - began)) s"
((failed == 0 && passed > 0))
