# Sourced by tests of the command line; $gale is the program.
passed=0 failed=0 skipped=0

fail() {
    echo "FAIL $*"
    failed=$((failed + 1))
}

# expect CODE PATTERN ARGUMENT...: runs gale, checks the exit code and that the output (both streams) has the pattern.
expect() {
    code=$1 pattern=$2
    shift 2
    output=$("$gale" "$@" 2>&1 </dev/null)
    got=$?
    if [ $got -ne "$code" ]; then fail "gale $*: exit code $got, not $code: $output"
    elif ! printf '%s\n' "$output" | grep -q -e "$pattern"; then fail "gale $*: no '$pattern' in: $output"
    else passed=$((passed + 1))
    fi
}

# also PATTERN: so has the last output this pattern.
also() {
    if printf '%s\n' "$output" | grep -q -e "$1"; then passed=$((passed + 1)); else fail "no '$1' in: $output"; fi
}
