// Runs inside QuickJS, in the context of each call, before the tool's code. It keeps the built-in functions that it needs,
// because that code may replace them. Texts leave as JSON: the bridge cuts plain text at the first NUL.

const { parse, stringify } = JSON;
const { apply } = Reflect;
const { hasOwn, keys } = Object;
const { slice, charCodeAt } = String.prototype;
const toText = String;
const NativeError = Error;

/** Returns the first `limit` code units of a text as JSON. No character is cut in two. */
export function quote(text, limit) {
  if (text.length <= limit) return stringify(text);
  const last = apply(charCodeAt, text, [limit - 1]);
  return stringify(apply(slice, text, [0, last >= 0xd800 && last < 0xdc00 ? limit - 1 : limit]));
}

/** Returns a thrown value as text, with the line of the tool's code. */
function show(value) {
  try {
    if (typeof value === 'string') return value;
    if (!(value instanceof NativeError)) return stringify(value) ?? toText(value);
    const line = /tool\.js:(\d+)/.exec(value.stack)?.[1];
    return `${value.name}: ${value.message}${line === undefined ? '' : ` (line ${line})`}`;
  } catch {
    return 'a value that cannot be shown';
  }
}

export function describe(value, limit) {
  return quote(show(value), limit);
}

/** Calls the tool with its arguments by position. Resolves to its answer as text. */
export async function invoke(exports, name, parametersText, argumentsText) {
  const tool = typeof exports[name] === 'function' ? exports[name] : exports.default;
  if (typeof tool !== 'function') throw new TypeError(`the code exports no function ${name}`);
  const given = parse(argumentsText);
  const parameters = parse(parametersText);
  const values = [];
  for (let at = 0; at < parameters.length; at += 1)
    values[at] = hasOwn(given, parameters[at]) ? given[parameters[at]] : undefined;
  const answer = await apply(tool, undefined, values);
  return typeof answer === 'string' ? answer : (stringify(answer) ?? 'null');
}

/** Defines `process.env` with the values in a JSON object. */
export function defineEnv(envText) {
  globalThis.process = { env: parse(envText) };
}

/** Defines `console`. `print(stream, json)` takes a text of at most `limit` code units. */
export function defineConsole(print, limit) {
  const printer = (stream) =>
    function () {
      let line = '';
      for (let at = 0; at < arguments.length; at += 1) line += (at === 0 ? '' : ' ') + show(arguments[at]);
      print(stream, quote(line + '\n', limit));
    };
  const [out, err] = [printer('stdout'), printer('stderr')];
  globalThis.console = { log: out, info: out, debug: out, error: err, warn: err };
}

/** Defines `fetch`. `send(json)` returns a promise of the answer as JSON. */
export function defineFetch(send) {
  globalThis.fetch = async function (url, init = {}) {
    const headers = {};
    for (const name of keys(init.headers ?? {})) headers[name] = toText(init.headers[name]);
    if (init.body != null && typeof init.body !== 'string')
      throw new TypeError('fetch: body must be a string');
    const request = { url: toText(url), method: toText(init.method ?? 'GET'), headers };
    if (init.body != null) request.body = init.body;
    const answer = parse(await send(stringify(request)));
    if (answer.error !== undefined) throw new TypeError(`fetch: ${answer.error}`);
    return {
      status: answer.status,
      ok: answer.status >= 200 && answer.status < 300,
      headers: { get: (name) => answer.headers[toText(name).toLowerCase()] ?? null },
      text: async () => answer.body,
      json: async () => parse(answer.body),
    };
  };
}
