#!/usr/bin/env bash
# A loop that hangs is noticed: systemd starts stokerd anew, and who called meanwhile is answered.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

pid=$(systemctl show -P MainPID stokerd)
kill -STOP "$pid"
# It connects to a daemon that does not turn, and waits at the socket for one that does.
stokerctl status
(($(systemctl show -P MainPID stokerd) != pid)) || fail "it is still the process that hung"
journalctl --sync
journalctl -b -u stokerd -o cat | grep -q 'Watchdog timeout' || fail "it was not the watchdog"
ready
