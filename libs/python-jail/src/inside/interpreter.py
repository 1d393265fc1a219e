# Runs outside the jail, once: prints which files the interpreter and its standard library need.
import json, os, sys, sysconfig

STDLIB = {os.path.realpath(sysconfig.get_path(name)) for name in ('stdlib', 'platstdlib')}
# Terminals, windows and databases are of no use in the jail, and their libraries are many.
LEFT_OUT = ('_tkinter', '_curses', 'readline', '_gdbm', '_dbm', 'nis', '_test', '_xx', 'xx')

for folder in STDLIB:
    dynload = os.path.join(folder, 'lib-dynload')
    for file in sorted(os.listdir(dynload)) if os.path.isdir(dynload) else []:
        name = file.split('.')[0]
        if file.endswith('.so') and not name.startswith(LEFT_OUT):
            try:
                __import__(name)
            except Exception:
                pass

libraries = set()
with open('/proc/self/maps') as maps:
    for line in maps:
        path = line.split(maxsplit=5)[5].strip() if line.count(' ') > 4 and '/' in line else ''
        folder = os.path.dirname(path)
        if '.so' in os.path.basename(path) and not any((folder + '/').startswith(own + '/') for own in STDLIB):
            libraries.add(folder)

print(json.dumps({
    'implementation': sys.implementation.name,
    'version': list(sys.version_info[:3]),
    'executable': os.path.realpath(sys.executable),
    'stdlib': sorted(STDLIB),
    'libraries': sorted(libraries),
}))
