#!/usr/bin/env python3
"""Tokenizers: gale beside Hugging Face's library in the same run, one thread each, in CPU time for a text.

    bench/text_tokenizers.py GALE TEXTS TOKENIZER.json...
"""
import json
import os
import subprocess
import sys
import time

os.environ['RAYON_NUM_THREADS'] = '1'
os.environ['TOKENIZERS_PARALLELISM'] = 'false'
try:
    import tokenizers
except ImportError:
    sys.exit('tokenizers is not installed')


def peer(path, texts):
    """Nanoseconds of CPU time for a text, with offsets and without."""
    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.no_padding()
    best = {}
    for name, encode in (('offsets', tokenizer.encode_batch), ('fast', tokenizer.encode_batch_fast)):
        for _ in range(3):
            begun = time.process_time()
            for i in range(0, len(texts), 1000):
                encode(texts[i:i + 1000])
            best[name] = min(best.get(name, 1e9), time.process_time() - begun)
    return [1e9 * best[name] / len(texts) for name in ('offsets', 'fast')]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    gale, file = sys.argv[1:3]
    with open(file, encoding='utf-8', errors='replace', newline='\n') as source:
        texts = source.read().split('\n')
    texts = texts[:-1] if texts[-1] == '' else texts
    print(f'tokenizers {tokenizers.__version__}, {len(texts)} texts; CPU ns for a text')
    print(f'{"gale":>8} {"peer":>8} {"no offsets":>10}  tokenizer')
    for path in sys.argv[3:]:
        done = subprocess.run([gale, 'bench', 'tokenize', '--model', path, '--texts', file, '--threads', '1', '--json'], capture_output=True, text=True, check=True)
        ours = json.loads(done.stdout.splitlines()[0])['cpu_ns_per_text']
        with_offsets, without = peer(path, texts)
        print(f'{ours:8.0f} {with_offsets:8.0f} {without:10.0f}  {path}')


main()
