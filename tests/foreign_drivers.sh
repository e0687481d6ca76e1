#!/bin/sh
# foreign_drivers.sh EMULATOR TREE GALE: a few operators on lavapipe of another architecture, both under qemu-user.
# One of each kind of kernel: transcendentals, reductions, tiles, sorting, scans, half precision.
emulator=$1 tree=$2 gale=$3
results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
VK_DRIVER_FILES=$(ls "$tree"/usr/share/vulkan/icd.d/lvp_icd.*.json)
export VK_DRIVER_FILES GALE_POOL_FILL=1 GALE_WATCHDOG_S=600

check() { "$emulator" -cpu max -L "$tree" "$gale" check --provider vulkan --all --filter "$1" >"$results/$1" 2>&1; }
all() { for name in "$@"; do check "$name"; done; }

# Two at a time.
all 'Mish f32' 'Softplus f32' 'Tanh f32: T[1031]' 'Softmax f32: T[5,17]' 'Softmax f16: T[5,17]' &
all 'LayerNormalization f32: T[5,17]' 'Conv f32: T[1,1,3,3]' 'MatMul f32: T[2,3]' 'TopK f32: T[2,5]' 'CumSum f32: T[2,4]'
wait

cat "$results"/* | grep -a '^FAIL'
for file in "$results"/*; do
    grep -q '^[1-9][0-9]* passed, [0-9]* failed' "$file" || echo "FAIL drivers ${file##*/}: $(tail -1 "$file")"
    grep '^[0-9]* passed, [0-9]* failed, [0-9]* skipped$' "$file" || echo '0 passed, 1 failed, 0 skipped'
done >"$results.sums"
grep '^FAIL' "$results.sums"
awk '/passed/ && !/^FAIL/ { p += $1; f += $3; s += $5 } END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"; exit f > 0 }' "$results.sums"
code=$?
rm -f "$results.sums"
exit $code
