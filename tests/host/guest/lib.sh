# What the checks share. Sourced at the top of each; the last line that a check prints is why it failed.
# shellcheck shell=bash
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]##*/}, line $LINENO: \`$BASH_COMMAND\` ended with $?" >&2' ERR

fail() {
    trap - ERR
    printf '%s\n' "$*" >&2
    exit 1
}

# equal WHAT FOUND WANTED
equal() { [[ $2 == "$3" ]] || fail "$1 is \`$2\`, not \`$3\`"; }

# await SECONDS COMMAND...: until it succeeds; what it prints is of no interest.
await() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "in vain awaited: $*"
        sleep 1 # a look costs half of that where all is emulated
    done
}

# api PATH: what the daemon answers to a GET.
api() { curl -sS --unix-socket /run/stoker.sock "http://stoker$1"; }

# pool NAME KEY
pool() { stokerctl pools --json | jq -r --arg pool "$1" --arg key "$2" '.pools[] | select(.name == $pool)[$key]'; }

ready() { stokerctl ready --wait 2m; }

# lease ID KEY
lease() { stokerctl show "$1" --json | jq -r --arg key "$2" '.[$key]'; }

# engine PATH: what the engine answers to a GET; the docker client takes a second here to come into being.
engine() { curl -sS --unix-socket /run/docker.sock "http://engine$1"; }

# containers: the ids of all of them, sorted.
containers() { engine '/containers/json?all=1' | jq -r '.[].Id' | sort; }

# container LEASE: the id of its container.
container() {
    local instance
    instance=$(lease "$1" instance)
    engine '/containers/json?all=1' | jq -r --arg instance "$instance" '.[] | select(.Labels["stoker.instance"] == $instance).Id'
}

# cgroup CONTAINER: the folder of its cgroup, as the kernel says it of its first process.
cgroup() { echo "/sys/fs/cgroup$(cut -d: -f3 "/proc/$(engine "/containers/$1/json" | jq .State.Pid)/cgroup")"; }
