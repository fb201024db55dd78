#!/usr/bin/env bash
# Builds the images that the tests, the demo and the example profiles use, with the engine at DOCKER_HOST:
#
#   stoker/base:bookworm     Debian without documentation and setuid programs; the others stand on it
#   stoker/chromium:latest   a headless browser
#   stoker/python:latest     a sandbox with Python, git, a C compiler and the usual tools
#   stoker/tiny:latest       one static program that behaves as tests want it to; only in a checkout
#
#   packaging/images/build.sh [--fresh] [--only NAME]...
#
# Only what changed is built: each image carries the label stoker.source, a hash of its folder, its base and `version`.
# --fresh builds it all the same, and brings in Debian's updates. Needs no registry: where none can be reached, Debian
# comes by debootstrap from the mirror that this host's own apt uses.
#
# Exit codes of our own: 64 usage, 69 something is missing, 75 too little disk, 77 not permitted.
set -euo pipefail

version=1 # raise it when this script changes what ends up in an image
suite=bookworm
here=$(cd "$(dirname "$0")" && pwd)
logs=$here/../../target/images
[[ -e $here/../../Cargo.toml ]] || logs=${TMPDIR:-/var/tmp}/stoker-images # installed, and not a checkout
need_kib=$((4 << 20))
scratch=''

say() { printf '%s\n' "$*"; }
die() { local code=$1; shift; printf 'images: %s\n' "$*" >&2; exit "$code"; }
trap '[[ -z $scratch ]] || rm -rf --one-file-system -- "$scratch"' EXIT

fresh='' only=()
while (($#)); do
    case $1 in
    --fresh) fresh=1 ;;
    --only)
        [[ ${2:-} =~ ^(base|chromium|python|tiny)$ ]] || die 64 "--only wants base, chromium, python or tiny"
        [[ -d $here/$2 ]] || die 64 "there is no folder \`$here/$2' to build it from"
        only+=("$2")
        shift ;;
    *) die 64 "usage: build.sh [--fresh] [--only base|chromium|python|tiny]..." ;;
    esac
    shift
done
# Where it is installed there is no tiny, which only tests want.
if [[ ${#only[@]} == 0 ]]; then
    for name in base chromium python tiny; do [[ ! -d $here/$name ]] || only+=("$name"); done
fi

command -v docker >/dev/null || die 69 "there is no docker client; install one (apt-get install docker.io, on newer Debian docker-cli)"
timeout 10 docker version >/dev/null 2>&1 ||
    die 69 "no engine answers at ${DOCKER_HOST:-/var/run/docker.sock}; try: packaging/engine.sh run -- packaging/images/build.sh"
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)

# ---- what there is ----

tag() { [[ $1 == base ]] && echo "stoker/base:$suite" || echo "stoker/$1:latest"; }
id_of() { docker image inspect -f '{{.Id}}' "$1" 2>/dev/null; }

# source_of NAME [BASE]: the hash that an image of today's sources carries.
source_of() {
    (
        cd "$here/$1"
        echo "$version $suite ${2:-}"
        find . -type f -printf '%P\n' | LC_ALL=C sort
        find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat
    ) | sha256sum | cut -c1-32
}

unchanged() {
    [[ -z $fresh && $(docker image inspect -f '{{index .Config.Labels "stoker.source"}}' "$(tag "$1")" 2>/dev/null) == "$2" ]] &&
        say "stoker/$1: unchanged"
}

# Before the first build only, and only where the engine's files are on this host.
check_disk() {
    local dir free
    dir=$(docker info -f '{{.DockerRootDir}}')
    [[ -d $dir ]] || return 0
    free=$(df -Pk "$dir" | awk 'NR == 2 { print $4 }')
    ((free >= need_kib)) ||
        die 75 "$dir has $((free >> 10)) MiB free, building wants $((need_kib >> 10)) MiB; free some (docker system prune), or set STOKER_ENGINE_DIR to a folder on a larger disk"
    check_disk() { :; }
}

# ---- where Debian comes from ----

# shellcheck source=packaging/mirror.sh
. "$here/../mirror.sh"

# from_debian: sets `debian` to an image to start from.
from_debian() {
    debian=debian:$suite-slim
    if [[ -z $fresh ]]; then
        id_of "$debian" >/dev/null && return
        debian=stoker/debootstrap:$suite
        id_of "$debian" >/dev/null && return
    fi
    # Asked once, in this place; nothing else here needs a registry.
    debian=debian:$suite-slim
    if timeout 45 docker pull -q "$debian" >"$logs/pull.log" 2>&1; then return; fi
    debian=stoker/debootstrap:$suite
    say "stoker/base: no registry can be reached; debootstrap from $mirror (log: $logs/debootstrap.log)"
    [[ $(id -u) == 0 ]] || die 77 "debootstrap needs root; use sudo, or make debian:$suite-slim available to the engine (docker pull, docker load)"
    if ! command -v debootstrap >/dev/null || [[ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
        command -v apt-get >/dev/null || die 69 "there is no debootstrap; install it, or make debian:$suite-slim available to the engine (docker load)"
        { apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 install \
            --no-install-recommends debootstrap debian-archive-keyring; } >"$logs/debootstrap.log" 2>&1 || failed debootstrap
    fi
    scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/stoker-images.XXXXXX")
    debootstrap --variant=minbase --include=ca-certificates --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
        "$suite" "$scratch/debian" "$mirror" >"$logs/debootstrap.log" 2>&1 || failed debootstrap
    sh "$here/base/tidy" "$scratch/debian"
    # Device nodes are the engine's business.
    tar -C "$scratch/debian" --numeric-owner --exclude='./dev/*' --exclude='./proc/*' -c . |
        docker import - "$debian" >>"$logs/debootstrap.log" 2>&1 || failed debootstrap
    rm -rf --one-file-system -- "$scratch"
    scratch=''
}

# static_program PROGRAM PACKAGE: prints the path of a static PROGRAM, the host's or that of Debian's PACKAGE. The
# package is unpacked and not installed, since busybox-static would push out a busybox that the host has chosen.
static_program() {
    local path
    for path in "/bin/$1" "/usr/bin/$1"; do
        if [[ -x $path ]] && ldd "$path" 2>&1 | grep -q 'not a dynamic\|statically linked'; then echo "$path"; return; fi
    done
    command -v apt-get >/dev/null || die 69 "there is no static $1; install Debian's package $2"
    path=$scratch/$2
    mkdir -p "$path"
    (cd "$path" && { apt-get -q download "$2" || { apt-get -q update && apt-get -q download "$2"; }; }) >"$logs/$2.log" 2>&1 || failed "$2"
    dpkg-deb -x "$path/$2"_*.deb "$path"
    path=$(find "$path" -path "*/bin/$1" -print -quit)
    [[ -n $path ]] || die 69 "Debian's package $2 holds no $1"
    echo "$path"
}

# ---- building ----

failed() {
    printf 'images: %s failed, the end of %s:\n' "$1" "$logs/$1.log" >&2
    tail -n 25 "$logs/$1.log" >&2
    exit 1
}

# The builder without BuildKit: Debian's engine has no buildx, and without a registry BuildKit has nothing more to
# offer. An engine or a client that no longer has it is asked for BuildKit.
pick_builder() {
    export DOCKER_BUILDKIT=0
    if ! printf 'FROM scratch\nLABEL stoker.source=probe\n' | docker build -q -t stoker/probe - >/dev/null 2>&1; then
        export DOCKER_BUILDKIT=1 BUILDX_BUILDER=default
    fi
    docker image rm stoker/probe >/dev/null 2>&1 || true
    pick_builder() { :; }
}

# build NAME SOURCE FOLDER [OPTION]...
build() {
    local name=$1 source=$2 folder=$3 began=$SECONDS args=() variable old
    shift 3
    check_disk
    pick_builder
    say "stoker/$name: building (log: $logs/$name.log)"
    for variable in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [[ -z ${!variable:-} ]] || args+=(--build-arg "$variable=${!variable}")
    done
    old=$(id_of "$(tag "$name")" || true)
    # The host's network: it works with a private engine without a bridge, and with a proxy on the loopback.
    docker build --network host ${fresh:+--no-cache} "${args[@]}" --label "stoker.source=$source" "$@" \
        -t "$(tag "$name")" "$folder" >"$logs/$name.log" 2>&1 || failed "$name"
    # The one that it replaces, unless containers or other images still stand on it.
    [[ -z $old || $old == "$(id_of "$(tag "$name")")" ]] || docker image rm "$old" >/dev/null 2>&1 || true
    say "stoker/$name: built in $((SECONDS - began)) s, $(($(docker image inspect -f '{{.Size}}' "$(tag "$name")") / 1000000)) MB"
}

base() {
    local source
    source=$(source_of base "$mirror $security")
    base() { :; }
    unchanged base "$source" && return
    check_disk
    from_debian
    build base "$source" "$here/base" --build-arg "DEBIAN=$debian" --build-arg "SUITE=$suite" \
        --build-arg "MIRROR=$mirror" --build-arg "SECURITY=$security"
}

on_base() {
    local source
    base
    source=$(source_of "$1" "$(id_of "$(tag base)")")
    unchanged "$1" "$source" || build "$1" "$source" "$here/$1"
}

tiny() {
    local source busybox tini
    source=$(source_of tiny)
    unchanged tiny "$source" && return
    scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/stoker-images.XXXXXX")
    cp -r "$here/tiny" "$scratch/tiny"
    busybox=$(static_program busybox busybox-static)
    tini=$(static_program tini-static tini)
    install -m 0755 "$busybox" "$scratch/tiny/root/bin/busybox"
    install -m 0755 "$tini" "$scratch/tiny/root/bin/tini"
    "$scratch/tiny/root/bin/busybox" --list | grep -vx busybox | while read -r applet; do ln -sf busybox "$scratch/tiny/root/bin/$applet"; done
    # A checkout under a strict umask is for its owner alone; in the image another user reads it.
    chmod -R a+rX "$scratch/tiny/root"
    install -d -m 1777 "$scratch/tiny/root/tmp"
    build tiny "$source" "$scratch/tiny"
    rm -rf --one-file-system -- "$scratch"
    scratch=''
}

for name in "${only[@]}"; do
    case $name in
    base) base ;;
    tiny) tiny ;;
    *) on_base "$name" ;;
    esac
done
