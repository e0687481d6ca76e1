#!/bin/sh
# Model files on the command line: looked at and converted.
# usage: model_files.sh PROGRAM FOLDER_OF_MODELS
gale=$1 models=$2
. "$(dirname "$0")/expect.sh"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export NO_COLOR=1 GALE_CACHE="$folder/cache"

expect 0 '^input      x  f32 \[1, 1, 5, 5\]$' inspect "$models/conv.onnx"
expect 0 '^parameters 8 in 1 tensors, 32 B$' inspect "$models/conv.onnx"
expect 0 '^ *1   Softmax$' inspect "$models/conv.onnx"
expect 0 '^ *1   nobody Everything$' inspect "$models/attributes.onnx"
expect 0 '^input      x  f32 \[2, n\]$' inspect "$models/relu.onnx"
expect 0 '^input      m  map from string to f32 \[\]$' inspect "$models/types.onnx"
expect 0 '^output     l  sequence of f32 \[?\]$' inspect "$models/sequence.onnx"
expect 0 '1 of them in external files$' inspect "$models/external.onnx"
expect 0 '"parameter_bytes": 32' inspect "$models/conv.onnx" --json
expect 0 '"shape": \[2, "n"\]' inspect "$models/relu.onnx" --json
expect 0 '^input      w  f32 \[3, 2\] (optional: has a default in the file)$' inspect "$models/default.onnx"
expect 0 '"optional": true' inspect "$models/default.onnx" --json
expect 1 'cannot open' inspect "$folder/none.onnx"
expect 2 'MODEL' inspect
head -c 60 "$models/conv.onnx" >"$folder/cut.onnx"
expect 1 'cut.onnx, graph' inspect "$folder/cut.onnx"
printf '\022\004\033[mx' >"$folder/hostile.onnx"
expect 0 '^producer   ?\[mx$' inspect "$folder/hostile.onnx"

# same NAME A B: two files with the same bytes.
same() {
    if cmp -s "$2" "$3"; then passed=$((passed + 1)); else
        echo "FAIL $1: $2 and $3 differ"
        failed=$((failed + 1))
    fi
}

expect 0 '' convert "$models/attributes.onnx" -o "$folder/again.onnx"
same 'a plain rewrite' "$models/attributes.onnx" "$folder/again.onnx"
expect 0 '' convert "$models/large.onnx" -o "$folder/out.onnx" --external out.bin
expect 0 '1 of them in external files$' inspect "$folder/out.onnx"
expect 0 '^y: u8 5000' run "$folder/out.onnx" --provider cpu
expect 0 '' convert "$folder/out.onnx" -o "$folder/in.onnx"
same 'data out and in again' "$models/large.onnx" "$folder/in.onnx"
# What is read is not replaced unless that is asked for, by whatever path it is reached.
cp "$models/relu.onnx" "$folder/own.onnx"
ln -s own.onnx "$folder/link.onnx"
ln "$folder/own.onnx" "$folder/hard.onnx"
for name in own.onnx ./own.onnx link.onnx hard.onnx; do
    expect 2 'is also an input (MODEL) and would be overwritten; .*--overwrite' convert "$folder/own.onnx" -o "$folder/$name" --fold
done
cp "$models/large.onnx" "$folder/large.onnx"
expect 1 'large.onnx: is the model being read' convert "$folder/large.onnx" -o "$folder/x.onnx" --external large.onnx
expect 1 'out.bin contains data of .*out.onnx, which would be overwritten' convert "$folder/out.onnx" -o "$folder/x.onnx" --external out.bin
expect 1 'out.bin contains data of .*out.onnx' convert "$folder/out.onnx" -o "$folder/out.bin"
expect 1 'out.bin contains data of .*out.onnx' convert "$folder/out.onnx" -o "$folder/out.bin" --emit c
expect 2 'output: .*own.onnx is also an input (MODEL)' run "$folder/own.onnx" --random --shape x=2x2 -o "y=$folder/own.onnx"
expect 2 'html: .*own.onnx is also an input (MODEL)' explain "$folder/own.onnx" --html "$folder/own.onnx"
same 'a model that was not replaced' "$models/relu.onnx" "$folder/own.onnx"
expect 0 '' convert "$folder/own.onnx" -o "$folder/own.onnx" --overwrite
rm "$folder/link.onnx" "$folder/hard.onnx"
cp "$models/external.onnx" "$folder/alone.onnx"
expect 1 'error: [^ ]*alone.onnx: tensor' convert "$folder/alone.onnx" -o "$folder/x.onnx" --opset newest
expect 1 'a name without a folder' convert "$models/large.onnx" -o "$folder/x.onnx" --external ../x.bin
expect 0 '' convert "$models/relu.onnx" -o "$folder/pinned.onnx" --pin n=5
expect 0 '^input      x  f32 \[2, 5\]$' inspect "$folder/pinned.onnx"
expect 1 "named 'm'" convert "$models/relu.onnx" -o "$folder/x.onnx" --pin m=5
expect 1 'NAME=N' convert "$models/relu.onnx" -o "$folder/x.onnx" --pin n
expect 0 '' convert "$folder/pinned.onnx" -o "$folder/freed.onnx" --free x:1
expect 0 '^input      x  f32 \[2, x_1\]$' inspect "$folder/freed.onnx"
expect 0 '' convert "$models/conv.onnx" -o "$folder/part.onnx" --extract x:p
expect 0 '^nodes      2$' inspect "$folder/part.onnx"
expect 0 '^p: f32 1x2x1x1' run "$folder/part.onnx" --provider cpu --random
expect 1 'output q=.*: the model has no such output' run "$models/conv.onnx" --provider cpu --random --output "q=$folder/q.npy"
expect 1 "no value 'q'" convert "$models/conv.onnx" -o "$folder/x.onnx" --extract x:q
expect 0 '' convert "$models/conv.onnx" -o "$folder/half.onnx" --precision fp16
expect 0 '^parameters 8 in 1 tensors, 16 B$' inspect "$folder/half.onnx"
expect 0 '^y: f32 1x2' run "$folder/half.onnx" --provider cpu --random
expect 1 'opset 11 do not support bf16' convert "$models/conv.onnx" -o "$folder/x.onnx" --precision bf16
expect 0 '' convert "$models/shapes.onnx" -o "$folder/folded.onnx" --pin a=2 --pin b=3 --fold
expect 0 '^nodes      2$' inspect "$folder/folded.onnx"
expect 0 '^s: i64 3' run "$folder/folded.onnx" --provider cpu --random
expect 0 '' convert "$models/old.onnx" -o "$folder/new.onnx" --opset newest
expect 0 '^opsets     ai.onnx 28$' inspect "$folder/new.onnx"
expect 2 "'12' is neither a number from 13 to 28 nor newest" convert "$models/old.onnx" -o "$folder/x.onnx" --opset 12
expect 0 '' convert "$models/conv.onnx" -o "$folder/raised.onnx" --opset 17
expect 0 '^opsets .*17' inspect "$folder/raised.onnx"
expect 1 'needs opset 28, but 17 was requested; models can be upgraded, not downgraded' convert "$folder/new.onnx" -o "$folder/x.onnx" --opset 17
expect 0 '' convert "$models/gemm.onnx" -o "$folder/int8.onnx" --precision int8
expect 0 '^ *1   DequantizeLinear$' inspect "$folder/int8.onnx"
echo '[[0.5, -1, 2]]' >"$folder/sample.json"
expect 0 '^1 weights in 8 bits, 1 activations in 8 bits (0 with channel factors); 1 samples$' convert "$models/gemm.onnx" -o "$folder/int8.onnx" --precision int8 --calibrate "$folder/sample.json"
expect 0 '^ *1   QuantizeLinear$' inspect "$folder/int8.onnx"
expect 0 '^0 weights in 8 bit' convert "$models/gemm.onnx" -o "$folder/int8.onnx" --precision int8 --calibrate "$folder/sample.json" --leave Gemm
expect 1 "matches 'x'" convert "$models/gemm.onnx" -o "$folder/x.onnx" --precision int8 --leave x
expect 0 '' convert "$models/conv.onnx" -o "$folder/old-int8.onnx" --precision int8
expect 0 '^opsets .*13' inspect "$folder/old-int8.onnx"
expect 2 'precision int8' convert "$models/gemm.onnx" -o "$folder/x.onnx" --calibrate "$folder/sample.json"
expect 0 '' convert "$models/relu.onnx" -o "$folder/my-model.c" --emit c
if ! grep -q '^_Alignas(64) const unsigned char my_model\[[0-9]*\] = {$' "$folder/my-model.c"; then
    echo 'FAIL --emit c: no array my_model'
    failed=$((failed + 1))
fi
expect 0 '' convert "$models/relu.onnx" -o "$folder/default.c" --emit c
if ! grep -q '^extern const unsigned char model_default\[\];$' "$folder/default.c"; then
    echo 'FAIL --emit c: no array model_default'
    failed=$((failed + 1))
fi
expect 1 'not a valid name in C' convert "$models/relu.onnx" -o "$folder/x.c" --emit c --name 'a b'
expect 1 'not a valid name in C' convert "$models/relu.onnx" -o "$folder/x.c" --emit c --name int
expect 1 'input x takes strings, which cannot be random' run "$models/strings.onnx" --provider cpu --random
expect 2 'missing option: --output FILE' convert "$models/relu.onnx"
expect 2 'cannot be combined with' convert "$models/relu.onnx" -o "$folder/x.c" --emit c --external x.bin
if [ -e "$folder/x.onnx" ] || [ -e "$folder/x.c" ]; then
    echo 'FAIL a failed conversion left a file'
    failed=$((failed + 1))
fi

# Inputs that have a value in the file, kept and given.
echo '[[1, 0, 0], [0, 1, 1]]' >"$folder/x.json"
echo '[1, 2, 2]' >"$folder/s.json"
expect 0 '^y: f32 4  ' run "$models/default.onnx" --input "$folder/x.json" --provider cpu
expect 0 '^y: f32 1x2x2  ' run "$models/default.onnx" --input "$folder/x.json" --input s="$folder/s.json" --provider cpu
expect 0 '^y: f32 4  ' run "$models/default.onnx" --input "$folder/x.json" --shape w=3x2 --random --provider cpu
expect 0 ' agree, 0 differ' verify "$models/default.onnx" --shape w=3x2 --provider cpu
expect 1 'no such input' run "$models/default.onnx" --input "$folder/x.json" --input p="$folder/s.json" --provider cpu

# Plans, precision, pictures, checks of a device, and costs.
expect 0 '^plan on .* 1 kernels on the device' inspect "$models/gemm.onnx" --plan --provider cpu
expect 0 '^y: f32 1x2  ' run "$models/gemm.onnx" --random --precision fp16 --provider cpu
expect 0 ' agree, 0 differ' verify "$models/conv.onnx" --provider cpu
# Another engine, which is not there, and one that stands in for it: Relu of numbers from 0 to 1 gives them back.
GALE_PYTHON=/nowhere/python3 expect 1 '/nowhere/python3 was not found' verify "$models/relu.onnx" --shape 2x3 --provider cpu --against onnxruntime
printf '#!/bin/sh\necho "No module named onnxruntime"\nexit 3\n' >"$folder/without"
printf '#!/bin/sh\ncp "$4/in0.npy" "$4/out0.npy"\n[ "$5 $6 $7" = "x -- y" ] && echo onnxruntime 9.9\n' >"$folder/with"
printf '#!/bin/sh\necho first\necho "cannot load it"\nexit 1\n' >"$folder/failing"
chmod +x "$folder/without" "$folder/with" "$folder/failing"
GALE_PYTHON="$folder/without" expect 1 'not installed .*No module named onnxruntime.*pip install' verify "$models/relu.onnx" --shape 2x3 --provider cpu --against onnxruntime
GALE_PYTHON="$folder/with" expect 0 'compared with onnxruntime 9.9: 1 agree, 0 differ' verify "$models/relu.onnx" --shape 2x3 --provider cpu --against onnxruntime
GALE_PYTHON="$folder/failing" expect 1 'onnxruntime does not run .*: cannot load it' verify "$models/relu.onnx" --shape 2x3 --provider cpu --against onnxruntime
expect 1 'cannot be combined' verify "$models/relu.onnx" "$models/relu.onnx" --shape 2x3 --provider cpu --against onnxruntime
# Two models: outputs of the second against those of the first.
expect 0 '1 agree, 0 differ' verify "$models/conv.onnx" "$models/conv.onnx" --provider cpu
expect 0 '' convert "$models/conv.onnx" --precision int8 -o "$folder/conv-int8.onnx" --overwrite
expect 4 '1 differ' verify "$models/conv.onnx" "$folder/conv-int8.onnx" --provider cpu --tolerance 1e-6
expect 0 '1 agree, 0 differ' verify "$models/conv.onnx" "$folder/conv-int8.onnx" --provider cpu --tolerance 0.1
expect 0 'kernels and copies' explain "$models/conv.onnx" --provider cpu --html "$folder/graph.html"
if ! grep -q '"attributes": \["' "$folder/graph.html" || grep -q '@@' "$folder/graph.html"; then
    echo 'FAIL explain --html: no graph in the page'
    failed=$((failed + 1))
fi
expect 0 'main graph  *[1-9]' explain "$models/conv.onnx" --provider cpu --no-run
expect 0 'nothing to tune: on .* the model has no products' tune "$models/conv.onnx" --provider cpu
expect 0 '"kernels": \[\]' tune "$models/conv.onnx" --provider cpu --json
expect 2 'outside 0.1..86400' tune "$models/conv.onnx" --seconds 0
expect 0 '"graphs": \[' explain "$models/conv.onnx" --provider cpu --no-run --json
expect 0 '^batch of 2' bench "$models/gemm.onnx" --provider cpu --repeats 3 --batches 2
printf 'P5 5 5 255 abcdefghijklmnopqrstuvwxy' >"$folder/grey.pgm"
expect 0 '"deviation": ' run "$models/conv.onnx" --random --provider cpu --json
# A manifest says how pictures become numbers: of red, green and blue 1, 0 and 0.2, as blue, green, red.
cp "$models/twice.onnx" "$folder/normal.onnx"
{
    printf 'P6 2 1 255 '
    printf '\377\000\063\377\000\063'
} >"$folder/red.ppm"
expect 0 '  0 to 1, mean 0.4' run "$folder/normal.onnx" --input "$folder/red.ppm" --provider cpu
echo 'params: {mean: [0.5, 0.25, 0.2], std: [0.5, 0.25, 0.1], colours: bgr}' >"$folder/normal.yml"
expect 0 '  -1 to 8, mean 2.13333' run "$folder/normal.onnx" --input "$folder/red.ppm" --provider cpu
expect 0 '  0 to 255, mean 102' run "$folder/normal.onnx" --input "$folder/red.ppm" --provider cpu --mean 0 --std 1 --range 255
echo 'params: {range: [-2, 2]}' >"$folder/normal.yml"
expect 0 '  -2 to 2, mean -0.4' run "$folder/normal.onnx" --input "$folder/red.ppm" --provider cpu
echo 'params: {std: 0}' >"$folder/normal.yml"
expect 1 'normal.yml: std must be greater than 0' run "$folder/normal.onnx" --input "$folder/red.ppm" --provider cpu
expect 0 ', mean ' run "$models/conv.onnx" --random --provider cpu
expect 0 ': f32 ' run "$models/conv.onnx" --input "$folder/grey.pgm" --provider cpu --profile "$folder/profile.json"
if ! grep -q traceEvents "$folder/profile.json"; then
    echo 'FAIL run --profile: no trace'
    failed=$((failed + 1))
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
