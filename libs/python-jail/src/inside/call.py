# Runs one call: the source is executed, its function called with the arguments by name.
import io


class Output(io.TextIOBase):
    """A stream that keeps its first characters. More than those would only fill the pipe."""

    encoding = 'utf-8'

    def __init__(self, descriptor):
        self.descriptor, self.left = descriptor, 4096

    def writable(self):
        return True

    def fileno(self):
        return self.descriptor

    def write(self, text):
        piece = text[:self.left]
        if piece:
            self.left -= len(piece)
            os.write(self.descriptor, piece.encode('utf-8', 'replace'))
        return len(text)


class Response:
    """The answer of `fetch`: status, headers with names in lower case, and text."""

    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text
        self.ok = 200 <= status < 300

    def json(self):
        return json.loads(self.text)


def fetch(url, method='GET', headers=None, body=None):
    """Sends a request to a host of the tool's network list. Raises ConnectionError with the reason."""
    wanted = {'url': url, 'method': method, 'headers': headers or {}}
    if body is not None:
        wanted['body'] = body
    send({'kind': 'fetch', 'request': json.dumps(wanted, ensure_ascii=False)})
    answer = json.loads(channel.readline())
    if 'error' in answer:
        raise ConnectionError(answer['error'])
    return Response(answer['status'], answer['headers'], answer['body'])


def to_text(value):
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(',', ':'))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f'the tool returned a value that is not JSON: {error}') from None


def run():
    sys.stdout, sys.stderr = Output(1), Output(2)
    os.environ.update(request['env'])
    tool = type(sys)('tool')
    sys.modules['tool'] = tool
    if request['has_network']:
        tool.fetch = fetch
    arguments = json.loads(request['arguments'])
    code = compile(request['source'], '<tool>', 'exec', dont_inherit=True)
    exec(code, tool.__dict__)
    value = tool.__dict__[request['name']](**arguments)
    if type(value).__name__ == 'coroutine':
        import asyncio

        value = asyncio.run(value)
    text = to_text(value)
    limit = request['result_char_limit']
    end('succeeded', text[:limit], len(text) > limit)


try:
    run()
except BaseException as error:
    end('failed', describe(error))
