# Comes before each program of the jail: limits the process, then reads its request from descriptor 3.
import json, os, resource, sys

REQUEST_CHANNEL = 3
# Memory that is freed when none is left, so that the reply can still be written.
reserve = bytearray(4_000_000)


def limit(memory_bytes, cpu_seconds):
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 32,
        # With 0, a program of the machine that takes core dumps would be sent one; with 1 it is not.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_MEMLOCK: 0,
        # Bounds timers as well, which live in the kernel.
        resource.RLIMIT_SIGPENDING: 64,
    }
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def send(message, write=os.write, dumps=json.dumps):
    rest = dumps(message, ensure_ascii=False).encode('utf-8', 'replace') + b'\n'
    while rest:
        rest = rest[write(REQUEST_CHANNEL, rest):]


def end(status, result, truncated=False, exit=os._exit):
    send({'kind': 'ended', 'status': status, 'result': result, 'truncated': truncated})
    exit(0)


def describe(error, limit=4096):
    """Returns the error's type and message with the last line of the tool that it passed."""
    global reserve
    reserve = None
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == '<tool>':
            line = trace.tb_lineno
        trace = trace.tb_next
    # The frames hold the values of the tool, and so its memory.
    error.__traceback__ = None
    try:
        message = str(error)[:limit]
    except BaseException:
        message = ''
    return type(error).__name__ + (': ' + message if message else '') + (f' (line {line})' if line else '')


limit(int(sys.argv[1]), int(sys.argv[2]))
# The program of the jail runs with `-c`, whose folder would come first.
sys.path[:] = [folder for folder in sys.path if folder]
os.environ.clear()
channel = os.fdopen(REQUEST_CHANNEL, 'rb', closefd=False)
request = json.loads(channel.readline())
# The worker goes first where processors are scarce.
os.nice(10)
send({'kind': 'started'})
