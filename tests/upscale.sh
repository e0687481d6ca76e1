#!/bin/sh
# gale upscale and gale bench upscale as a user meets them: many files, folders, tiles by memory, summaries, reports.
# usage: upscale.sh PROGRAM [STAND_IN_DRIVER]
gale=$1
. "$(dirname "$0")/expect.sh"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export GALE_ALLOW_UNTRUSTED=1 GALE_CACHE="$folder/cache" GALE_MODELS="$folder/models" GALE_PROVIDER=cpu NO_COLOR=1
unset GALE_POOL_LIMIT_MB

# holds WORDS...: a condition of test(1).
holds() {
    if test "$@"; then passed=$((passed + 1)); else fail "not so: $*"; fi
}

# A network of one Upsample that doubles pictures, with a manifest.
mkdir "$folder/models"
printf '\010\004:^\012\023\012\001x\012\001s\022\001y\042\010Upsample\022\001g*\031\010\004\020\001\042\020\000\000\200?\000\000\200?\000\000\000@\000\000\000@B\001sZ\036\012\001x\022\031\012\027\010\001\022\023\012\003\022\001n\012\002\010\003\012\003\022\001h\012\003\022\001wb\011\012\001y\022\004\012\002\010\001B\004\012\000\020\011' >"$folder/models/twice.onnx"
# The same for pictures of 32 x 32 alone, without a manifest.
printf '\010\004:\134\012\023\012\001x\012\001s\022\001y\042\010Upsample\022\001g*\031\010\004\020\001\042\020\000\000\200?\000\000\200?\000\000\000@\000\000\000@B\001sZ\034\012\001x\022\027\012\025\010\001\022\021\012\003\022\001n\012\002\010\003\012\002\010\040\012\002\010\040b\011\012\001y\022\004\012\002\010\001B\004\012\000\020\011' >"$folder/models/fixed.onnx"
printf 'name: twice\nparams: {scale_factor: 2, tile_size: 8, tile_overlap: 2}\n' >"$folder/models/twice.yml"

{ printf 'P6 20 12 255 '; i=0; while [ $i -lt 60 ]; do printf 'abcABC<=>xyz'; i=$((i + 1)); done; } >"$folder/small.ppm"

expect 0 '^cpu  *[0-9.]*  *[0-9.]* s  *[0-9.]* ms  *1.0  *1  *0.45' bench upscale -p cpu -m twice --scale 4 --lanes 1
expect 0 '^cpu  *[0-9.]*  *[0-9.]* s  *[0-9.]* ms  *1.0  *2 lanes  *0.45' bench upscale -p cpu -m twice --scale 4 --lanes 2 --threads 2
expect 0 '"claimed": "0.45' bench upscale -p cpu -m twice --scale 4 --json
expect 0 '^[^ ]*twice.onnx, fp16, tiles of 256 x 256' bench upscale -p cpu -m twice --scale 4 --precision fp16
expect 0 '"precision": "bf16"' bench upscale -p cpu --scale 32 --precision bf16 --json
expect 0 '^[^ ]*fixed.onnx, fp32, tiles of 32 x 32: ' bench upscale -p cpu -m fixed --scale 4
expect 0 '20 x 12 -> .* 40 x 24, 1 tile of 32 x 32' upscale "$folder/small.ppm" -m fixed -o "$folder/x.ppm"
expect 3 "unknown provider 'nix'" bench upscale -p nix
expect 1 'model "none" not found' bench upscale -m none

# Parts and layers of EXR, where it is read.
exr="$(dirname "$0")/../fuzz/corpus/picture/exr-parts.exr"
if "$gale" compare "$exr" "$exr" >/dev/null 2>&1; then
    expect 0 'warning: [^ ]*exr-parts.exr: EXR: .*of part left; ignored: part depth, a' upscale "$exr" -m twice -o "$folder/l.png"
    expect 0 'a.R, a.G, a.B of part left; ignored: part depth, B, G, R' upscale "$exr" --layer a -m twice -o "$folder/a.png"
    expect 1 'channel "b" with a picture; available are: part depth, part left' upscale "$exr" --layer b -m twice -o "$folder/b.png"
fi

# Warnings say of which file they are: a layer of what has none, alpha that is lost, a key that nobody knows.
expect 0 'warning: [^ ]*small.ppm: pnm has no layers' upscale "$folder/small.ppm" --layer a -m twice -o "$folder/x.ppm"
printf 'P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\nabcd' >"$folder/soft.pam"
expect 0 'warning: [^ ]*soft.ppm: pnm does not support alpha' upscale "$folder/soft.pam" -m twice -o "$folder/soft.ppm"
cp "$folder/models/twice.onnx" "$folder/models/odd.onnx"
echo 'nmae: odd' >"$folder/models/odd.yml"
expect 0 'warning: [^ ]*odd.yml: manifest: unknown key "nmae"' upscale "$folder/small.ppm" -m odd -o "$folder/x.ppm"
rm "$folder/models/odd.onnx" "$folder/models/odd.yml"

# Folders and patterns.
mkdir -p "$folder/in/below"
for name in b.ppm a.PPM below/b.ppm; do printf 'P6 2 1 255 abcdef' >"$folder/in/$name"; done
printf 'P5 2 1 255 ab' >"$folder/in/b.pgm"
echo 'no picture' >"$folder/in/notes.txt"
expect 0 '3 done, 0 failed, 0 skipped' upscale "$folder/in" -m twice -O "$folder/out"
holds -f "$folder/out/b-twice.pgm" -a -f "$folder/out/a-twice.PPM" -a ! -e "$folder/out/below"
expect 0 '1 done, 0 failed, 3 skipped' upscale "$folder/in" -m twice -O "$folder/out" --recursive --skip-existing
holds -f "$folder/out/below/b-twice.ppm"
expect 0 '2 done, 0 failed, 0 skipped' upscale "$folder/in/b.*" -m twice -O "$folder/out"
# Two of one name; beside the inputs; again, when results are there; onto itself.
expect 0 'b-pgm-twice.bmp: 4 x 2' upscale "$folder/in" -m twice -O "$folder/bmp" -f bmp
holds -f "$folder/bmp/b-pgm-twice.bmp" -a -f "$folder/bmp/b-ppm-twice.bmp"
# A picture of the same stem that comes later is not taken for one that is done, in whatever order they are given.
mkdir "$folder/grow"
cp "$folder/in/b.ppm" "$folder/grow/b.ppm"
expect 0 '1 done, 0 failed, 0 skipped' upscale "$folder/grow" -m twice -O "$folder/grown" -f bmp --skip-existing
cp "$folder/in/b.pgm" "$folder/grow/b.pgm"
expect 0 '1 done, 0 failed, 1 skipped' upscale "$folder/grow" -m twice -O "$folder/grown" -f bmp --skip-existing
cp "$folder/in/b.ppm" "$folder/grow/b.pam"
expect 0 'b.pam: .*b-pam-twice.bmp' upscale "$folder/grow/b.pam" -m twice -O "$folder/grown" -f bmp --skip-existing
expect 0 '0 done, 0 failed, 3 skipped' upscale "$folder/grow/b.ppm" "$folder/grow/b.pgm" "$folder/grow/b.pam" -m twice -O "$folder/grown" -f bmp --skip-existing
expect 0 'identical' compare "$folder/grown/b-twice.bmp" "$folder/grown/b-pam-twice.bmp"
holds "$(ls "$folder/grown" | tr '\n' ' ')" = 'b-pam-twice.bmp b-pgm-twice.bmp b-twice.bmp '
# Two folders with the same names.
expect 0 '2 done, 0 failed, 0 skipped' upscale "$folder/in/b.ppm" "$folder/grow/b.ppm" -m twice -O "$folder/both"
expect 0 '0 done, 0 failed, 2 skipped' upscale "$folder/grow/b.ppm" "$folder/in/b.ppm" -m twice -O "$folder/both" --skip-existing
expect 0 '3 done, 0 failed, 0 skipped' upscale "$folder/in" -m twice
expect 0 '^3 skipped: results of other pictures' upscale "$folder/in" -m twice --skip-existing
expect 0 '0 done, 0 failed, 3 skipped' upscale "$folder/in" -m twice --skip-existing
expect 2 'output: .*b.ppm is also an input (INPUT) and would be overwritten; choose another name' upscale "$folder/in/b.ppm" -m twice -o "$folder/in/./b.ppm"
expect 2 'report: .*b.ppm is also an input' upscale "$folder/in/b.ppm" -m twice -O "$folder/out" --report "$folder/in/b.ppm"
expect 1 'report: .*b.ppm is one of the pictures' upscale "$folder/in" -m twice -O "$folder/out" --report "$folder/in/b.ppm"
expect 2 'output: .*twice.onnx is also an input (--model)' upscale "$folder/in/b.ppm" -f ppm -m "$folder/models/twice.onnx" -o "$folder/models/twice.onnx"
expect 1 '\*.xyz: no file matches' upscale "$folder/*.xyz" -m twice
# What a folder has besides pictures is counted; what is no file is not waited for.
mkdir "$folder/mixed"
for name in a.ppm A.JXL b.jxl c.psd d .hidden; do cp "$folder/in/b.ppm" "$folder/mixed/$name"; done
mkfifo "$folder/mixed/wait.ppm"
ln -s nowhere "$folder/mixed/gone.ppm"
expect 0 '^2 .jxl files skipped: unsupported picture format; the first is .*mixed/A.JXL$' upscale "$folder/mixed" -m twice -O "$folder/out"
expect 0 '^1 file skipped: no extension; name the file explicitly if it is a picture; it is .*mixed/d$' upscale "$folder/mixed" -m twice -O "$folder/out"
expect 0 '^2 files skipped: not regular files; the first is .*mixed/gone.ppm$' upscale "$folder/mixed" -m twice -O "$folder/out"
expect 0 '^1 done, 0 failed' upscale "$folder/mixed/*.ppm" -m twice -O "$folder/out"
expect 0 '"count": 2' upscale "$folder/mixed" -m twice -O "$folder/out" --json
expect 0 '"extension": "psd"' upscale "$folder/mixed" -m twice -O "$folder/out" --json
rm "$folder/mixed/a.ppm"
expect 1 'mixed: no pictures in this folder in a supported format; it contains .*A.JXL' upscale "$folder/mixed" -m twice
# Halves on a CPU that cannot compute with them.
slow=$(GALE_ISA=scalar "$gale" upscale "$folder/in/b.ppm" -m twice --precision fp16 -o "$folder/slow.ppm" 2>&1)
case $slow in *'no fp16 arithmetic'*) passed=$((passed + 1)) ;; *) fail "no word of fp16 that is slow: $slow" ;; esac
# A folder that is watched: what appears is done, an empty folder is none yet, and an interruption ends it.
mkdir "$folder/inbox" "$folder/watched"
expect 2 'watch needs --output-dir' upscale "$folder/inbox" -m twice --watch
"$gale" upscale "$folder/inbox" -m twice --watch -O "$folder/watched" -f ppm >"$folder/watch.log" 2>&1 &
watcher=$!
sleep 1
cp "$folder/in/b.ppm" "$folder/inbox/late.ppm"
i=0
while [ ! -e "$folder/watched/late-twice.ppm" ] && [ $i -lt 150 ]; do sleep 0.1; i=$((i + 1)); done
kill -TERM $watcher
wait $watcher
holds -s "$folder/watched/late-twice.ppm"
# Two processes with one folder share its work: nothing is done twice.
mkdir "$folder/shared" "$folder/halves"
for i in 1 2 3 4 5 6 7 8; do cp "$folder/small.ppm" "$folder/shared/$i.ppm"; done
"$gale" upscale "$folder/shared" -m twice --skip-existing -O "$folder/halves" >"$folder/first.log" 2>&1 &
other=$!
"$gale" upscale "$folder/shared" -m twice --skip-existing -O "$folder/halves" >"$folder/second.log" 2>&1
wait $other
holds "$(cat "$folder/first.log" "$folder/second.log" | grep -c ' -> ')" -eq 8
holds "$(ls -A "$folder/halves" | grep -c claim)" -eq 0
# Animations stay animations, frame by frame; formats that are only read become another.
corpus=$(dirname "$0")/../fuzz/corpus/picture
if "$gale" compare "$corpus/gif-parts.gif" "$corpus/gif-parts.gif" >/dev/null 2>&1; then
    expect 0 'moving.gif: 12 x 8, 4 frames, ' upscale "$corpus/gif-parts.gif" -m twice -o "$folder/moving.gif"
    expect 0 '"frames": 4' upscale "$folder/moving.gif" -m twice -o "$folder/moving.webp" --json
    expect 0 'again.png: 48 x 32, 4 frames, ' upscale "$folder/moving.webp" -m twice -o "$folder/again.png"
    expect 0 'frame-%02d.png: 12 x 8, 4 frames, ' upscale "$corpus/gif-parts.gif" -m twice -o "$folder/frame-%02d.png"
    holds -s "$folder/frame-01.png" -a -s "$folder/frame-04.png" -a ! -e "$folder/frame-05.png"
    expect 0 'jpg does not support animation: only the first of 4 frames is used' upscale "$corpus/gif-parts.gif" -m twice -o "$folder/moving.jpg"
else
    echo 'SKIP animations: built without GIF'
fi
if "$gale" compare "$corpus/heic-turned.heic" "$corpus/heic-turned.heic" >/dev/null 2>&1; then
    expect 0 'heic-turned-twice.jpg: 32 x 48, ' upscale "$corpus/heic-turned.heic" -m twice -O "$folder/out"
    expect 0 'avif-deep-twice.png: 48 x 32, ' upscale "$corpus/avif-deep.avif" -m twice -O "$folder/out"
    expect 2 'heic can be read but not written; use jpg' upscale "$folder/in/b.ppm" -m twice -o "$folder/x.heic"
else
    echo 'SKIP HEIC and AVIF: built without'
fi
mkdir "$folder/empty"
expect 1 'empty: no pictures in this folder' upscale "$folder/empty" -m twice
expect 1 'is for a single picture, but there are [0-9]' upscale "$folder/in" -m twice -o "$folder/x.ppm"
# Names as they were, in another folder; the end of a name for a format; a model whose name is none of a file.
expect 0 'plain/b.ppm: 4 x 2' upscale "$folder/in/b.ppm" -m twice -O "$folder/plain" --suffix ''
expect 1 'b.ppm: the result would overwrite it' upscale "$folder/in/b.ppm" -m twice --suffix ''
expect 0 'plain/b.bmp: 4 x 2' upscale "$folder/in/b.ppm" -m twice -O "$folder/plain" --suffix= -f .bmp
cp "$folder/models/twice.onnx" "$folder/models/slash.onnx"
echo 'name: x2 / soft' >"$folder/models/slash.yml"
expect 0 'plain/b-x2 - soft.ppm: 4 x 2' upscale "$folder/in/b.ppm" -m slash -O "$folder/plain"
rm -r "$folder/plain"
# A folder of a model's name, such as one for its results, is not the model.
mkdir "$folder/here" "$folder/here/twice" "$folder/here/none"
whole=$(realpath "$gale")
(cd "$folder/here" && "$whole" upscale ../in/b.ppm -m twice -O twice >/dev/null)
holds -f "$folder/here/twice/b-twice.ppm"
expect 1 'model ".*/here/none" not found: it is a folder' upscale "$folder/in/b.ppm" -m "$folder/here/none"
expect 1 'model "https://example.org/x.onnx" not found: download it with `gale models pull`' upscale "$folder/in/b.ppm" -m https://example.org/x.onnx
# One that fails does not end the others.
expect 1 '2 done, 3 failed, 0 skipped' upscale "$folder/in/notes.txt" "$folder/in/b.ppm" "$folder/empty" "$folder/none.png" "$folder/in/b.pgm" -m twice -O "$folder/some"

printf '\211PNG\015\012\032\012\000\000\000\015IHDR' >"$folder/picture.onnx"
expect 1 'picture.onnx: .*; a network must be an ONNX file$' upscale "$folder/in/b.ppm" -m "$folder/picture.onnx"
expect 0 '^manifest embedded$' models info zoom2x

# A name that stands for grey or for colours gets them.
expect 0 'warning: [^ ]*grey.pgm: pgm does not support colour: the picture is written in grey' upscale "$folder/in/b.ppm" -m twice -o "$folder/grey.pgm"
holds "$(head -c 2 "$folder/grey.pgm")" = P5
expect 0 '1 done' upscale "$folder/in/b.pgm" -m twice -o "$folder/colour.ppm"
holds "$(head -c 2 "$folder/colour.ppm")" = P6
expect 2 'output: PBM (black and white) can be read but not written; use PGM' upscale "$folder/in/b.ppm" -m twice -o "$folder/x.pbm"
# Names of files are bytes, and JSON is UTF-8.
cp "$folder/in/b.ppm" "$folder/$(printf 'b\303\244\377.ppm')"
expect 0 "\"input\": \".*/b$(printf '\303\244')\\\\udcff.ppm\"" upscale "$folder/$(printf 'b\303\244\377.ppm')" -m twice -o "$folder/x.ppm" --json

# What can be known before the network runs is said then: `none` would not be found if it were opened.
expect 2 'format: unknown picture format "psd"; supported are png, jpeg' upscale "$folder/in/b.ppm" -m none -f psd
expect 2 'output: unknown picture format "psd"' upscale "$folder/in/b.ppm" -m none -o "$folder/x.psd"
expect 1 'page.html: cannot be written' upscale "$folder/in/b.ppm" -m none --report "$folder/nowhere/page.html"
expect 2 'empty is a folder; use --output-dir' upscale "$folder/in/b.ppm" -m none -o "$folder/empty"
expect 2 'nowhere/ is a folder; use --output-dir' upscale "$folder/in/b.ppm" -m none -o "$folder/nowhere/"
expect 2 'cannot be combined' upscale "$folder/in/b.ppm" -m none --scale 2 --width 9
expect 1 'x.ppm: cannot be written: no such folder: .*nowhere' upscale "$folder/in/b.ppm" -m twice -o "$folder/nowhere/x.ppm"
expect 1 '1000000 x 500000 pixels need [0-9]* GiB, but this machine has [0-9]* GiB; use smaller inputs' upscale "$folder/in/b.ppm" -m twice -O "$folder/out" --width 1000000
if "$gale" upscale "$folder/in/b.ppm" -m twice -O "$folder/out" -f webp >/dev/null 2>&1; then
    expect 1 'webp is limited to 16383 pixels a side, not 20000 x 10000' upscale "$folder/in/b.ppm" -m twice -O "$folder/out" --width 20000 -f webp
fi
# Where a name says no format, the result is in the input's; a pipe has a name as well.
cp "$folder/in/b.ppm" "$folder/plain"
expect 0 'plain-twice: 4 x 2' upscale "$folder/plain" -m twice -O "$folder/out"
expect 0 'identical' compare "$folder/out/plain-twice" "$folder/out/b-twice.ppm"
cp "$folder/in/b.ppm" "$folder/b.orig"
expect 0 'b-twice.orig: 4 x 2' upscale "$folder/b.orig" -m twice -O "$folder/out"
"$gale" upscale - -m twice -O "$folder/out" <"$folder/in/b.ppm" >/dev/null
expect 0 'identical' compare "$folder/out/stdin-twice" "$folder/out/b-twice.ppm"
"$gale" upscale /dev/stdin -m twice <"$folder/in/b.ppm" | cmp -s - "$folder/out/b-twice.ppm"
holds $? = 0
"$gale" upscale "$folder/in/b.ppm" -m twice -o /dev/stdout | cmp -s - "$folder/out/b-twice.ppm"
holds $? = 0
expect 2 'can be used only once' upscale - /dev/stdin -m twice -O "$folder/out"
expect 2 'standard input together with other files needs --output-dir' upscale - "$folder/in/b.ppm" -m twice
expect 0 '1 done' upscale -q "$folder/in/b.ppm" -m twice -O "$folder/out" --quality 90
# A device is written into, and stays one.
expect 1 '/dev/full: cannot write: No space left' upscale "$folder/in/b.ppm" -m twice -f ppm -o /dev/full
mkfifo "$folder/pipe"
cat "$folder/pipe" >"$folder/piped.ppm" &
expect 0 'pipe: 4 x 2' upscale "$folder/in/b.ppm" -m twice -f ppm -o "$folder/pipe"
wait $!
expect 0 'identical' compare "$folder/piped.ppm" "$folder/out/b-twice.ppm"
holds -p "$folder/pipe"
# A folder that is made for results has the usual rights, and a job that is ended leaves nothing half written.
(umask 022 && "$gale" upscale "$folder/in/b.ppm" -m twice -O "$folder/shared/below" >/dev/null)
holds "$(stat -c %a "$folder/shared" "$folder/shared/below" | tr '\n' ' ')" = '755 755 '
mkdir "$folder/crowd"
i=0; while [ $i -lt 100 ]; do cp "$folder/in/b.ppm" "$folder/crowd/$i.ppm"; i=$((i + 1)); done
"$gale" upscale "$folder/crowd" -m twice -O "$folder/ended" | head -1 >/dev/null
holds -z "$(find "$folder/ended" -name '*.tmp')"
# Where standard output is closed, no words go into pictures.
"$gale" upscale "$folder/crowd" -m zoom2x -O "$folder/closed" >&- 2>/dev/null
holds "$(cat "$folder"/closed/*.ppm | wc -c)" = 3500
holds "$(cksum "$folder"/closed/*.ppm | cut -d' ' -f1 | sort -u | wc -l)" = 1
mkfifo "$folder/crowd/wait.ppm"
"$gale" upscale "$folder/crowd/1.ppm" "$folder/crowd/wait.ppm" -m twice -O "$folder/ended" >/dev/null 2>"$folder/words" &
exec 3>"$folder/crowd/wait.ppm" # goes on when the job reads there, and waits in its turn
kill -TERM $!
wait $! 2>/dev/null
holds $? = 143
exec 3>&-
holds -n "$(grep -e 'interrupted; run the same command with --skip-existing' "$folder/words")"

# With --json, what was done by then is told, and the program ends as it was told to.
"$gale" upscale "$folder/crowd" "$folder/crowd/wait.ppm" "$folder/in/b.ppm" -m twice -O "$folder/told" --json >"$folder/told.json" 2>/dev/null &
exec 3>"$folder/crowd/wait.ppm"
kill -TERM $!
printf 'P6 2 1 255 abcdef' >&3
exec 3>&-
wait $! 2>/dev/null
holds $? = 143
holds -n "$(grep -e '"cancelled": [1-9]' "$folder/told.json")"
holds "$(tail -c 2 "$folder/told.json")" = '}'

# A value that is none is whose it is.
printf 'Pf 2 1 -1.0\n\000\000\200\177\000\000\000\077' >"$folder/endless.pfm"
expect 1 'endless.pfm: the picture contains NaN or infinity' upscale "$folder/endless.pfm" -m twice -O "$folder/out"

expect 0 'warning: [^ ]*endless.pfm: 1 NaN or infinite sample replaced by 0' upscale "$folder/endless.pfm" -m twice -O "$folder/out" --tolerant
{ printf 'P5 160 120 255 '; i=0; while [ $i -lt 1600 ]; do printf 'abcABC<=>xyz'; i=$((i + 1)); done; } >"$folder/large.pgm"
# A JPEG that was cut: refused, or grey where it ends.
if "$gale" upscale "$folder/large.pgm" -m twice -f jpeg -o "$folder/whole.jpg" >/dev/null 2>&1; then
    head -c 1500 "$folder/whole.jpg" >"$folder/cut.jpg"
    expect 1 'cut.jpg: JPEG: the file is truncated' upscale "$folder/cut.jpg" -m twice -o "$folder/x.ppm"
    expect 0 'warning: [^ ]*cut.jpg: JPEG: the file is truncated; the missing part is grey' upscale "$folder/cut.jpg" -m twice -o "$folder/cut.pgm" --tolerant
    holds "$(tail -c 1 "$folder/cut.pgm" | od -An -tu1 | tr -d ' ')" = 128
    holds "$("$gale" upscale "$folder/cut.jpg" -m twice -o "$folder/cut.pgm" --tolerant 2>&1 | grep -c truncated)" = 1
    head -c 100 "$folder/whole.jpg" >"$folder/stub.jpg"
    expect 1 'stub.jpg: JPEG: ' upscale "$folder/stub.jpg" -m twice -o "$folder/x.ppm" --tolerant
else
    echo 'SKIP a JPEG that was cut: not in this build'
fi

# A noisy picture: the default cleans it, and says so.
awk 'BEGIN { print "P2 64 64 255"; s = 1; for (i = 0; i < 4096; i++) { t = 0; for (k = 0; k < 4; k++) { s = s * 16807 % 2147483647; t += s / 2147483647 - 0.5 } print int(128 + 26 * t) } }' >"$folder/noisy.pgm"
expect 0 'cleaned (noise 1[0-9.]*), .*' upscale "$folder/noisy.pgm" -o "$folder/cleaned.pgm" --report "$folder/cleaned.html"
expect 0 '"reason": "noise 1' upscale "$folder/noisy.pgm" -o "$folder/cleaned.pgm" --json
holds "$(grep -c 'cleaned (noise' "$folder/cleaned.html")" -gt 0
expect 0 'zoom2x 2x, 0 cleaned, ' upscale "$folder/noisy.pgm" --clean 0 -o "$folder/plain.pgm"
expect 0 'noisy-clean.pgm: 64 x 64, .*, cleaned by 0.50, ' upscale "$folder/noisy.pgm" --scale 1 --clean 0.5
expect 0 'clean 1x, 1 cleaned, ' upscale "$folder/noisy.pgm" --scale 1 -o "$folder/same.pgm"
"$gale" upscale "$folder/noisy.pgm" -m clean -o "$folder/alone.pgm" >/dev/null 2>&1
expect 0 'identical' compare "$folder/same.pgm" "$folder/alone.pgm"
expect 0 '128 x 128, .*, cleaned, ' upscale "$folder/noisy.pgm" -m twice --clean 1 -o "$folder/twice.pgm"
expect 2 'clean' upscale "$folder/noisy.pgm" --clean 2 -o "$folder/twice.pgm"

# Tiles by memory: the whole picture, and with a small pool tiles that it holds; the picture is the same.
expect 0 '320 x 240, 1 tile of 176 x 136, ' upscale "$folder/large.pgm" -m zoom2x --tile 0 --batch 0 -o "$folder/whole.pgm"
GALE_POOL_LIMIT_MB=24 expect 0 'tiles of [0-9]* x [0-9]* (limited by memory), ' upscale "$folder/large.pgm" -m zoom2x --tile 0 --batch 0 -o "$folder/tiled.pgm"
GALE_POOL_LIMIT_MB=12 expect 0 'tiles of [0-9]* x [0-9]* (limited by memory), ' upscale "$folder/large.pgm" -m zoom2x --tile 0 -o "$folder/least.pgm"
expect 0 'largest' compare "$folder/whole.pgm" "$folder/tiled.pgm" --min-psnr 60

# A device that has no memory, or that kernels cannot be built for, hands the work down the chain, unless that is strict.
if [ -n "$2" ]; then
    export GALE_CUDA_LIBRARY="$2" GALE_NVRTC_LIBRARY="$2"
    FAKE_ALLOC_FAIL_FROM=1 expect 0 'warning: .*CUDA out of memory: .*; falling back to cpu$' upscale "$folder/in/b.ppm" "$folder/in/a.PPM" -m twice -O "$folder/down" -p cuda,cpu
    FAKE_ALLOC_FAIL_FROM=1 expect 0 '^1 done, .* tiles/s on cpu 0 (.*), fp32$' upscale "$folder/in/b.ppm" -m twice -O "$folder/down" -p cuda,cpu
    FAKE_ALLOC_FAIL_FROM=1 expect 0 '^      "provider": "cpu",$' upscale "$folder/in/b.ppm" -m twice -O "$folder/down" -p cuda,cpu --json
    FAKE_ALLOC_FAIL_FROM=1 expect 1 'CUDA out of memory: .*; --strict: no fallback to cpu; use smaller inputs' upscale "$folder/in/b.ppm" -m twice -O "$folder/down" -p cuda,cpu --strict
    FAKE_NO_COMPILER=1 GALE_CACHE="$folder/cold" expect 0 '; falling back to cpu$' upscale "$folder/in/b.ppm" -m twice -O "$folder/down" -p cuda,cpu
    expect 0 'identical' compare "$folder/down/b-twice.ppm" "$folder/out/b-twice.ppm"
    unset GALE_CUDA_LIBRARY GALE_NVRTC_LIBRARY
else
    echo 'SKIP a device that hands the work down the chain: no stand-in for CUDA in this build'
fi

# The last line, JSON and the page.
expect 0 '^1 done, 0 failed, 0 skipped in [0-9.]* s: twice 2x, 1 tile, [0-9.]* tiles/s on cpu 0 (.*), fp32$' upscale "$folder/in/b.ppm" -m twice -O "$folder/out"
for precision in fp16 fast; do
    expect 0 "(.*), $precision\$" upscale "$folder/in/b.ppm" -m twice -O "$folder/out" --precision $precision
    expect 0 "\"precision\": \"$precision\"" upscale "$folder/in/b.ppm" -m twice -O "$folder/out" --precision $precision --json
done
expect 2 'precision' upscale "$folder/in/b.ppm" -m twice --precision fp8
expect 1 '"tiles_per_second": [0-9.]' upscale "$folder/in/b.ppm" "$folder/none.png" -m twice -O "$folder/out" --json
expect 1 '"write_seconds": 0.0*[1-9]' upscale "$folder/in/b.ppm" "$folder/none.png" -m twice -O "$folder/out" --json
expect 1 '"error": ".*none.png: cannot open' upscale "$folder/in/b.ppm" "$folder/none.png" -m twice -O "$folder/out" --json
expect 1 '1 failed' upscale "$folder/none<1>.png" "$folder/in/b.ppm" -m twice -O "$folder/out" --report "$folder/page.html"
for pattern in 'id=before alt=before src=.data:image/[a-z]*;base64,[A-Za-z0-9+/]*=*.>' 'id=after' 'id=loupe' '4 x 2<td' 'none&lt;1>.png: cannot open' '</html>$'; do
    if grep -q -e "$pattern" "$folder/page.html"; then passed=$((passed + 1)); else fail "no '$pattern' in the page"; fi
done
# Both pictures are in it as they are, not made small.
printf 'P5 1500 2 255 %03000d' 7 >"$folder/wide.pgm"
expect 0 '1 done' upscale "$folder/wide.pgm" -m twice -O "$folder/out" --report "$folder/page.html"
grep -o "id=after alt=after src='data:image/[a-z]*;base64,[A-Za-z0-9+/=]*" "$folder/page.html" | sed 's/.*base64,//' | base64 -d >"$folder/shown"
expect 0 '3000 x 4 pixels' compare "$folder/shown" "$folder/out/wide-twice.pgm"
expect 1 'none/page.html' upscale "$folder/in/b.ppm" -m twice -O "$folder/out" --report "$folder/none/page.html"

# Progress is for terminals.
if "$gale" upscale "$folder/in" -m twice -O "$folder/out" 2>&1 >/dev/null </dev/null | grep -q .; then fail 'progress in a pipe'; else passed=$((passed + 1)); fi
skipped=0
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    if script -qec "'$gale' upscale '$folder/in/b.ppm' -o -" /dev/null </dev/null | grep -q 'standard output is a terminal'; then passed=$((passed + 1)); else fail 'a picture on a terminal'; fi
    if script -qec "'$gale' upscale - -o '$folder/x.ppm'" /dev/null </dev/null | grep -q 'standard input is a terminal'; then passed=$((passed + 1)); else fail 'a picture typed by hand'; fi
    if script -qec "'$gale' upscale '$folder/in' -m twice -O '$folder/out'" /dev/null </dev/null | grep -q '[1-9] of [0-9] files, [0-9.]*\/s, [0-9]* s left; .*: [01] of 1 tiles'; then passed=$((passed + 1)); else fail 'no progress on a terminal'; fi
else
    echo 'SKIP progress on a terminal: no script(1)'
    skipped=1
fi

# Names do not control the terminal.
cp "$folder/small.ppm" "$folder/$(printf 'o\033[31md\nd').ppm"
expect 0 'o?\[31md?d.ppm: 20 x 12 -> ' upscale "$folder"/o*d.ppm -m twice -O "$folder/odd"

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
