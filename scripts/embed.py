#!/usr/bin/env python3
"""embed.py OUTPUT INPUT...: a header with the text of each file as `static const char gale__text_NAME_SUFFIX[]`.

Kernels that are written by hand stay in .cu and .cl files, where editors and compilers know them."""
import os
import re
import sys


def literal(text):
    lines = text.splitlines(keepends=True)
    quoted = (line.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') for line in lines)
    return '\n'.join('    "%s"' % line for line in quoted) or '    ""'


with open(sys.argv[1], 'w') as out:
    for path in sys.argv[2:]:
        name = re.sub(r'\W', '_', os.path.basename(path))
        with open(path) as source:
            out.write('static const char gale__text_%s[] =\n%s;\n' % (name, literal(source.read())))
