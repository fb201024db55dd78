#!/usr/bin/env bash
# Finds a container engine, or starts one, for a command that needs it.
#
#   packaging/engine.sh run -- COMMAND [ARG]...  run COMMAND with DOCKER_HOST set; stop afterwards what was started
#   packaging/engine.sh up                       start one and leave it; prints `export DOCKER_HOST=...` to be eval'ed
#   packaging/engine.sh down                     stop one that `up` or a killed run left behind
#
# In order: the engine at DOCKER_HOST, the one at /var/run/docker.sock, Docker's system service, a private dockerd.
# The last two need root; Debian's docker.io is installed for them when there is no dockerd.
#
# There is one private engine per user, not one per checkout: two would share docker0 and the iptables chains, and
# would build the same images twice. Concurrent runs share it, the last one out stops it. Each run holds a shared lock
# for its life, so the count of users is the kernel's and a killed run never leaves a wrong one.
#
# STOKER_ENGINE_DIR: where its images are kept between runs (default /var/lib/stoker-engine); another folder is
# another engine. Exit codes of our own: 64 usage, 69 no engine to be had, 75 in use, 77 not permitted.
set -euo pipefail

data=${STOKER_ENGINE_DIR:-/var/lib/stoker-engine}
[[ $data == /* ]] || data=$PWD/$data
root=$data/docker # one below, so that the folder itself may be a disk of its own: see the unmounting in stop_private
# Sockets live apart from the images: a socket's path may have 107 bytes, a checkout's path has any number.
run=/run/stoker-engine-$(id -u)
[[ -z ${STOKER_ENGINE_DIR:-} ]] || run+=-$(cksum <<<"$data" | cut -d' ' -f1)
host=unix://$run/engine.sock
# One for all private engines; only root starts them.
made_bridge=/run/stoker-engine-docker0
default=unix:///var/run/docker.sock

say() { printf 'engine: %s\n' "$*" >&2; }
die() { local code=$1; shift; say "$*"; exit "$code"; }

# answers HOST: does an engine answer there within a few seconds? A client is not needed where curl can ask.
answers() {
    local url
    case $1 in
    unix://*)
        [[ -S ${1#unix://} ]] || return 1
        if command -v curl >/dev/null; then
            curl -fs -m 5 -o /dev/null --unix-socket "${1#unix://}" http://engine/_ping
            return
        fi ;;
    tcp://*)
        url=http://${1#tcp://}
        if [[ -z ${DOCKER_TLS_VERIFY:-} ]] && command -v curl >/dev/null; then
            curl -fs -m 5 -o /dev/null --noproxy '*' "${url%/}/_ping"
            return
        fi ;;
    esac
    command -v docker >/dev/null && DOCKER_HOST=$1 timeout 5 docker version >/dev/null 2>&1
}

# await HOST SECONDS [PID]: poll until an engine answers; give up at the deadline, or when process PID has ended.
await() {
    local deadline=$((SECONDS + $2))
    until answers "$1"; do
        ((SECONDS < deadline)) || return 1
        [[ -z ${3:-} ]] || kill -0 "$3" 2>/dev/null || return 1
        sleep 0.1
    done
}

# Sets `found` to an engine that is already there, and returns 1 when there is none.
find_engine() {
    if [[ -n ${DOCKER_HOST:-} ]]; then
        if answers "$DOCKER_HOST"; then found=$DOCKER_HOST; return; fi
        say "DOCKER_HOST=$DOCKER_HOST does not answer; looking for another engine"
    fi
    if answers "$default"; then found=$default; return; fi
    if [[ -S /var/run/docker.sock && ! -w /var/run/docker.sock ]]; then
        die 77 "may not open /var/run/docker.sock; join the group docker (usermod -aG docker $(id -un), then log in again), or use sudo"
    fi
    return 1
}

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" >>"$run/apt.log" 2>&1 ||
        { tail -n 15 "$run/apt.log" >&2; die 69 "apt-get $1 failed, see $run/apt.log"; }
}

install_engine() {
    command -v apt-get >/dev/null ||
        die 69 "there is no dockerd here and no apt-get to install it; install Docker Engine (https://docs.docker.com/engine/install/) or set DOCKER_HOST"
    say "no dockerd here; installing Debian's docker.io with apt-get (log: $run/apt.log)"
    apt update
    # Without recommended packages (they bring git and needrestart), so the needed ones of those are named here.
    apt install --no-install-recommends docker.io iptables ca-certificates
    command -v docker >/dev/null || apt install --no-install-recommends docker-cli
    command -v docker-init >/dev/null || apt install --no-install-recommends tini
    # An engine that sees AppArmor in the kernel and cannot load its profile starts no container.
    if grep -qs Y /sys/module/apparmor/parameters/enabled && ! command -v apparmor_parser >/dev/null; then
        apt install --no-install-recommends apparmor
    fi
}

# ours PID NAME: is process PID alive, called NAME, and started with paths below our folder? Pid files outlive
# processes and pids are used again, so nothing is signalled without this check.
ours() {
    [[ $(cat "/proc/$1/comm" 2>/dev/null) == "$2" ]] && tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -qF "$run/"
}

# stop_pid PID NAME SECONDS: TERM, wait, KILL.
stop_pid() {
    local deadline=$((SECONDS + $3))
    kill -TERM "$1" 2>/dev/null || return 0
    while ours "$1" "$2"; do
        if ((SECONDS >= deadline)); then
            say "$2 (pid $1) did not end within $3 s; killed"
            kill -KILL "$1" 2>/dev/null || true
            deadline=$((SECONDS + 5))
        fi
        sleep 0.1
    done
}

# other_engine: does any dockerd run? One that has ended and that nobody has waited for has no program any more.
other_engine() {
    local pid
    for pid in $(pgrep -x dockerd 2>/dev/null || true); do
        [[ ! -e /proc/$pid/exe ]] || return 0
    done
    return 1
}

# The private engine is stopped, and whatever an unclean end left of it. Needs the lock `start`.
stop_private() {
    local pid shim child id mount forward='' policy=''
    pid=$(cat "$run/engine.pid" 2>/dev/null) || pid=
    # dockerd gives its containers 15 s.
    if [[ -n $pid ]] && ours "$pid" dockerd; then stop_pid "$pid" dockerd 40; fi
    pid=$(cat "$run/exec/containerd/containerd.pid" 2>/dev/null) || pid=
    if [[ -n $pid ]] && ours "$pid" containerd; then stop_pid "$pid" containerd 10; fi
    # After a kill -9 of dockerd its containers live on below their shims; the kernel cuts names to 15 bytes.
    for shim in $(pgrep -x containerd-shim 2>/dev/null || true); do
        ours "$shim" containerd-shim || continue
        id=$(tr '\0' '\n' <"/proc/$shim/cmdline" | grep -xE -m1 '[0-9a-f]{64}') || id=
        for child in $(pgrep -P "$shim" 2>/dev/null || true); do kill -KILL "$child" 2>/dev/null || true; done
        kill -KILL "$shim" 2>/dev/null || true
        # A cgroup is named after its container, and can go when the last process in it has.
        for _ in 1 2 3 4 5; do
            [[ -n $id ]] || break
            sleep 0.2
            find /sys/fs/cgroup -depth -type d -path "*$id*" -exec rmdir {} + 2>/dev/null && break
        done
    done
    # Deepest first: container roots, network namespaces, then the bind mount of the data folder itself.
    awk -v run="$run/" -v root="$root" \
        'index($2, run) == 1 || index($2, root "/") == 1 || $2 == root { print $2 }' /proc/mounts | sort -r |
        while read -r mount; do umount -l "$mount" 2>/dev/null || true; done
    # The bridge, if it came with an engine of ours, and the two settings for all of the host that dockerd changes for
    # it. All engines of a host share it, so it goes with the last. Its rules of iptables stay until the next boot: they
    # match nothing without the bridge.
    if [[ -e $made_bridge ]] && ! other_engine; then
        read -r forward policy <"$made_bridge" || true
        ip link delete docker0 2>/dev/null || true
        if [[ -n $policy ]]; then iptables -P FORWARD "$policy" 2>/dev/null || true; fi
        if [[ -n $forward ]]; then echo "$forward" >/proc/sys/net/ipv4/ip_forward || true; fi
        rm -f -- "$made_bridge"
    fi
    rm -rf -- "$run/engine.pid" "$run/engine.sock" "$run/keep" "$run/exec"
}

# launch FLAG...: start dockerd with FLAGs and wait for it.
launch() {
    # An empty configuration file: the host's /etc/docker/daemon.json may name sockets and folders of its own.
    echo '{}' >"$run/daemon.json"
    # Its own session, and none of our locks: it must outlive Ctrl-C, and must not be counted as a user.
    setsid dockerd --config-file "$run/daemon.json" --data-root "$root" --exec-root "$run/exec" \
        -H "$host" --pidfile "$run/engine.pid" "$@" >"$run/dockerd.log" 2>&1 </dev/null 8>&- 9>&- &
    await "$host" 60 $!
}

start_private() {
    local policy
    stop_private
    mkdir -p "$root"
    if [[ ! -e /sys/class/net/docker0 ]]; then
        policy=$(iptables -S FORWARD 2>/dev/null | sed -n 's/^-P FORWARD //p') || policy=
        echo "$(cat /proc/sys/net/ipv4/ip_forward) $policy" >"$made_bridge"
    fi
    if launch; then return; fi
    stop_private
    # A dockerd without a bridge removes docker0, and with it the network of any other engine.
    if other_engine; then
        tail -n 15 "$run/dockerd.log" >&2
        die 69 "dockerd did not start with a bridge network beside another dockerd, see $run/dockerd.log; set DOCKER_HOST to that other one"
    fi
    say "dockerd did not start with a bridge network (log: $run/dockerd-bridge.log); trying without"
    mv "$run/dockerd.log" "$run/dockerd-bridge.log"
    if launch --bridge none --iptables=false --ip6tables=false; then return; fi
    stop_private
    tail -n 15 "$run/dockerd.log" >&2
    die 69 "dockerd did not start, see $run/dockerd.log"
}

# Sets `found`, starting an engine when there is none. Afterwards descriptor 8 holds our share of a private engine.
get_engine() {
    find_engine && return
    [[ $(id -u) == 0 ]] ||
        die 77 "no engine answers at ${DOCKER_HOST:-$default}, and only root can start one; start Docker (sudo systemctl start docker), or use sudo"
    (umask 077 && mkdir -p "$run")
    # 9 orders starts and stops; 8 counts users.
    exec 9>"$run/start.lock" 8>"$run/users.lock"
    flock 9
    command -v dockerd >/dev/null || install_engine
    if [[ $(cat /proc/1/comm) == systemd ]]; then
        # The host's own service, which others may use from now on: left running.
        say "starting Docker's system service; it stays up (systemctl stop docker)"
        if ! systemctl start docker || ! await "$default" 60; then
            die 69 "docker.service did not start; see: journalctl -u docker"
        fi
        found=$default
    elif answers "$default"; then # started by its own package
        found=$default
    else
        flock -s 8
        if answers "$host"; then
            say "using the private engine at $host"
        else
            say "starting a private engine at $host (images in $data, log $run/dockerd.log)"
            start_private
        fi
        found=$host
    fi
    flock -u 9
}

# Let go of the private engine, and stop it when nobody else holds it.
leave() {
    [[ $found == "$host" ]] || return 0
    flock 9
    flock -u 8
    if flock -n -x 8 && [[ ! -e $run/keep ]]; then
        stop_private
        say "stopped the private engine"
    fi
    flock -u 9
}

child='' signals=0

# pass SIGNAL: hand it to the command and everything below it; a second one ends it at once.
# shellcheck disable=SC2317 # called by traps
pass() {
    local signal=$1
    ((signals += 1))
    ((signals == 1)) || signal=KILL
    # The group is not there in the moment before setsid makes it.
    [[ -z $child ]] || kill "-$signal" -- "-$child" 2>/dev/null || kill "-$signal" "$child" 2>/dev/null || true
}

run_command() {
    local code before
    trap 'pass TERM' TERM
    trap 'pass INT' INT
    trap 'pass HUP' HUP
    get_engine
    trap leave EXIT
    ((signals == 0)) || exit 130
    # A session of its own: a signal from a terminal comes to us alone, and goes on to the whole group once.
    # The shell starts background commands with INT ignored and without input; both are put right here.
    DOCKER_HOST=$found setsid env --default-signal=INT,QUIT "$@" <&0 8>&- 9>&- &
    child=$!
    # A trapped signal ends `wait` early, with a code above 128; then the command's own end is still to come.
    while :; do
        before=$signals code=0
        wait "$child" || code=$?
        ((signals > before && code > 128)) || break
    done
    exit "$code"
}

found=
case ${1:-} in
run)
    shift
    [[ ${1:-} != -- ]] || shift
    (($#)) || die 64 "usage: engine.sh run -- COMMAND [ARG]..."
    run_command "$@" ;;
up)
    get_engine
    [[ $found != "$host" ]] || touch "$run/keep"
    printf 'export DOCKER_HOST=%q\n' "$found" ;;
down)
    [[ -d $run ]] || exit 0
    [[ -w $run ]] || die 77 "may not stop the engine of another user at $run; use sudo"
    exec 9>"$run/start.lock" 8>"$run/users.lock"
    flock 9
    flock -n -x 8 || die 75 "a run still uses the private engine; it is stopped when that ends"
    stop_private ;; # the lock files stay: a run that waits for them must find the same ones
*)
    die 64 "usage: engine.sh run -- COMMAND [ARG]... | up | down" ;;
esac
