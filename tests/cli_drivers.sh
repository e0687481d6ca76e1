#!/bin/sh
# The command line on drivers: users' kernels, a limit on memory, caches that cannot be written or hold garbage.
# usage: cli_drivers.sh PROGRAM
gale=$1
. "$(dirname "$0")/expect.sh"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export GALE_CACHE="$folder/cache" NO_COLOR=1 GALE_ALLOW_UNTRUSTED=1
skip() { echo "SKIP $1"; skipped=$((skipped + 1)); }
has() { "$gale" devices | grep -q "^$1  *$1:"; }
printf '__kernel void scale(__global float *x, float s, uint n) { uint i = get_global_id(0); if (i < n) x[i] *= s; }\n' >"$folder/scale.cl"
printf '__kernel void scale(__global float *x { }\n' >"$folder/broken.cl"
echo in the way >"$folder/file"

if has opencl; then
    # 3 floats: 1, 2, -0.5
    { printf '\223NUMPY\1\0\166\0'; printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"
      printf '\0\0\200\77\0\0\0\100\0\0\0\277'; } >"$folder/x.npy"
    expect 0 'best .* us, median' kernel run "$folder/scale.cl" -p opencl -e scale -g 4 -b "$folder/x.npy" -w 2.5f -w 3 -o "0=$folder/y.npy"
    # 2.5, 5, -1.25
    got=$(tail -c 12 "$folder/y.npy" | od -An -tf4 | tr -s ' ')
    [ "$got" = ' 2.5 5 -1.25' ] && passed=$((passed + 1)) || { echo "FAIL gale kernel run: $got"; failed=$((failed + 1)); }
    expect 1 'broken.cl: ' kernel run "$folder/broken.cl" -p opencl -e scale
    expect 1 'no_such_entry' kernel run "$folder/scale.cl" -p opencl -e no_such_entry
    expect 2 'no buffer 4\|--out' kernel run "$folder/scale.cl" -p opencl --out
    expect 0 '^opencl works$' doctor --try opencl
else
    skip 'gale kernel run: no OpenCL device'
fi

for name in opencl vulkan; do
    if ! has $name; then skip "a limit on memory and bad caches with $name: no device"; continue; fi
    GALE_POOL_LIMIT_MB=1 expect 1 "out of memory: 256 MiB requested, free 1.0 MiB of .* (pool limit 1.0 MiB)" bench --provider $name
    GALE_CACHE="$folder/file" expect 0 '^[1-9][0-9]* passed, 0 failed' check --provider $name --filter 'Relu f32'
    expect 0 '^[1-9][0-9]* passed, 0 failed' check --provider $name --filter 'Relu f32'
    for f in "$folder"/cache/kernels/*/*; do echo garbage >"$f"; done
    expect 0 '^[1-9][0-9]* passed, 0 failed' check --provider $name --filter 'Relu f32'
    for f in "$folder"/cache/kernels/*/*; do : >"$f"; done
    expect 0 '^[1-9][0-9]* passed, 0 failed' check --provider $name --filter 'Relu f32'
done
if has opencl; then
    GALE_CACHE="$folder/file" expect 0 'compiled kernels are not cached: .*file: exists, but is not a folder' kernel run "$folder/scale.cl" -p opencl -e scale -b f32:4 -w 2f -w 4
    expect 1 'OpenCL C compilation failed:.*' kernel run "$folder/broken.cl" -p opencl -e scale
    expect 1 "expected ')'" kernel run "$folder/broken.cl" -p opencl -e scale
fi
if has vulkan; then
    printf '#version 450\nvoid main() { nonsense; }\n' >"$folder/broken.comp"
    expect 1 "GLSL compilation failed\|libshaderc" kernel run "$folder/broken.comp" -p vulkan
    printf 'no words of SPIR-V' >"$folder/broken.spv"
    expect 1 'broken.spv: ' kernel run "$folder/broken.spv" -p vulkan
fi
[ "$(cat "$folder/file")" = 'in the way' ] && passed=$((passed + 1)) || { echo 'FAIL the file in the way was changed'; failed=$((failed + 1)); }

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
