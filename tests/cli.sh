#!/bin/sh
# The command line as a user meets it: exit codes, messages, help, completion, manual.
# usage: cli.sh PROGRAM [CRASHING_DRIVER [STAND_IN_DRIVER BROKEN_STAND_IN]]
gale=$1
. "$(dirname "$0")/expect.sh"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# Stand-in drivers compute nothing: the part on trust below turns the self-test on.
export GALE_CACHE="$folder/cache" NO_COLOR=1 GALE_ALLOW_UNTRUSTED=1
unset RNN_CUDA_CACHE_PATH GALE_CACHE_LIMIT_MB

# No letter stands for two options.
for command in $("$gale" --completion bash | sed -n "s/^ *:\*) words='\([a-z ]*\) --help.*/\1/p"); do
    twice=$("$gale" "$command" --help | sed -n 's/^  \(-[A-Za-z]\), .*/\1/p' | sort | uniq -d)
    if [ -z "$twice" ]; then passed=$((passed + 1)); else fail "gale $command: $twice stands for two options"; fi
done

expect 2 'usage: gale COMMAND'
expect 0 'usage: gale COMMAND' --help
expect 0 '4  *results differ' -h
expect 0 'GALE_PROVIDER .*providers to try in order' --help env
expect 0 'usage: gale cache' --help cache
expect 0 'usage: gale cache' cache --help
expect 0 'usage: gale cache' help cache
expect 2 "unknown command 'nothing'" --help nothing
expect 0 '^gale [0-9]*\.[0-9]*\.[0-9]*$' --version
expect 2 "did you mean 'cache'" cahce
expect 2 "unknown command 'xyzzy'$" xyzzy
expect 2 "unknown option '--wrong'" --wrong
expect 2 "did you mean '--json'" cache --jsn
expect 2 "unknown option '--zzzzzz'" cache --zzzzzz=1
expect 2 'needs a value: MB' cache --limit
expect 2 "'x' is not a whole number" cache --limit=x
expect 2 '2000000 is outside 0..1048576' cache -l 2000000
expect 2 "'melt' is not one of stats|clean|clear" cache melt
expect 2 "unexpected argument 'more'" cache stats more
expect 2 'takes no value' cache --json=yes
expect 2 'the value is empty' cache --folder=
expect 0 '^kernels  0$' cache
expect 0 '"files": 0' cache --json
expect 0 '7\.0 MiB' cache -l7
expect 0 "$folder/other/kernels" cache --folder "$folder/other"
expect 0 'kernels  0' cache -- stats
mkdir -p "$folder/cache/kernels/ab" && echo garbage >"$folder/cache/kernels/ab/x.bin"
expect 0 '^kernels  1$' cache stats
expect 0 '^removed  1, 8 B$' cache clear
expect 0 '^kernels  0$' cache clean
mkdir -p "$folder/cache/tuning" && echo garbage >"$folder/cache/tuning/x.json"
expect 0 '^records  1$' cache --kind tuning
expect 0 '^removed  1, 8 B$' cache clear --kind tuning
expect 0 '"files": 0' cache --kind tuning --json

# Devices.  One that is not there is skipped by what `gale devices` itself says.
expect 0 '^cpu  *cpu:0 ' devices
expect 0 '"automatic": ' devices --json
expect 0 'MoltenVK' devices
expect 0 'ceilings  copy [0-9.]* GB/s, upload' devices --measure
expect 0 'ceilings  copy [0-9.]* GB/s, upload' devices
for f in "$folder"/cache/ceilings/*; do echo garbage >"$f"; done
expect 0 'ceilings  not measured yet' devices
expect 0 '^ok  *cpu  ' doctor
expect 0 '^ok  *pictures  .*bmp' doctor
expect 0 '"kind": "pictures"' doctor --json
expect 0 '^cpu works$' doctor --try cpu
expect 0 '^ok  *close the device: opening took [0-9.]* s, the self-test [0-9.]* s$' doctor --try cpu
expect 0 '^null works$' doctor --try null
expect 0 '^> sort (TopK)' selftest --provider cpu --processes 2
printf '#!/bin/sh\necho "> sort (TopK)"\nkill -KILL $$\n' >"$folder/crashes" && chmod +x "$folder/crashes"
GALE_PROGRAM=$folder/crashes expect 4 '^- the driver crashed with SIGKILL' selftest --provider cpu --processes 2
GALE_PROGRAM=/nonexistent expect 1 '^- /nonexistent: No such file' selftest --provider cpu --processes 2
expect 2 'part 3/2: K/N is expected' selftest --provider cpu --part 3/2
expect 2 'kernels of CPU are not compiled to files' selftest --provider cpu --compile "$folder/kernel.cu"
expect 2 "unknown provider 'nix'" doctor --try nix
if [ -n "$2" ] && ! "$gale" devices | grep -q 'does not include CUDA'; then
    export GALE_CUDA_LIBRARY="$2"
    expect 1 '^FAILED  *open the device: the driver crashed with SIGABRT' doctor --try cuda
    HANG=1 GALE_WATCHDOG_S=1 expect 1 '^FAILED  *open the device: the driver hangs' doctor --try cuda
    unset GALE_CUDA_LIBRARY
else
    echo 'SKIP gale doctor --try with a driver that crashes: no CUDA backend in this build'
    skipped=$((skipped + 1))
fi
expect 0 '^cpu:0 ' top --once
expect 0 '"memory_bytes": [0-9]' top --json
expect 2 'outside 0.1..3600' top --interval 0
printf '__kernel void scale(__global float *x, float s, uint n) { uint i = get_global_id(0); if (i < n) x[i] *= s; }\n' >"$folder/scale.cl"
expect 2 'missing argument: FILE' kernel run
expect 2 'is not one to three numbers' kernel run "$folder/scale.cl" --group 0
expect 2 'neither a 32-bit number' kernel run "$folder/scale.cl" --word 1.5
expect 2 'neither an .npy file' kernel run "$folder/scale.cl" --buffer f32
expect 1 'cannot open' kernel run "$folder/scale.cl" --buffer "$folder/none.npy" --provider cpu
echo >"$folder/own.npy"
expect 2 'out: .*own.npy is also an input (--buffer) .* or use --overwrite' kernel run "$folder/scale.cl" --buffer "$folder/own.npy" --out "0=$folder/./own.npy"
expect 1 'own.npy: not a' kernel run "$folder/scale.cl" --buffer "$folder/own.npy" --out "0=$folder/own.npy" --overwrite
expect 1 'unknown language' kernel run "$folder/scale.txt" --provider cpu
expect 1 'cpu cannot run opencl kernels' kernel run "$folder/scale.cl" --provider cpu
expect 3 'unknown provider "cudda"; known are' kernel run "$folder/scale.cl" --provider cudda
expect 3 'device index 9 is out of range' kernel run "$folder/scale.cl" --provider cpu --device 9

# Bad input and bad machines: a clear message, the right exit code, nothing lost.
skip() { echo "SKIP $1"; skipped=$((skipped + 1)); }
expect 3 'unknown provider "nix"' check --provider nix
expect 1 "nothing was checked: no case name contains 'Nonsense'" check --provider cpu --filter Nonsense
expect 3 'unknown provider "nix"; known are .*cuda.*cpu' bench --provider nix
expect 3 'unknown provider "nix"; known are' bench --provider cpu,nix
expect 2 '^gale: --part 3/2: K/N is expected, with K from 1 to N, such as 2/4$' check --provider cpu --part 3/2
expect 2 '^gale: --part 2x: K/N is expected' check --provider cpu --part 2x
expect 3 'device index 7 is out of range: cpu has 1 device here, counted from 0' bench --provider cpu --device 7
expect 3 'device index 7 is out of range: cpu has 1 device here, counted from 0' check --provider cpu --device 7
GALE_DEVICE=two expect 1 'GALE_DEVICE=two is not a device index' bench --provider cpu
GALE_PROVIDER=nix expect 3 'unknown provider "nix"' bench
if "$gale" devices | grep -q 'does not include CUDA'; then skip 'CUDA drivers that are missing, damaged or old: no CUDA backend in this build'; else
    echo 'this is no library' >"$folder/libcuda.so"
    run="kernel run $folder/scale.cl"
    export GALE_CUDA_LIBRARY="$folder/none/libcuda.so"
    expect 3 'CUDA execution provider requested but not available: library not found: .*none/libcuda.so' $run --provider cuda
    expect 3 'strict: no fallback to cpu' $run --provider cuda,cpu --strict
    expect 1 'warning: .*library not found.*; falling back to cpu' $run --provider cuda,cpu
    expect 3 '^SKIP cuda:0: library not found' check --provider cuda
    expect 3 'nothing was checked: no device of --provider cuda is available' check --provider cuda
    expect 0 'library not found: .*none/libcuda.so' devices
    export GALE_CUDA_LIBRARY="$folder/libcuda.so"
    expect 3 "the driver's library does not load: .*libcuda.so.*install NVIDIA's driver (libcuda1) again" $run --provider cuda
    expect 0 "the driver's library does not load" devices
    expect 0 "install NVIDIA's driver (libcuda1) again" doctor
    if [ -n "$4" ]; then
        export GALE_CUDA_LIBRARY="$4"
        expect 3 'has no symbol cuLaunchKernel: it is damaged or too old' $run --provider cuda
        export GALE_CUDA_LIBRARY="$3" GALE_NVRTC_LIBRARY="$3"
        # A driver is trusted once it has shown that it computes correctly: this one does nothing.
        model=$(dirname "$0")/../fuzz/corpus/onnx/gemm.onnx
        export GALE_ALLOW_UNTRUSTED=0
        expect 0 'self-test not run yet' devices
        # Kernels are compiled by other processes.
        expect 4 'a process compiled in' selftest --provider cuda --processes 2 --verbose
        expect 4 '^- element 0 is .* on the CPU' selftest --provider cuda
        expect 1 '^FAILED  *map with Tanh(Softplus(x)): element 0 is' doctor --try cuda
        echo nothing >"$folder/kernel.cu"
        expect 1 'kernel.cu: not a kernel that gale wrote' selftest --provider cuda --compile "$folder/kernel.cu"
        expect 3 'failed the self-test: map with Tanh(Softplus(x)): element 0 is .*--allow-untrusted' run "$model" --random --provider cuda
        expect 0 'self-test FAILED: map with Tanh' devices
        expect 0 'failed the self-test: map with Tanh' doctor
        GALE_PROGRAM=/nonexistent expect 3 'failed the self-test' run "$model" --random --provider cuda
        rm -rf "$folder/cache/trust"
        GALE_PROGRAM=/nonexistent expect 3 'warning: .*the self-test runs in this process' run "$model" --random --provider cuda
        expect 0 'falling back to cpu' run "$model" --random --provider cuda,cpu
        expect 3 'strict: no fallback to cpu' run "$model" --random --provider cuda,cpu --strict
        refused=$("$gale" run "$model" --random --provider cuda --allow-untrusted 2>&1 | grep -c 'failed the self-test')
        [ "$refused" = 0 ] && passed=$((passed + 1)) || fail '--allow-untrusted does not let an untrusted device through'
        export GALE_ALLOW_UNTRUSTED=1
        unset GALE_NVRTC_LIBRARY
        FAKE_VERSION=9000 expect 3 'version too old: the driver is for CUDA 9.0, older than 11.0; install a newer version of NVIDIA' $run --provider cuda
        FAKE_DEVICES=0 expect 3 'No GPU detected: the CUDA driver finds no device' $run --provider cuda
        FAKE_INIT=3 expect 3 'the driver does not start' $run --provider cuda
        expect 3 'device index 5 is out of range: cuda has 2 devices here' $run --provider cuda --device 5
        printf 'extern "C" __global__ void k() { nonsense }\n' >"$folder/broken.cu"
        FAKE_NO_COMPILER=1 GALE_NVRTC_LIBRARY="$3" expect 1 'broken.cu: ' kernel run "$folder/broken.cu" --provider cuda
    else skip 'CUDA drivers of other versions: no stand-ins in this build'; fi
    unset GALE_CUDA_LIBRARY
fi
GALE_POOL_LIMIT_MB=1 expect 1 'CPU out of memory: 256 MiB requested, free 1.0 MiB of .* (pool limit 1.0 MiB); use smaller inputs' bench --provider cpu
GALE_POOL_LIMIT_MB=some expect 0 'GALE_POOL_LIMIT_MB=some is not an integer and is ignored' check --provider cpu --filter 'Relu f32'
GALE_POOL_LIMIT_MB=-1 expect 0 'GALE_POOL_LIMIT_MB=-1 is negative and is ignored' check --provider cpu --filter 'Relu f32'
# A cache that cannot be written (a file is in the way: root may write anywhere) or holds garbage costs time, not results.
echo in the way >"$folder/file"
none=/nonexistent # software drivers are slow to measure
OCL_ICD_VENDORS=$none VK_DRIVER_FILES=$none VK_ICD_FILENAMES=$none GALE_CACHE="$folder/file" expect 0 'measured rates of cpu:0 are not stored: .*file: exists, but is not a folder' devices --measure
also 'ceilings  copy [0-9.]* GB/s, upload'
GALE_CACHE="$folder/file" expect 0 '^kernels  0$' cache
GALE_CACHE="$folder/file" expect 0 '^[0-9]* passed, 0 failed' check --provider cpu --filter Relu
[ "$(cat "$folder/file")" = 'in the way' ] && passed=$((passed + 1)) || { echo 'FAIL the file in the way was changed'; failed=$((failed + 1)); }

# Pictures: two of 12 x 11 pixels that differ by one step in the last, and one of another size.
printf 'P5 12 11 255 %0132d' 0 >"$folder/a.pgm"
printf 'P5 12 11 255 %0132d' 1 >"$folder/b.pgm"
printf 'P5 2 1 255 %02d' 0 >"$folder/c.pgm"
expect 0 '12 x 11 pixels, identical' compare "$folder/a.pgm" "$folder/a.pgm"
expect 0 '1 differ, most at 11,10 in grey' compare "$folder/a.pgm" "$folder/b.pgm" --diff "$folder/d.pgm" --gain 100
expect 0 '"pixels_that_differ": 1' compare "$folder/a.pgm" "$folder/b.pgm" --json
# The same unit in both.
expect 0 '^grey .* 1$' compare "$folder/a.pgm" "$folder/b.pgm"
expect 0 '"largest_of_255": 1$' compare "$folder/a.pgm" "$folder/b.pgm" --json
printf 'P5 2 1 255 ab' >"$folder/two-pixels.pgm"
printf 'P5 2 1 255 bb' >"$folder/two-others.pgm"
expect 0 'identical' compare "$folder/two-pixels.pgm" "$folder/two-pixels.pgm" --min-ssim 0.9
expect 4 'smaller than 11 x 11 pixels have no SSIM, and these differ' compare "$folder/two-pixels.pgm" "$folder/two-others.pgm" --min-ssim 0.9
if "$gale" compare "$folder/a.pgm" - <"$folder/a.pgm" | grep -q 'identical'; then passed=$((passed + 1)); else fail 'gale compare with standard input'; fi
expect 2 'standard input can be used only once' compare - -
expect 2 'a.pgm is also an input (B) and would be overwritten; choose another name$' compare "$folder/b.pgm" "$folder/a.pgm" --diff "$folder/./a.pgm"
expect 4 'PSNR of 69.34 dB is below 80' compare "$folder/a.pgm" "$folder/b.pgm" --min-psnr 80
expect 4 'different sizes: 12 x 11 and 2 x 1' compare "$folder/a.pgm" "$folder/c.pgm"
expect 1 'file: not a picture' compare "$folder/a.pgm" "$folder/file"
expect 1 'nowhere.png: cannot open' compare "$folder/a.pgm" "$folder/nowhere.png"

# A network of one Upsample that doubles pictures, with a manifest.
mkdir "$folder/models" "$folder/done"
printf '\010\004:^\012\023\012\001x\012\001s\022\001y\042\010Upsample\022\001g*\031\010\004\020\001\042\020\000\000\200?\000\000\200?\000\000\000@\000\000\000@B\001sZ\036\012\001x\022\031\012\027\010\001\022\023\012\003\022\001n\012\002\010\003\012\003\022\001h\012\003\022\001wb\011\012\001y\022\004\012\002\010\001B\004\012\000\020\011' >"$folder/models/twice.onnx"
printf 'name: twice\nparams: {scale_factor: 2, tile_size: 8, tile_overlap: 2}\n' >"$folder/models/twice.yml"
printf 'params: {scale_factor: 4}\n' >"$folder/models/wrong.yml"
cp "$folder/models/twice.onnx" "$folder/models/wrong.onnx"
printf 'P6 2 1 255 abcdef' >"$folder/two.ppm"
expect 0 'two-zoom2x.ppm: 4 x 2, 1 tile' upscale "$folder/two.ppm" -p cpu
expect 1 'model "none" not found' upscale "$folder/two.ppm" -p cpu -m none --models "$folder/models"
expect 1 'the manifest says 4x, but the model scales by 2x' upscale "$folder/two.ppm" -p cpu -m wrong --models "$folder/models"
expect 0 'twice 2x' upscale "$folder/two.ppm" -p cpu -m twice --models "$folder/models"
printf 'P6 4 2 255 abcabcdefdefabcabcdefdef' >"$folder/wanted.ppm"
expect 0 'identical' compare "$folder/two-twice.ppm" "$folder/wanted.ppm"
expect 0 '2 done, 0 failed, 0 skipped' upscale "$folder/a.pgm" "$folder/two.ppm" -p cpu -m twice --models "$folder/models" -O "$folder/done" --suffix -z -f pam
expect 0 '0 done, 0 failed, 2 skipped' upscale "$folder/a.pgm" "$folder/two.ppm" -p cpu -m twice --models "$folder/models" -O "$folder/done" --suffix -z -f pam --skip-existing
expect 0 '24 x 22 pixels' compare "$folder/done/a-z.pam" "$folder/done/a-z.pam"
expect 1 'file: not a picture' upscale "$folder/file" "$folder/two.ppm" -p cpu -m twice --models "$folder/models" -O "$folder/done"
expect 0 '"width": 7' upscale "$folder/two.ppm" -p cpu -m twice --models "$folder/models" -o "$folder/seven.ppm" --width 7 --json
expect 1 'has no controls' upscale "$folder/two.ppm" -p cpu -m twice --models "$folder/models" -c denoise=1
expect 2 'use --output-dir' upscale "$folder/a.pgm" "$folder/two.ppm" -p cpu -m twice --models "$folder/models" -o "$folder/x.ppm"
expect 2 'cannot take both' upscale - -p cpu -m twice --models "$folder/models" -o - --json
if "$gale" upscale - -p cpu -m twice --models "$folder/models" -o - <"$folder/two.ppm" >"$folder/piped.ppm"; then expect 0 'identical' compare "$folder/piped.ppm" "$folder/wanted.ppm"; else
    echo 'FAIL gale upscale in a pipe'
    failed=$((failed + 1))
fi
expect 0 '^twice  *2x  *8  *2' models --models "$folder/models"
expect 0 '"scale": 4' models list --json --models "$folder/models"
expect 0 '^scale  *2x' models info twice -p cpu --models "$folder/models"
expect 1 '3 of 4 work' models check -p cpu --models "$folder/models"
HOME=$folder/nobody XDG_DATA_HOME= expect 0 '^zoom2x  *2x .* embedded ' models
OP_DBUS_MODEL_DIR=$folder/models expect 0 '^twice  *2x' models
expect 0 '^file  *embedded' models info zoom2x -p cpu
expect 0 '^scale  *1x' models info clean -p cpu
expect 0 '"control_size": 0' models info zoom2x -p cpu --json
expect 0 '^input  *x: f32\[n,3,h,w\]' models info twice -p cpu --models "$folder/models"
printf 'sha256: %064d\n' 0 >"$folder/models/twice.yml"
expect 1 '"works": false' models check --json -p cpu --models "$folder/models"
expect 1 'twice.onnx: the file has changed' models check twice -p cpu --models "$folder/models"
echo 'params: [' >"$folder/models/twice.yml"
expect 0 'warning: .*twice.yml: .*the model is skipped' models --models "$folder/models"
printf 'name: twice\n' >"$folder/models/twice.yml"
expect 2 'info needs' models info
expect 2 'psd' upscale "$folder/two.ppm" -p cpu -m twice --models "$folder/models" -o "$folder/x.psd"

expect 2 'needs bash, zsh or fish' --completion csh
expect 0 'complete -c gale -n .__fish_seen_subcommand_from upscale. -l model -s m -r -F -a' --completion fish
expect 0 '^cpu$' --complete providers
expect 0 '^zoom2x$' --complete models
expect 0 '^auto$' --complete models
expect 2 'needs providers or models' --complete nothing
printf 'models:\n  - {name: large, url: "https://example.org/large.onnx", licence: CC0, size: 2048}\n  - {name: small, url: "https://example.org/s.onnx"}\n' >"$folder/catalogue.yml"
expect 0 '^large  *2.0 KiB  *CC0  *no  *https' models search --catalogue "$folder/catalogue.yml"
expect 0 '^1 of 2 models' models search cc0 --catalogue "$folder/catalogue.yml"
expect 0 '"name": "small"' models search SMALL --catalogue "$folder/catalogue.yml" --json
expect 1 'no catalogue' models search --models "$folder/none"
expect 0 '_arguments' --completion zsh
expect 0 '^\.TH GALE 1' --manual
expect 0 '^\.TH GALE-CACHE 1' --manual cache
expect 2 'unknown command' --manual nothing

# Every command: help with a usage line, a manual page, and completion words.
for command in $("$gale" --completion bash | sed -n "s/.*:\*) words=' \(.*\) --help --version.*/\1/p"); do
    expect 0 "^usage: gale $command" "$command" --help
    expect 0 '^\.SH DESCRIPTION' --manual "$command"
    expect 2 'unknown option' "$command" --no-such-option-at-all
done

check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@" >/dev/null 2>&1; then passed=$((passed + 1)); else
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}
file_limit() { (ulimit -f 1 && "$gale" embed --help >"$folder/limited" 2>/dev/null); [ $? -eq 1 ]; }
full_disk() {
    "$gale" "$@" >/dev/full 2>"$folder/said"
    [ $? -eq 1 ] && grep -q '^gale: error: standard output: cannot write: No space left on device$' "$folder/said"
}
no_escapes() { ! NO_COLOR= "$gale" cache --limit x 2>&1 | grep -q "$(printf '\033')"; }
completes() {
    bash -c 'source <("$0" --completion bash); COMP_WORDS=("$0" upscale --provider cp) COMP_CWORD=3; _gale; [ "${COMPREPLY[*]}" = "cpu" ]' "$gale" &&
    bash -c 'source <("$0" --completion bash); COMP_WORDS=(gale cache cl) COMP_CWORD=2; _gale; [ "${COMPREPLY[*]}" = "clean clear" ]' "$gale"
}
parses() { "$gale" --completion "$1" >"$folder/completion" && "$1" -n "$folder/completion"; }
for shell in bash zsh fish; do
    if command -v $shell >/dev/null; then check "$shell reads its completion" parses $shell; else
        echo "SKIP $shell reads its completion: no $shell"
        skipped=$((skipped + 1))
    fi
done
check 'a full disk is an error' full_disk --help
yes | head -n 3000 >"$folder/many"
check 'and it is for vectors' full_disk embed "$folder/many" -m heuristic
check 'a limit on the size of files is an error' file_limit
check 'no colour in a pipe' no_escapes
if command -v bash >/dev/null; then check 'bash completes' completes; else
    echo 'SKIP bash completes: no bash'
    skipped=$((skipped + 1))
fi

# Texts found are cut between characters, and do not control the terminal.
{ printf 'red \033[31m'; i=0; while [ $i -lt 100 ]; do printf '\303\244\303\266\303\274'; i=$((i + 1)); done; } >"$folder/odd"
expect 0 '' embed "$folder/odd" -m heuristic -o "$folder/odd.npy"
expect 0 '  0  red ?\[31m' search "$folder/odd.npy" red -m heuristic --texts "$folder/odd"
also "$(printf '\303\274\303\244$')"
expect 0 '1 vector of 32 numbers' embed "$folder/odd" -m heuristic --dims 32 -o "$folder/short.npy"
expect 1 'short.npy: not a table of f32 with 64 columns' search "$folder/odd.npy" --query-vectors "$folder/short.npy"

# Tokenizers: a small one that needs no library.
cat >"$folder/tokenizer.json" <<'END'
{"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4}, "merges": ["a b", "\u0120 ab"]}}
END
printf 'ab ab\nba\n' >"$folder/texts"
printf '3 4\n' >"$folder/ids"
expect 0 'usage: gale tokenize' tokenize --help
expect 0 '^{"ids": \[3, 4\], "offsets": \[\[0, 2\], \[2, 5\]\], "words": \[0, 1\]}$' tokenize "$folder/texts" --tokenizer "$folder/tokenizer.json" --json
expect 0 '^b a$' tokenize "$folder/texts" --tokenizer "$folder"
expect 0 '^b a$' tokenize "$folder/texts" --tokenizer "${folder##*/}" --models "${folder%/*}"
expect 1 'tokenizer "none" not found: neither a file or folder nor .*/none (GALE_MODELS)' tokenize "$folder/texts" --tokenizer none --models "$folder"
expect 0 '^ab ab$' tokenize "$folder/ids" --tokenizer "$folder" --decode
expect 0 '"mask": \[1, 1, 0\]' tokenize "$folder/texts" --tokenizer "$folder" --json --pad 3
expect 1 'line 1: no tab in the line' tokenize "$folder/texts" --tokenizer "$folder" --pairs
expect 1 "line 1: unexpected character 'a' in a list of numbers" tokenize "$folder/texts" --tokenizer "$folder" --decode
expect 1 "^gale: error: $folder: Is a directory" tokenize "$folder" --tokenizer "$folder"
expect 2 'missing option: --tokenizer' tokenize "$folder/texts"
expect 2 'expected a number of tokens or none' tokenize "$folder/texts" --tokenizer "$folder" --pad many
mkdir "$folder/without"
expect 1 'no tokenizer in this folder' tokenize "$folder/texts" --tokenizer "$folder/without"
expect 0 'texts/s' bench tokenize --model "$folder" --texts "$folder/texts" --threads 1 --repeats 3

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
