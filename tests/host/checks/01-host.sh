#!/usr/bin/env bash
# The machine is what the other checks take it for.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

equal "process 1" "$(cat /proc/1/comm)" systemd
equal "the file system of cgroups" "$(stat -fc %T /sys/fs/cgroup)" cgroup2fs
grep -qw memory /sys/fs/cgroup/cgroup.controllers || fail "cgroup v2 has no memory controller"
[[ -r /proc/pressure/memory ]] || fail "the kernel measures no pressure"
equal "Docker's cgroups" "$(docker info -f '{{.CgroupVersion}} {{.CgroupDriver}}')" "2 systemd"
docker load -qi /payload/tiny.tar
