#!/usr/bin/env bash
# Docker is restarted, and its containers with it.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

pid=$(systemctl show -P MainPID stokerd)
systemctl restart docker
ready
lease=$(stokerctl acquire sandbox)
equal "what an instance says after it" "$(stokerctl exec "$lease" -- echo alive)" alive
stokerctl release "$lease"
equal "the process of stokerd" "$(systemctl show -P MainPID stokerd)" "$pid"
ready
