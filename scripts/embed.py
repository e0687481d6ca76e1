#!/usr/bin/env python3
"""embed.py OUTPUT INPUT...: a header with the text of each file as `static const char gale__text_NAME_SUFFIX[]`, of .onnx files the
bytes as `static const unsigned char gale__bytes_NAME_SUFFIX[]`; each ends with a zero byte that is not of the file.

Kernels that are written by hand stay in .cu and .cl files, where editors and compilers know them; networks stay what tools can open."""
import os
import re
import sys


def literal(text):
    lines = text.splitlines(keepends=True)
    quoted = (line.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') for line in lines)
    return '\n'.join('    "%s"' % line for line in quoted) or '    ""'


# Compilers read a string ten times as fast as a list of numbers.
def octal(data):
    return '\n'.join('    "%s"' % ''.join('\\%03o' % b for b in data[i:i + 32]) for i in range(0, len(data), 32)) or '    ""'


with open(sys.argv[1], 'w') as out:
    for path in sys.argv[2:]:
        name = re.sub(r'\W', '_', os.path.basename(path))
        with open(path, 'rb') as source:
            data = source.read()
        if path.endswith('.onnx'):
            out.write('static const unsigned char gale__bytes_%s[] =\n%s;\n' % (name, octal(data)))
        else:
            out.write('static const char gale__text_%s[] =\n%s;\n' % (name, literal(data.decode())))
