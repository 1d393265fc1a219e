import type { HostileProgram } from './programs.ts';

type Programs = Readonly<Record<string, string>>;
type More = Omit<HostileProgram, 'name' | 'code'>;

/** Makes a program of each function body. */
function bodies(group: string, programs: Programs, more: More = {}): readonly HostileProgram[] {
  return Object.entries(programs).map(([name, body]) => {
    const lines = body.split('\n').map((line) => `    ${line}`);
    return { name: `${group}: ${name}`, code: `def f(a=None, b=None):\n${lines.join('\n')}\n`, ...more };
  });
}

/** Makes a program of each module. */
function modules(group: string, programs: Programs, more: More = {}): readonly HostileProgram[] {
  return Object.entries(programs).map(([name, code]) => ({ name: `${group}: ${name}`, code, ...more }));
}

/** Calls the C library: `call(number, …)` makes a system call and returns its error number, or its answer as a text. */
const SYSTEM_CALL = `import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    answer = libc.syscall(*[ctypes.c_long(each) if isinstance(each, int) else each for each in arguments])
    return ctypes.get_errno() if answer == -1 else f'answered {answer}'
`;

const LOOPS = [
  ...bodies(
    'loop',
    {
      while: 'while True: pass',
      'with a catch': 'while True:\n  try:\n    while True: pass\n  except BaseException: pass',
      'with a finally': 'def g():\n  try:\n    while True: pass\n  finally: g()\ng()',
      'of a generator': 'def g():\n  while True: yield 1\nfor x in g(): pass',
      'of itertools': 'import itertools\nfor x in itertools.count(): pass',
      'in the interpreter': 'import itertools\nreturn sum(itertools.repeat(0))',
      'in a sort key': 'def key(x):\n  while True: pass\nreturn sorted([1, 2], key=key)',
      'in a comparison':
        'class X:\n  def __lt__(self, other):\n    while True: pass\nreturn sorted([X(), X()])',
      'in repr of an error': 'class E(Exception):\n  def __str__(self):\n    while True: pass\nraise E()',
      'in a finalizer': 'class X:\n  def __del__(self):\n    while True: pass\nX()',
      'in a hash': 'class X:\n  def __hash__(self):\n    while True: pass\nreturn {X(): 1}',
      'in asyncio': 'import asyncio\nasync def g():\n  while True: await asyncio.sleep(0)\nasyncio.run(g())',
      'that sleeps': 'import time\ntime.sleep(3600)',
      'that waits for input': 'import select, os\nr, w = os.pipe()\nselect.select([r], [], [])',
      'that waits on a lock': 'import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()',
      'that ignores signals':
        'import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nwhile True: pass',
      'that blocks signals':
        'import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass',
      'that sends itself signals':
        'import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.setitimer(signal.ITIMER_REAL, 1e-6, 1e-6)\nwhile True: pass',
    },
    { status: 'timed_out' },
  ),
  ...modules(
    'module',
    {
      'loops at top level': 'while True: pass\ndef f(): pass',
      'loops in a decorator': 'def g(x):\n  while True: pass\n@g\ndef f(): pass',
      'loops in a metaclass':
        'class M(type):\n  def __new__(*a):\n    while True: pass\nclass X(metaclass=M): pass\ndef f(): pass',
    },
    { status: 'timed_out' },
  ),
  ...modules(
    'module',
    {
      'throws at top level': 'raise ValueError("top")\ndef f(): pass',
      'exits at top level': 'import sys\nsys.exit(0)\ndef f(): pass',
      'has no function': 'x = 1',
      'has a number as function': 'f = 1',
      'has a syntax error': 'def f(:',
      'is nested deeply': `def f():\n  return ${'('.repeat(5_000)}1${')'.repeat(5_000)}`,
      'has a sum of 50,000 terms': `def f():\n  return ${Array.from({ length: 50_000 }, () => 'a').join('+')}`,
      'has 500 nested loops': `def f():\n${Array.from({ length: 99 }, (_, at) => `${' '.repeat(at + 1)}for x in y:`).join('\n')}`,
      'has a number of 100,000 digits': `def f():\n  return ${'9'.repeat(100_000)}`,
      'has a NUL': 'def f():\n  return "\0"',
      'unpacks too much': `def f():\n  return ${'*'.repeat(3_000)}x`,
    },
    { status: 'failed' },
  ),
];

const NATIVE = bodies('native', {
  'regular expression': 'import re\nreturn re.match(r"(a+)+$", "a" * 60 + "b")',
  'regular expression with groups': 'import re\nreturn re.match(r"(.*)*" * 20 + "$", "x" * 5000)',
  'power of integers': 'return 10 ** 10 ** 9',
  'product of integers': 'x = 7\nwhile True: x *= x',
  'integer as text':
    'import sys\ngetattr(sys, "set_int_max_str_digits", print)(0)\nreturn str(7 ** 5_000_000)',
  factorial: 'import math\nreturn math.factorial(10_000_000)',
  'search in a long text': 'x = "ab" * 20_000_000\nwhile True: x.count("ba" * 1000)',
  'sort of a long list': 'return len(sorted(str(x) for x in range(50_000_000)))',
  permutations: 'import itertools\nreturn sum(1 for x in itertools.permutations(range(20)))',
  'hash collisions': 'x = {}\nfor i in range(10**7): x[i * (2**61 - 1)] = 1\nreturn len(x)',
  'decompression bomb':
    'import zlib\nx = zlib.compress(bytes(50_000_000))\nreturn len(zlib.decompress(zlib.decompress(zlib.compress(x))) * 100)',
  'decimal digits': 'import decimal\ndecimal.getcontext().prec = 10**8\nreturn str(decimal.Decimal(1) / 3)',
  'pbkdf2 rounds': 'import hashlib\nreturn hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10**9).hex()',
  'format width': 'return "%*d" % (10**9, 1)',
  'format of a float': 'return f"{1.0:.1000000000f}"',
  'billion laughs':
    'from xml.dom.minidom import parseString\nx = "".join(f"<!ENTITY a{i} \'{("&a" + str(i-1) + ";") * 10 if i else "x"}\'>" for i in range(10))\nreturn parseString(f"<!DOCTYPE x [{x}]><x>&a9;</x>").toxml()',
  'date far away': 'import datetime\nreturn str(datetime.datetime.max + datetime.timedelta(days=1))',
  'struct of a giant size': 'import struct\nreturn len(struct.pack("1000000000x"))',
  'random of many bits': 'import random\nreturn random.getrandbits(2**33 - 1)',
});

const MEMORY = [
  ...bodies(
    'memory',
    {
      'bytes in a loop': 'x = []\nwhile True: x.append(bytearray(1_000_000))',
      'doubled text': 'x = "x"\nwhile True: x += x',
      'one giant array': 'return len(bytearray(10**12))',
      'a list of lists': 'x = []\nwhile True: x = [x, x, [0] * 1000]; y = [x] * 10**7; x = y',
      'a dict that grows': 'x = {}\ni = 0\nwhile True:\n  x[i] = str(i) * 10\n  i += 1',
      'a set that grows': 'x = set()\ni = 0\nwhile True:\n  x.add(i)\n  i += 1',
      'small objects': 'x = None\nwhile True: x = (x, object())',
      classes: 'x = []\nwhile True: x.append(type("X", (), {}))',
      'a repeated list': 'return len([0] * 10**11)',
      'a range as list': 'return len(list(range(10**11)))',
      'a joined text': 'return ",".join(str(x) for x in range(10**9))',
      'anonymous maps': 'import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 10_000_000))',
      'maps that are filled':
        'import mmap\nx = []\nwhile True:\n  x.append(mmap.mmap(-1, 8_000_000))\n  x[-1].write(b"x" * 8_000_000)',
      'malloc by ctypes':
        'import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\nwhile True:\n  p = libc.malloc(1_000_000)\n  ctypes.memset(p, 1, 1_000_000) if p else (_ for _ in ()).throw(MemoryError())',
      'a catch of its own':
        'x = []\ndef g():\n  while True:\n    try: x.append(bytearray(1_000_000))\n    except MemoryError: raise ValueError("still here")\ng()',
      'a giant array module': 'import array\nreturn len(array.array("d", [0]) * 10**10)',
      'a string as a result': 'return "x" * 10**9',
    },
    { status: 'failed' },
  ),
  ...bodies('memory', {
    'objects with a name each':
      'x = type("X", (), {})()\ni = 0\nwhile True:\n  setattr(x, "n" + str(i) * 20, i)\n  i += 1',
    'an error that holds it': 'x = [bytearray(1_000_000) for i in range(150)]\nraise ValueError(x)',
    'a list of lists without an end as a result': 'x = []\nfor i in range(100): x = [x, x]\nreturn x',
    'a large result': 'return "x" * 60_000_000',
    'a large result of wide characters': 'return "\\U0001F600" * 10_000_000',
    'a catch without an end':
      'x = []\nwhile True:\n  try: x.append(bytearray(100_000))\n  except MemoryError: pass',
    'many open pipes': 'import os\nx = []\nwhile True: x.append(os.pipe())',
    'full pipes':
      'import os, fcntl\nx = []\ntry:\n  while True:\n    r, w = os.pipe()\n    fcntl.fcntl(w, 1031, 1 << 20)\n    os.set_blocking(w, False)\n    os.write(w, bytes(1 << 20))\nexcept OSError as error: return error.errno',
    'full sockets':
      'import socket\nx = []\ntry:\n  while True:\n    p = socket.socketpair()\n    x.append(p)\n    p[0].setblocking(False)\n    p[0].setsockopt(1, 7, 1 << 30)\n    while True:\n      try: p[0].send(bytes(65536))\n      except BlockingIOError: break\nexcept OSError as error: return error.errno',
    'descriptors in flight':
      'import socket, os\na, b = socket.socketpair()\na.setblocking(False)\ntry:\n  for i in range(10**6):\n    r, w = os.pipe()\n    socket.send_fds(a, [b"x"], [r, w])\n    os.close(r); os.close(w)\nexcept OSError as error: return error.errno',
  }),
];

/** Each returns whether the kernel has refused further objects. */
const KERNEL = bodies(
  'kernel',
  {
    timers:
      'import ctypes\nlibc = ctypes.CDLL(None)\nt = ctypes.c_void_p()\nn = 0\nwhile n < 1000 and libc.timer_create(1, None, ctypes.byref(t)) == 0: n += 1\nreturn n < 1000',
    'queued signals':
      'import ctypes, os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [40])\nlibc = ctypes.CDLL(None)\nn = 0\nwhile n < 1000 and libc.sigqueue(os.getpid(), 40, None) == 0: n += 1\nreturn n < 1000',
    locks:
      'import fcntl, os\nfd = os.open(os.__file__, os.O_RDONLY)\ntry: fcntl.lockf(fd, fcntl.LOCK_SH, 1, 0)\nexcept PermissionError: return True',
    'locks of descriptors':
      'import fcntl, os, struct\nfd = os.open(os.__file__, os.O_RDONLY)\ntry: fcntl.fcntl(fd, 37, struct.pack("hhqqi", 0, 0, 0, 1, 0))\nexcept PermissionError: return True',
    leases:
      'import fcntl, os\nfd = os.open(os.__file__, os.O_RDONLY)\ntry: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)\nexcept PermissionError: return True',
    watches: 'import ctypes\nreturn ctypes.CDLL(None).inotify_init1(0) == -1',
    maps: 'import mmap\nx = []\ntry:\n  while len(x) < 100_000: x.append(mmap.mmap(-1, 4096))\nexcept (OSError, MemoryError): return True',
    descriptors: 'import os\ntry:\n  while True: os.dup(0)\nexcept OSError: return True',
  },
  { status: 'succeeded', result: 'true' },
);

const STACK = bodies('stack', {
  recursion: 'def g(): return g()\nreturn g()',
  'recursion with a higher limit':
    'import sys\nsys.setrecursionlimit(10**9)\ndef g(x): return g([x])\nreturn g(0)',
  'recursion in C':
    'import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor i in range(10**6): x = [x]\nreturn repr(x)',
  'recursion in a comparison': 'x = []; x.append(x)\ny = []; y.append(y)\nreturn x == y',
  'a list in itself': 'x = []; x.append(x)\nreturn x',
  'a dict in itself': 'x = {}; x["x"] = x\nreturn x',
  'a deep value': 'x = 1\nfor i in range(10**5): x = [x]\nreturn x',
  'a deep value as text': 'import json\nreturn json.loads("[" * 10**6)',
  'a deep value of eval': 'return eval("(" * 10**5)',
  'a deep error': 'def g(n):\n  try: raise ValueError(n)\n  except ValueError:\n    g(n + 1)\ng(0)',
  'a deep generator': 'def g(n):\n  yield from g(n + 1)\nreturn list(g(0))',
  'a deep isinstance': 'x = int\nfor i in range(10**5): x = (x,)\nreturn isinstance(1, x)',
  'freeing a deep value': 'x = None\nfor i in range(10**6): x = (x,)\ndel x\nreturn 1',
});

const VALUES = [
  ...bodies(
    'value',
    {
      'not a number': 'return float("nan")',
      'a set': 'return {1}',
      'an object': 'return object()',
      bytes: 'return b"x"',
      'a function': 'return f',
      'an odd key': 'return {(1, 2): 3}',
      'a dict with a bad items':
        'class X(dict):\n  def items(self): raise ValueError("items")\nreturn X(a=1)',
      'an exit': 'raise SystemExit(0)',
      'an interrupt': 'raise KeyboardInterrupt()',
      'an error without a text': 'class E(Exception):\n  def __str__(self): return 5\nraise E()',
      'an error of a strange class':
        'class M(type):\n  def __getattribute__(cls, name): raise ValueError(name)\nclass E(Exception, metaclass=M): pass\nraise E()',
      'a string that is none':
        'class S(str):\n  def __len__(self): return 5\n  def __getitem__(self, x): return 7\nreturn S("x")',
      'an int that is none':
        'class I(int):\n  def __repr__(self): return "}"\n  __str__ = __repr__\nraise ValueError(I(5))',
    },
    { status: 'failed' },
  ),
  ...bodies('value', {
    'a half of a pair': 'return "\\ud800"',
    'a NUL': 'return "\\0"',
    'separators of lines': 'return "\\u2028\\u2029\\n\\r\\x85"',
    'a property of objects': 'return {"__proto__": {"polluted": True}, "constructor": {"prototype": 1}}',
    'a JSON of its own': 'import json\njson.dumps = lambda *a, **k: "{"\nreturn {"a": 1}',
    'an exit that is caught': 'import os\nos._exit = lambda code: None\nreturn 1',
    'a write that is replaced': 'import os\nos.write = lambda *a: 0\nreturn 1',
    'no builtins': 'import builtins\nbuiltins.__dict__.clear()\nreturn 1',
    'no modules': 'import sys\nsys.modules.clear()\nreturn 1',
    'a tracer': 'import sys\ndef trace(*a): return trace\nsys.settrace(trace)\nreturn 1',
    'an audit hook': 'import sys\ndef hook(*a): raise RuntimeError()\nsys.addaudithook(hook)\nreturn 1',
    'frames of the caller':
      'import sys\nframe = sys._getframe()\nwhile frame:\n  frame.f_globals.clear()\n  frame = frame.f_back\nreturn 1',
    'objects of the collector':
      'import gc\nfor x in gc.get_objects():\n  if isinstance(x, dict): x.clear()\nreturn 1',
    'an exit at the end': 'import atexit\natexit.register(lambda: print("x" * 10**8))\nreturn 1',
  }),
];

const OUTPUT = [
  ...bodies('output', {
    'print without an end': 'while True: print("x" * 1000)',
    'one long print': 'print("x" * 50_000_000)\nreturn 1',
    'stderr without an end': 'import sys\nwhile True: sys.stderr.write("x" * 1000)',
    'bytes to stdout': 'import os\nwhile True: os.write(1, b"x" * 65536)',
    'bytes to stderr': 'import os\nwhile True: os.write(2, b"\\xff" * 65536)',
    'bytes to all descriptors':
      'import os\nwhile True:\n  for fd in range(32):\n    try: os.write(fd, b"x" * 4096)\n    except OSError: pass',
    'warnings without an end':
      'import warnings\nwarnings.simplefilter("always")\nwhile True: warnings.warn("x")',
    'half a character': 'import os\nos.write(1, b"\\xf0\\x9f")\nreturn 1',
  }),
  ...bodies('channel', {
    'a flood of lines': 'import os\nwhile True: os.write(3, b"\\n" * 65536)',
    'a flood without lines': 'import os\nwhile True: os.write(3, b"x" * 65536)',
    'a flood of messages': 'import os\nwhile True: os.write(3, b\'{"kind":"started"}\\n\' * 1000)',
    'a flood of requests':
      'import os\nwhile True: os.write(3, b\'{"kind":"fetch","request":"x"}\\n\' * 1000)',
    'a message that is none': 'import os\nos.write(3, b"{}\\n")\nwhile True: pass',
    'a deep message': 'import os\nos.write(3, b"[" * 10**6 + b"\\n")\nwhile True: pass',
    'a message of a strange shape':
      'import os\nos.write(3, b\'{"kind":"ended","status":"crashed"}\\n\')\nwhile True: pass',
    'a closed channel': 'import os\nos.close(3)\nreturn 1',
    'a closed channel and a loop': 'import os\nos.close(3)\nwhile True: pass',
    'all descriptors closed': 'import os\nos.closerange(0, 32)\nwhile True: pass',
    'descriptors over the channel':
      'import socket\ns = socket.socket(fileno=3)\nfor i in range(1000): socket.send_fds(s, [b" "], [0, 1, 2])\nreturn 1',
    'a long line':
      'import os\nos.write(3, b\'{"kind":"ended","status":"succeeded","truncated":false,"result":"\')\nfor i in range(1000): os.write(3, b"x" * 8192)\nos.write(3, b\'"}\\n\')\nwhile True: pass',
  }),
  ...bodies(
    'channel',
    {
      'a reply of its own':
        'import os\nos.write(3, b\'{"kind":"ended","status":"succeeded","truncated":false,"result":"own"}\\n\')\nwhile True: pass',
    },
    { status: 'succeeded', result: 'own' },
  ),
];

const PROCESSES = [
  ...bodies(
    'process',
    {
      fork: 'import os\nreturn os.fork()',
      'fork without an end': 'import os\nwhile True: os.fork()',
      spawn: 'import os\nreturn os.posix_spawn("/usr/bin/python3", ["python3"], {})',
      system: 'import os\nif os.system("true") != 0: raise OSError("refused")',
      subprocess: 'import subprocess\nreturn subprocess.check_output(["/bin/sh", "-c", "id"])',
      multiprocessing: 'import multiprocessing\np = multiprocessing.Process(target=print)\np.start()',
      'a thread': 'import threading\nthreading.Thread(target=print).start()',
      'a pool of threads':
        'from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool: return list(pool.map(str, range(8)))',
      'a pseudo-terminal': 'import pty\nreturn pty.spawn("/bin/sh")',
      'a shell in its place': 'import os\nos.execv("/bin/sh", ["sh"])',
      'the interpreter in its place':
        'import os, sys\nos.execv(sys.executable, [sys.executable, "-c", "while True: pass"])\n',
    },
    {},
  ).map((program) => ({
    ...program,
    status: program.name.includes('interpreter') ? ('timed_out' as const) : ('failed' as const),
  })),
  ...bodies(
    'process',
    {
      'end at once': 'import os\nos._exit(0)',
      abort: 'import os\nos.abort()',
      'a fault of memory': 'import ctypes\nctypes.string_at(0)',
      'a stack of its own': 'import ctypes\nctypes.memset(id(f), 0, 1 << 20)\nf()',
      'a signal to itself': 'import os\nos.kill(os.getpid(), 15)\nraise ValueError("not ended")',
      'signals to all': 'import os\nfor n in (1, 2, 15, 9):\n  os.kill(-1, n)\nraise ValueError("alone")',
      'signals to the parent': 'import os\nos.kill(os.getppid(), 9)\nraise ValueError("still here")',
      'signals to the first process': 'import os\nos.kill(1, 11)\nraise ValueError("still here")',
    },
    {},
  ).map((program) => ({ ...program, problem: undefinedUnlessSucceeded })),
  ...bodies('process', { 'a kill of itself': 'import os\nos.kill(os.getpid(), 9)' }, { status: 'crashed' }),
];

function undefinedUnlessSucceeded({ status }: { readonly status: string }): string | undefined {
  return status === 'succeeded' ? 'it succeeded' : undefined;
}

const HUNTS = [
  ...bodies(
    'hunt',
    {
      'files of the machine':
        'import os\nreturn [p for p in ("/etc/passwd", "/etc/shadow", "/proc/self", "/proc/1/environ", "/sys/kernel", "/home", "/root/.ssh", "/tmp", "/var/run/docker.sock", "/run", "/app", "/work") if os.path.exists(p)]',
      'folders that can be written':
        'import os\nfound = []\nfor folder, _, _ in os.walk("/"):\n  try:\n    open(folder + "/probe", "w").close()\n    found.append(folder)\n  except OSError: pass\nreturn found',
      'files that can be changed':
        'import os\nfound = []\nfor folder, _, files in os.walk("/usr/lib"):\n  for name in files[:5]:\n    if os.access(folder + "/" + name, os.W_OK):\n      try: open(folder + "/" + name, "a").close(); found.append(name)\n      except OSError: pass\nreturn found',
      'programs with the rights of others':
        'import os, stat\nfound = []\nfor folder, _, files in os.walk("/"):\n  for name in files:\n    try:\n      if os.lstat(folder + "/" + name).st_mode & stat.S_ISUID: found.append(name)\n    except OSError: pass\nreturn found',
      'packages of the machine':
        'import os\nreturn [folder for folder, names, files in os.walk("/") if folder.endswith("-packages") and (names or files)]',
      variables: 'import os\nreturn sorted(name for name in os.environ if name != "KEY")',
      'variables of the start':
        'import ctypes\nenviron = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")\nfound = []\ni = 0\nwhile environ and environ[i]:\n  found.append(environ[i].decode())\n  i += 1\nreturn [x for x in found if not x.startswith("KEY=")]',
      'open descriptors':
        'import os\nfound = []\nfor fd in range(4, 32):\n  try: os.fstat(fd); found.append(fd)\n  except OSError: pass\nreturn found',
      devices: 'import os\nreturn [x for x in os.listdir("/dev") if x not in ("null", "urandom")]',
      sockets:
        'import socket\nfound = []\nfor family in range(2, 46):\n  for kind in (1, 2, 3, 5):\n    try: socket.socket(family, kind); found.append(family)\n    except OSError: pass\nreturn found',
      'abstract sockets':
        'import socket\nfound = []\nfor name in ("\\0/tmp/.X11-unix/X0", "\\0dbus", "/run/docker.sock", "/var/run/postgresql/.s.PGSQL.5432"):\n  s = socket.socket(socket.AF_UNIX)\n  try: s.connect(name); found.append(name)\n  except OSError: pass\nreturn found',
      'packages to import':
        'found = []\nfor name in ("pip", "setuptools", "requests", "numpy", "apt"):\n  try: __import__(name); found.append(name)\n  except ImportError: pass\nreturn found',
      'a second call of the same process':
        'import sys\nx = getattr(sys, "seen", [])\nsys.seen = [1]\nreturn x',
    },
    { status: 'succeeded', result: '[]' },
  ),
  ...bodies(
    'hunt',
    {
      'a server of the machine':
        'import urllib.request\nreturn urllib.request.urlopen("http://127.0.0.1:8283/v1/health").read().decode()',
      'a name': 'import socket\nreturn socket.gethostbyname("example.com")',
      'a server of metadata':
        'import http.client\nc = http.client.HTTPConnection("169.254.169.254", timeout=1)\nc.request("GET", "/")\nreturn c.getresponse().read().decode()',
      'a higher limit of memory':
        'import resource\nresource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))',
      'more open files': 'import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (10**6, 10**6))',
      'another user': 'import os\nos.setuid(0)',
      'a higher priority': 'import os\nos.nice(-20)',
      'a new root': 'import os\nos.chroot("/usr")',
      'a time of the machine': 'import time\ntime.clock_settime(time.CLOCK_REALTIME, 0)',
      'a name of the machine': 'import socket\nsocket.sethostname("x")',
      'a file for all': 'import tempfile\nreturn tempfile.mkstemp()',
      'a fetch without hosts': 'return fetch("http://127.0.0.1/")',
    },
    { status: 'failed' },
  ),
  ...Object.entries({
    'a user namespace': '272, 0x10000000',
    'a mount namespace': '272, 0x20000',
    'a process by clone': '56, 17, 0, 0, 0, 0',
    'a process by vfork': '58',
    'a trace': '101, 0, 0, 0, 0',
    'the memory of another process': '310, 1, 0, 0, 0, 0, 0',
    'a file in memory': '319, b"x", 0',
    'a secret file in memory': '447, 0',
    'shared memory': '29, 0, 4096, 0o1600',
    'a queue of messages': '68, 0, 0o1600',
    semaphores: '64, 0, 1, 0o1600',
    'a key': '248, b"user", b"x", b"x", 1, -3',
    'a ring of the kernel': '425, 8, 0',
    'a program in the kernel': '321, 0, 0, 0',
    'counters of the kernel': '298, 0, 0, -1, -1, 0',
    'faults in user space': '323, 0',
    'a mount': '165, b"none", b"/", b"tmpfs", 0, 0',
    'a new tree of mounts': '430, b"tmpfs", 0',
    'a handle of a file': '304, -100, 0, 0',
    'a socket of the machine below': '41, 40, 1, 0',
    'a socket of addresses': '41, 2, 1, 0',
  }).map(([name, args]): HostileProgram => ({
    name: `system call: ${name}`,
    code: `${SYSTEM_CALL}def f():\n    return call(${args})\n`,
    status: 'succeeded',
    result: '1',
  })),
  ...modules(
    'system call',
    { 'a process by clone3': `${SYSTEM_CALL}def f():\n    return call(435, 0, 88)\n` },
    { status: 'succeeded', result: '38' },
  ),
  ...modules(
    'system call',
    {
      'by the numbers of x32': `${SYSTEM_CALL}def f():\n    return call(0x40000000 + 57)\n`,
      'by the numbers of 32 bits':
        'import ctypes, mmap\ndef f():\n    m = mmap.mmap(-1, 4096, prot=7)\n    m.write(bytes([0xB8, 2, 0, 0, 0, 0xCD, 0x80, 0xC3]))\n    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()\n',
    },
    { status: 'failed' },
  ),
];

const HOSTS = ['allowed.example'];

const FETCHES = [
  ...bodies(
    'fetch',
    {
      'of another host': 'return fetch("http://127.0.0.1/").text',
      'of a host with a user': 'return fetch("http://allowed.example@127.0.0.1/").text',
      'of a file': 'return fetch("file:///etc/passwd").text',
      'with a header of two lines':
        'return fetch("https://allowed.example/", headers={"a": "b\\r\\nc: d"}).text',
      'with a strange method': 'return fetch("https://allowed.example/", method="CONNECT").text',
      'with a body that is none':
        'return fetch("https://allowed.example/", method="POST", body={"a": 1}).text',
      '21 times': 'for i in range(21): fetch("https://allowed.example/")',
      'with 5 MB': 'return fetch("https://allowed.example/", method="POST", body="x" * 5_000_000).text',
    },
    { network: HOSTS, status: 'failed' },
  ),
  ...bodies(
    'fetch',
    {
      'of a host that does not answer': 'return fetch("https://allowed.example/slow").text',
      'with a large answer': 'return fetch("https://allowed.example/large").text',
      'without reading answers':
        'import os\nfor i in range(30): os.write(3, b\'{"kind":"fetch","request":"{\\\\"url\\\\":\\\\"https://allowed.example/large\\\\",\\\\"method\\\\":\\\\"GET\\\\",\\\\"headers\\\\":{}}"}\\n\')\nwhile True: pass',
    },
    { network: HOSTS },
  ),
];

/** The corpus of Python. Each program must end in time, within its memory, and without an effect on others. */
export const PYTHON_PROGRAMS: readonly HostileProgram[] = [
  ...LOOPS,
  ...NATIVE,
  ...MEMORY,
  ...KERNEL,
  ...STACK,
  ...VALUES,
  ...OUTPUT,
  ...PROCESSES,
  ...HUNTS,
  ...FETCHES,
];
