#!/usr/bin/env bash
# All containers together have the hard limits that the profile leads to, systemd knows them, and whoever changes them is
# put right.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

slice=/sys/fs/cgroup/stoker.slice
kib=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
# Less the reserve, less 10 MiB for each of max_instances.
memory=$(((kib * 1024 - (1 << 30) - 7 * (10 << 20)) / 4096 * 4096))
pid_max=$(cat /proc/sys/kernel/pid_max) threads_max=$(cat /proc/sys/kernel/threads-max)
pids=$(((pid_max < threads_max ? pid_max : threads_max) * 75 / 100))

state() { [[ $(api /v1/host | jq -r .ceilings.state) == stand ]]; }
stands() { [[ $(cat "$slice/memory.max") == "$memory" ]]; }
all_stand() {
    equal "memory.max of the slice $1" "$(cat "$slice/memory.max")" "$memory"
    # 1.5 of 2 cores are the containers'.
    equal "cpu.weight of the slice $1" "$(cat "$slice/cpu.weight")" 300
    equal "pids.max of the slice $1" "$(cat "$slice/pids.max")" "$pids"
}

ready
await 60 state
all_stand "at first"
equal "what systemd knows" "$(systemctl show -P MemoryMax stoker.slice)" "$memory"
systemctl daemon-reload
all_stand "after a reload"
systemctl set-property --runtime stoker.slice MemoryMax=3G
await 60 stands
all_stand "after somebody set another"
await 60 state
stokerctl status | grep -q 'ceiling: containers hold .* of at most' || fail "the status does not tell of it"
