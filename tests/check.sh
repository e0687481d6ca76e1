#!/bin/sh
# check.sh GALE PROVIDER: every operator case on one device; where there is no such device the test is skipped (meson's 77).
# Software drivers on a busy machine are slow, not hung.  What reads memory that nobody wrote shall not pass by luck.
GALE_POOL_FILL=1 GALE_WATCHDOG_S=${GALE_WATCHDOG_S:-600} "$1" check --provider "$2"
code=$?
[ $code -eq 3 ] && exit 77
exit $code
