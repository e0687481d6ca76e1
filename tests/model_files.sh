#!/bin/sh
# Model files on the command line: looked at and converted.
# usage: model_files.sh PROGRAM FOLDER_OF_MODELS
gale=$1 models=$2
passed=0 failed=0 skipped=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export NO_COLOR=1 GALE_CACHE="$folder/cache"

# expect CODE PATTERN ARGUMENT...: runs gale, checks the exit code and that the output (both streams) has the pattern.
expect() {
    code=$1 pattern=$2
    shift 2
    output=$("$gale" "$@" 2>&1 </dev/null)
    got=$?
    if [ $got -ne "$code" ]; then
        echo "FAIL gale $*: exit code $got, not $code: $output"
        failed=$((failed + 1))
    elif ! printf '%s\n' "$output" | grep -q -e "$pattern"; then
        echo "FAIL gale $*: no '$pattern' in: $output"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

expect 0 '^input      x  f32 \[1, 1, 5, 5\]$' inspect "$models/conv.onnx"
expect 0 '^parameters 8 in 1 tensors, 32 B$' inspect "$models/conv.onnx"
expect 0 '^ *1   Softmax$' inspect "$models/conv.onnx"
expect 0 '^ *1   nobody Everything$' inspect "$models/attributes.onnx"
expect 0 '^input      x  f32 \[2, n\]$' inspect "$models/relu.onnx"
expect 0 '^input      m  map from string to f32 \[\]$' inspect "$models/types.onnx"
expect 0 '^output     l  sequence of f32 \[?\]$' inspect "$models/sequence.onnx"
expect 0 '1 of them in other files$' inspect "$models/external.onnx"
expect 0 '"parameter_bytes": 32' inspect "$models/conv.onnx" --json
expect 0 '"shape": \[2, "n"\]' inspect "$models/relu.onnx" --json
expect 1 'cannot open' inspect "$folder/none.onnx"
expect 2 'MODEL' inspect
head -c 60 "$models/conv.onnx" >"$folder/cut.onnx"
expect 1 'cut.onnx, graph' inspect "$folder/cut.onnx"
printf '\022\004\033[mx' >"$folder/hostile.onnx"
expect 0 '^producer   ?\[mx$' inspect "$folder/hostile.onnx"

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
