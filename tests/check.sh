#!/bin/sh
# check.sh GALE PROVIDER [PARTS]: every operator case on one device; where there is no such device the test is skipped (meson's 77).
# Software drivers on a busy machine are slow, not hung.  What reads memory that nobody wrote shall not pass by luck.
export GALE_POOL_FILL=1 GALE_WATCHDOG_S="${GALE_WATCHDOG_S:-600}"

# PoCL and lavapipe compile on one core a process: with many cores several processes share the cases.  Two are kept busy by other tests.
parts=$(($(nproc) / 2))
[ $parts -gt 8 ] && parts=8
[ "$2" = cpu ] && parts=1
parts=${3:-$parts}
# Light tests leave out what these drivers compile for seconds.
if [ -n "$GALE_TEST_LIGHT" ]; then large=''; else large=--large; fi

if [ "$parts" -le 1 ]; then
    "$1" check --provider "$2" $large
    code=$?
else
    folder=$(mktemp -d) || exit 1
    part=0 code=0
    while [ $((part += 1)) -le "$parts" ]; do
        ("$1" check --provider "$2" $large --part "$part/$parts" >"$folder/$part"; echo $? >"$folder/$part.code") &
    done
    wait
    part=0
    while [ $((part += 1)) -le "$parts" ]; do
        sed '$d' "$folder/$part"
        one=$(cat "$folder/$part.code")
        [ "$one" -gt "$code" ] && code=$one
    done
    # A process that did not reach its last line has failed.
    for part in "$folder"/*[0-9]; do tail -n 1 "$part" | grep -q ' passed, ' || echo '0 passed, 1 failed, 0 skipped' >>"$part"; done
    tail -q -n 1 "$folder"/*[0-9] | awk '{ p += $1; f += $3; s += $5 } END { print p " passed, " f " failed, " s " skipped" }'
    rm -rf "$folder"
fi
[ $code -eq 3 ] && exit 77
exit $code
