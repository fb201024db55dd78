#!/usr/bin/env bash
# stokerd as a service warms up, and says so.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

cp /payload/guest/stokerd.service /run/systemd/system/
systemctl daemon-reload
systemctl start stokerd
await 10 api /livez
ready
equal "the answer of /readyz" "$(curl -so /dev/null -w '%{http_code}' --unix-socket /run/stoker.sock http://stoker/readyz)" 200
for pool in browser sandbox; do equal "the stock of $pool" "$(pool "$pool" warm)" 1; done
