#!/usr/bin/env bash
# After the pressure of the check before stock is back, and the lease that lived through it lives on.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

ready
lease=$(stokerctl leases --json | jq -r '.leases[] | select(.state == "executing").id')
equal "what the lease says" "$(stokerctl exec "$lease" -- echo alive)" alive
stokerctl release "$lease"
