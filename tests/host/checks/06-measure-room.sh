#!/usr/bin/env bash
# The measuring room's own tests against this kernel; its others read copies of kernel files, the same everywhere.
# shellcheck source=tests/host/guest/lib.sh
. /payload/guest/lib.sh

CI=true /payload/bin/stoker-tests measure::live
