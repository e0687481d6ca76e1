#!/bin/sh
# check.sh GALE PROVIDER: every operator case on one device; where there is no such device the test is skipped (meson's 77).
"$1" check --provider "$2"
code=$?
[ $code -eq 3 ] && exit 77
exit $code
