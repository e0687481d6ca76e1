#!/bin/sh
# gale exr as a user meets it: files of every compression, folders, damaged files, shards, resuming, each action.
# usage: exr.sh PROGRAM SOURCE
gale=$1
. "$(dirname "$0")/expect.sh"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export GALE_ALLOW_UNTRUSTED=1 GALE_CACHE="$folder/cache" GALE_PROVIDER=cpu NO_COLOR=1
seeds="$2/fuzz/corpus/exr"

# holds WORDS...: a condition of test(1).
holds() {
    if test "$@"; then passed=$((passed + 1)); else fail "not so: $*"; fi
}

cp -r "$seeds" "$folder/in" && chmod -R u+w "$folder/in"
count=$(ls "$folder/in" | wc -l)

expect 0 'stored as  *scan lines, dwaa' exr info "$seeds/dwaa.exr"
expect 0 '5 mip levels' exr info "$seeds/mip.exr"
expect 0 '"deep": true' exr info "$seeds/deep.exr" --json
expect 0 'deep scan lines, zips' exr info "$seeds/deep.exr"
expect 0 'deep tiles, none' exr info "$seeds/deep-tiles.exr"
expect 1 'none.exr: ' exr info "$folder/none.exr"
expect 1 'not.exr: ' exr info "$2/README.md" "$folder/not.exr"

# Pictures of a folder; a damaged file costs itself alone.
expect 0 "^$count pictures in " exr convert "$folder/in" -O "$folder/out"
holds "$(ls "$folder/out" | grep -c png)" -eq "$count"
expect 0 '; '"$count"' already existed' exr convert "$folder/in" -O "$folder/out" --skip-existing
head -c 1500 "$seeds/zip.exr" >"$folder/in/cut.exr"
expect 1 'cut.exr: EXR: .* (in the chunk at 0, [0-9]*)' exr thumbs "$folder/in" -O "$folder/small" --size 8 --format png
expect 1 "^$count pictures in .*; 1 failed" exr thumbs "$folder/in" -O "$folder/small" --size 8 --format png
holds ! -e "$folder/small/cut.png"
expect 1 'cut.exr: EXR: ' exr mip "$folder/in/cut.exr" -o "$folder/m.exr"
expect 1 'cut.exr, .*zip.exr: first file: EXR: the file is damaged, or it ends too early' exr diff "$folder/in/cut.exr" "$seeds/zip.exr"
expect 1 '"error": ".*cut.exr: EXR: ' exr stats "$folder/in" --json
rm "$folder/in/cut.exr"
: >"$folder/nothing.exr"
expect 1 'nothing.exr: EXR: the file ends too early' exr info "$folder/nothing.exr"
# A window of 65536 x 65536 pixels: refused before there is memory for them.
window=$(LC_ALL=C grep -abo dataWindow "$seeds/none.exr" | cut -d: -f1)
cp "$seeds/none.exr" "$folder/huge.exr" && chmod u+w "$folder/huge.exr"
printf '\0\0\0\0\0\0\0\0\377\377\0\0\377\377\0\0' |
    dd of="$folder/huge.exr" bs=1 seek=$((window + 21)) conv=notrunc 2>"$folder/dd.txt"
for action in stats histogram 'diff '"$folder/huge.exr" 'layers --split -O '"$folder/huge" 'mip -o '"$folder/h.exr" 'depth --layer R -o '"$folder/h.png"; do
    # shellcheck disable=SC2086
    expect 1 'huge.exr.*: EXR: 65536 x 65536 pixels exceed the limit' exr $action "$folder/huge.exr"
done
mkfifo "$folder/pipe.exr"
expect 1 'pipe.exr: is a pipe or a device' exr convert "$folder/pipe.exr" -o "$folder/pipe.png"
expect 0 '"uploads": 0' exr thumbs "$folder/in" -O "$folder/small" --json
expect 0 '^8 pictures in ' exr thumbs "$folder/in" -O "$folder/a" --shard 1/2
expect 0 '^8 pictures in ' exr thumbs "$folder/in" -O "$folder/b" --shard 2/2
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 expect 0 '^8 pictures in ' exr thumbs "$folder/in" -O "$folder/c" --shard auto
expect 0 'not started by mpirun or srun' exr thumbs "$folder/in" -O "$folder/c" --shard auto
# A batch script of Slurm is one process, whatever was asked for; a task of an array is one of several, if these can be counted.
SLURM_PROCID=0 SLURM_NTASKS=2 expect 0 "^$count pictures in " exr thumbs "$folder/in" -O "$folder/c" --shard auto
export SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=1
SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_STEP=2 expect 0 '^4 pictures in ' exr thumbs "$folder/in" -O "$folder/c" --shard auto
SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MAX=9 SLURM_ARRAY_TASK_STEP=1 expect 1 'array are not numbered in equal steps' exr thumbs "$folder/in" -O "$folder/c" --shard auto
unset SLURM_PROCID SLURM_NTASKS SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN
PMI_RANK=2 PMI_SIZE=2 expect 1 'PMI_RANK=2 is not a number below PMI_SIZE=2' exr thumbs "$folder/in" -O "$folder/c" --shard auto
expect 1 'shard: .3/2. is neither' exr thumbs "$folder/in" -O "$folder/c" --shard 3/2
expect 2 'sepia' exr convert "$seeds/zip.exr" --tone sepia -o "$folder/x.png"
expect 1 'channel "nix"' exr convert "$seeds/zip.exr" --layer nix -o "$folder/x.png"

# What was packed without loss is one picture; every tone map and filter runs.
for name in none rle zips piz; do
    expect 0 '' compare "$folder/out/$name.png" "$folder/out/zip.png"
    expect 0 '' exr diff "$seeds/$name.exr" "$seeds/zip.exr"
done
for tone in aces reinhard filmic hable local; do
    expect 0 '^1 picture' exr convert "$seeds/zip.exr" --tone $tone -o "$folder/$tone.png"
done
for filter in box cubic mitchell lanczos; do
    expect 0 '^1 picture' exr convert "$seeds/zip.exr" --filter $filter --size 9 --bits 16 -o "$folder/$filter.png"
done
expect 4 'PSNR' exr diff "$seeds/dwaa.exr" "$seeds/zip.exr" -o "$folder/d.png"
holds -s "$folder/d.png"

# Samples as they are.
expect 0 '^1 picture' exr convert "$seeds/dwaa.exr" --compression piz --tile 8 -o "$folder/again.exr"
expect 0 '' exr diff "$seeds/dwaa.exr" "$folder/again.exr"
expect 0 'tiles, piz, tiles of 8 x 8' exr info "$folder/again.exr"
expect 0 '^1 picture' exr convert "$seeds/zip.exr" --light -o "$folder/light.pfm" --no-alpha

# Numbers, layers, levels.
# A table that changes nothing, with alpha and without.
printf 'LUT_3D_SIZE 2\n0 0 0\n1 0 0\n0 1 0\n1 1 0\n0 0 1\n1 0 1\n0 1 1\n1 1 1\n' >"$folder/same.cube"
for more in '' --no-alpha '--no-alpha --size 9'; do
    expect 0 '^1 picture in ' exr convert "$seeds/zip.exr" $more -o "$folder/plain.png"
    expect 0 '^1 picture in ' exr convert "$seeds/zip.exr" $more -o "$folder/table.png" --lut "$folder/same.cube"
    expect 0 '' compare "$folder/plain.png" "$folder/table.png" --min-psnr 48
done
expect 0 'deviation' exr stats "$folder/in"
holds "$("$gale" exr stats "$folder/in" --json --shard 2/2 | grep -c '"file"')" -eq 8
expect 1 'neither K/N' exr stats "$folder/in" --shard 3/2
expect 0 '"p99.9"' exr histogram "$seeds/zip.exr" --json -o "$folder/h.png" --width 64 --height 32
expect 0 '(unnamed): A B G R (f16)$' exr layers "$seeds/zip.exr"
expect 0 '(f16) Z (f32)$' exr layers "$seeds/deep.exr"
expect 0 'zip.colour.exr' exr layers "$seeds/zip.exr" --split -O "$folder/split"
expect 0 '' exr layers "$folder/split/zip.colour.exr" "$seeds/none.exr" --merge "$folder/merged.exr"
expect 0 ' part 1: none' exr info "$folder/merged.exr"
expect 1 '"deep" has another display window than "zip"' exr layers "$seeds/zip.exr" "$seeds/deep.exr" --merge "$folder/refused.exr"
expect 0 '' exr mip "$seeds/zip.exr" -o "$folder/mip.exr" --reduce brightest --round-up --tile 8
expect 0 '6 mip levels' exr info "$folder/mip.exr"
expect 0 '' exr mip "$seeds/zip.exr" -o "$folder/rip.exr" --rip --tile 8
expect 0 '5 x 4 rip levels' exr info "$folder/rip.exr"
expect 0 '' exr depth "$seeds/deep.exr" -o "$folder/z.png"
expect 0 '' exr sheet "$folder/in" -o "$folder/sheet.png" --size 32 --columns 4
expect 0 '' exr sheet "$folder/in" -o "$folder/sheet.html"
holds "$(grep -c figcaption "$folder/sheet.html")" -ge 1
expect 2 'sheet needs --output' exr sheet "$folder/in"
mkdir "$folder/empty"
expect 1 'no files ending in .exr in this folder' exr sheet "$folder/empty" -o "$folder/none.png"
holds ! -e "$folder/none.png"
expect 2 'mip writes OpenEXR, but .*m.png ends in .png' exr mip "$seeds/zip.exr" -o "$folder/m.png"
expect 2 'denoise needs one input file and --output' exr denoise "$seeds/zip.exr"
: >"$folder/l.cube"
expect 1 'l.cube: not a .cube file: it has no LUT_1D_SIZE' exr convert "$seeds/zip.exr" --lut "$folder/l.cube" -o "$folder/x.png"
printf 'LUT_1D_SIZE 2\n0 0 0\nnan 1 1\n' >"$folder/l.cube"
expect 1 'l.cube: line 3: not a .cube file: nan 1 1' exr convert "$seeds/zip.exr" --lut "$folder/l.cube" -o "$folder/x.png"
expect 1 'missing weights' exr denoise "$seeds/zip.exr" -o "$folder/n.exr"

# Real processes of MPI: each its own part.
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 2 "$gale" exr thumbs "$folder/in" -O "$folder/mpi" --shard auto --json >"$folder/mpi.json" 2>"$folder/mpi.txt" </dev/null
    holds "$(grep -c '"files": 8,' "$folder/mpi.json")" -eq 2
    holds "$(ls "$folder/mpi" | wc -l)" -eq "$count"
else
    echo "skipped: mpirun of Open MPI is not installed"
    skipped=$((skipped + 1))
fi

# Files that come while it looks.
mkdir "$folder/watched"
for k in 1 2; do
    timeout -s INT 7 "$gale" exr thumbs "$folder/in" -O "$folder/seen-$k" --watch --shard $k/2 >"$folder/log-$k" 2>&1 &
done
timeout -s INT 8 "$gale" exr thumbs "$folder/watched" -O "$folder/seen" --format png --watch >"$folder/log" 2>&1 &
sleep 1
head -c 1500 "$seeds/zip.exr" >"$folder/watched/late.exr"
sleep 3
holds ! -e "$folder/seen/late.png"
cp "$seeds/zip.exr" "$folder/watched/late.exr"
wait
holds -s "$folder/seen/late.png"
holds "$(ls "$folder/seen-1" "$folder/seen-2" | grep -c jpg)" -eq "$count"
holds "$(ls "$folder/seen-1" "$folder/seen-2" | grep jpg | sort -u | wc -l)" -eq "$count"

printf 'P6 1 1 255 abc and some more bytes' >"$folder/not.exr"
expect 1 'not.exr: not an OpenEXR file$' exr info "$folder/not.exr"

expect 1 '\-\-width has no effect: EXR output and --light write samples unchanged' exr convert "$seeds/zip.exr" --width 2 -o "$folder/same.exr"

expect 1 '\-\-bits 16: jpg files have 8 bits per sample; omit it, or choose png or tiff$' exr convert "$seeds/zip.exr" --bits 16 -o "$folder/deep.jpg"

# Actions that make one file say which with --json.
expect 0 '"output": ".*/depth.png"' exr depth "$seeds/zip.exr" --layer R -o "$folder/depth.png" --json
expect 0 '"output": ".*/mip.exr"' exr mip "$seeds/zip.exr" -o "$folder/mip.exr" --json
expect 0 '"inputs": \[' exr sheet "$seeds/zip.exr" -o "$folder/one.png" --json

# A compression of a later version of OpenEXR is not taken for another.
cp "$seeds/zip.exr" "$folder/later.exr" && chmod u+w "$folder/later.exr"
at=$(LC_ALL=C grep -abo compression "$folder/later.exr" | sed -n '2s/:.*//p')
printf '\13' | dd of="$folder/later.exr" bs=1 seek=$((at + 16)) conv=notrunc 2>/dev/null
expect 1 'unknown compression, such as HTJ2K of OpenEXR 3.4 .*save the file with another' exr info "$folder/later.exr"

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
