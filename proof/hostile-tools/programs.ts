import type { SandboxReply, SandboxStatus } from '../../apps/sandbox-host/src/index.ts';

/** The part of a reply that is checked, of any language. */
export type HostileReply = Pick<SandboxReply, 'status' | 'result' | 'stdout' | 'stderr'>;

/** A hostile tool, the body of an exported function or a whole module. */
export interface HostileProgram {
  readonly name: string;
  readonly code: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly network?: readonly string[];
  /** The end that is expected; without it any end within the bounds is right, except a crash. */
  readonly status?: SandboxStatus;
  /** The expected result. */
  readonly result?: string | RegExp;
  /** Returns a problem with the reply. */
  readonly problem?: (reply: HostileReply) => string | undefined;
}

type Programs = Readonly<Record<string, string>>;
type More = Omit<HostileProgram, 'name' | 'code'>;

/** Makes a program of each function body. */
function bodies(group: string, programs: Programs, more: More = {}): readonly HostileProgram[] {
  return Object.entries(programs).map(([name, body]) => {
    const code = `export async function f(a, b) {\n${body}\n}`;
    return { name: `${group}: ${name}`, code, ...more };
  });
}

/** Makes a program of each module. */
function modules(group: string, programs: Programs, more: More = {}): readonly HostileProgram[] {
  return Object.entries(programs).map(([name, code]) => ({ name: `${group}: ${name}`, code, ...more }));
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let at = 0; at < depth; at += 1) value = [value];
  return value;
}

const LOOPS = bodies(
  'loop',
  {
    while: 'while (true);',
    'with a catch': 'for (;;) try { for (;;); } catch {}',
    'with a finally': 'function g() { try { for (;;); } finally { g() } } g();',
    'of a generator': 'function* g() { for (;;) yield 1 } for (const x of g());',
    'of an async generator': 'async function* g() { for (;;) yield 1 } for await (const x of g());',
    'of mutual recursion with a catch':
      'const g = () => { try { return h() } catch { return h() } }; const h = () => g(); g();',
    'of a proxy': 'const p = new Proxy({}, { get: (t, k, r) => r[k] }); for (;;) try { p.x } catch {}',
    'of a getter': 'const o = { get x() { for (;;); } }; return o;',
    'in toJSON': 'return { toJSON() { for (;;); } };',
    'in toString of an error':
      'const e = new Error("x"); Object.defineProperty(e, "message", { get() { for (;;); } }); throw e;',
    'in the stack of an error':
      'const e = new Error("x"); Object.defineProperty(e, "stack", { get() { for (;;); } }); throw e;',
    'in a thenable': 'return { then() { for (;;); } };',
    'in a sort function': '[1, 2, 3].sort(() => { for (;;); });',
    'in a replace function': '"x".replace(/x/, () => { for (;;); });',
    'of a map that changes':
      'const m = new Map([[0, 0]]); for (const [k] of m) { m.delete(k); m.set(k + 1, 0); }',
    'in a console argument': 'console.log({ toJSON() { for (;;); } });',
  },
  { status: 'timed_out' },
);

const TOP_LEVEL = modules('module', {
  'loops at top level': 'for (;;); export function f() {}',
  'loops while it awaits': 'await (async () => { for (;;) await null; })(); export function f() {}',
  'awaits for ever': 'await new Promise(() => {}); export function f() {}',
  'exports a then':
    'export function then(resolve) { resolve({ f: () => "no" }) } export function f() { return "yes" }',
  'exports a getter': 'export default new Proxy(function () {}, { apply() { for (;;); } });',
  'exports no function': 'export const f = 1;',
  'throws at top level': 'throw { toString() { for (;;); } };',
  'has a syntax error': 'export function f( {',
  'is nested deeply': `export const f = ${'['.repeat(50_000)};`,
  'has many variables': `export function f() { let ${Array.from({ length: 30_000 }, (_, at) => `v${at}`).join()}; return 1 }`,
  'imports itself': 'import * as x from "tool.js"; export const f = () => Object.keys(x);',
  'has a constructor for a tool': 'export class f { constructor() { for (;;); } }',
});

const PROMISES = bodies('promise', {
  'storm of jobs': 'const g = () => Promise.resolve().then(g); return g();',
  'two jobs for each':
    'const g = () => { Promise.resolve().then(g); Promise.resolve().then(g); }; g(); return new Promise(() => {});',
  'of await in a loop': 'for (;;) await null;',
  'of native functions alone':
    'let p = Promise.resolve(); for (let i = 0; i < 3e5; i++) p = p.then(Object).finally(Object); return p;',
  'that never settles': 'return new Promise(() => {});',
  'that resolves to itself':
    'const { promise, resolve } = Promise.withResolvers(); resolve(promise); return promise;',
  'that settles twice': 'return new Promise((y, n) => { y(1); n(2); y(3); });',
  'of thenables without end': 'const t = () => ({ then(y) { y(t()); } }); return t();',
  'of all of many': 'return (await Promise.all(Array.from({ length: 2e5 }, (_, i) => i))).length;',
  'rejected without a handler': 'Promise.reject(new Error("x")); return 1;',
  'with a tampered then': 'Promise.prototype.then = function () { for (;;); }; return Promise.resolve(1);',
  'with a tampered constructor':
    'Object.defineProperty(Promise.prototype, "constructor", { get() { for (;;); } }); return Promise.resolve(1);',
});

const NATIVE = bodies('native', {
  'repeat of a megabyte': 'const s = "x".repeat(1 << 20); const x = []; for (;;) x.push(s.repeat(16));',
  'join of a sparse array': 'return new Array(1e8).join("xxxxxx").length;',
  'string of a sparse array': 'return (new Array(1e8) + "").length;',
  'sort of three million': 'return Array.from({ length: 3e6 }, (_, i) => -i).sort().length;',
  'sort of a sparse array': 'const x = []; x[4e9] = 1; return x.sort().length;',
  'reverse of a sparse array': 'const x = []; x[4e9] = 1; return x.reverse().length;',
  'indexOf in a long text': 'const s = "a".repeat(2e7); return s.indexOf("a".repeat(1e7) + "b");',
  'catastrophic regex': 'return /^(a+)+$/.test("a".repeat(40) + "b");',
  'regex with backreferences': 'return /(a*)*\\1b/.test("a".repeat(5000));',
  'regex of many groups': 'return new RegExp("(".repeat(1e5) + ")".repeat(1e5)).test("");',
  'regex with a large repeat': 'return new RegExp("(?:a{1000}){1000}".repeat(50)).test("a".repeat(1e6));',
  'regex with nested lookaheads': 'return new RegExp("(?=".repeat(2e4) + "a" + ")".repeat(2e4)).test("a");',
  'BigInt power': 'return String(2n ** 100000000n).length;',
  'BigInt factorial': 'let x = 1n; for (let i = 1n; ; i++) x *= i;',
  'BigInt to text': 'return (10n ** 1000000n).toString().length;',
  'BigInt from text': 'return BigInt("9".repeat(5e6)) > 0n;',
  'fill of a large array': 'return new Array(2 ** 32 - 1).fill(0).length;',
  'Array.from of a length': 'return Array.from({ length: 2 ** 32 - 1 }).length;',
  'concat of array-likes':
    'return [].concat({ length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }).length;',
  'includes of an array-like': 'return Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1);',
  'copyWithin over an array-like': 'return Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1);',
  'padStart to a gigabyte': 'return "x".padStart(1 << 29).length;',
  'replaceAll that grows': 'let s = "ab"; for (;;) s = s.replaceAll("a", "aa");',
  'split of a long text': 'return "a,".repeat(1e7).split(",").length;',
  'normalize of a long text': 'return "\\u1E9B\\u0323".repeat(4e6).normalize("NFKD").length;',
  'localeCompare of long texts': 'const s = "a\\u0301".repeat(4e6); return s.localeCompare(s + "b");',
  'decodeURIComponent of a long text': 'return decodeURIComponent("%41".repeat(5e6)).length;',
  'flat of a deep array':
    'let x = []; for (let i = 0; i < 1e5; i++) x = [x]; return x.flat(Infinity).length;',
  'structure that shares itself': 'let x = [1]; for (let i = 0; i < 40; i++) x = [x, x]; return x;',
  'Date of a large number': 'let n = 0; for (let i = 0; ; i++) n += new Date(8.64e15 - i).toString().length;',
});

const MEMORY = bodies('memory', {
  'text doubled': 'let s = "x"; for (;;) s += s;',
  'texts kept': 'const x = []; for (let i = 0; ; i++) x.push(String(i).repeat(1000));',
  'array of objects': 'const x = []; for (;;) x.push({ x });',
  'array doubled': 'let x = [1]; for (;;) x = x.concat(x);',
  'large ArrayBuffer': 'return new ArrayBuffer(3e9).byteLength;',
  'typed arrays kept': 'const x = []; for (;;) x.push(new Uint8Array(1e7).fill(1));',
  'resizable ArrayBuffer':
    'const x = new ArrayBuffer(1, { maxByteLength: 2 ** 32 }); x.resize(2 ** 32 - 1); return x.byteLength;',
  SharedArrayBuffer: 'const x = []; for (;;) x.push(new SharedArrayBuffer(1e7));',
  'map of many keys': 'const m = new Map(); for (let i = 0; ; i++) m.set(i, {});',
  'closures kept': 'let g = () => 0; for (;;) { const h = g; g = () => h; }',
  'symbols kept': 'const x = {}; for (let i = 0; ; i++) x[Symbol(i)] = i;',
  'generators kept':
    'function* g() { yield new Array(100).fill(1) } const x = []; for (;;) { const y = g(); y.next(); x.push(y); }',
  'promises kept': 'const x = []; for (;;) x.push(new Promise(() => {}));',
  'weak references': 'const x = []; for (;;) x.push(new WeakRef({ y: new Array(100).fill(1) }));',
  finalizers:
    'const r = new FinalizationRegistry(() => { for (;;); }); for (let i = 0; i < 1e5; i++) r.register({}, i); return "registered";',
  'exceptions caught and again':
    'const x = []; for (;;) try { for (;;) x.push(new Array(1000).fill(x)); } catch {}',
  'rope of texts': 'let s = ""; for (let i = 0; ; i++) s = i + s + i;',
  'arguments of an iterator without end':
    'const i = { [Symbol.iterator]: () => ({ next: () => ({ value: 1, done: false }) }) }; return Math.max(...i);',
  'spread of a long array': 'return Math.max(...new Array(5e6).fill(1));',
  'code made by Function':
    'const x = []; for (let i = 0; ; i++) x.push(new Function("return " + "1+".repeat(1000) + i));',
});

const STACK = bodies('stack', {
  recursion: 'const g = () => g() + 1; return g();',
  'recursion of getters': 'const o = { get x() { return this.x } }; return o.x;',
  'recursion of toString': 'const o = { toString() { return `${this}` } }; return `${o}`;',
  'recursion of JSON.stringify': 'const o = { toJSON() { return JSON.stringify(o) } }; return o;',
  'recursion of proxies': 'let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x;',
  'recursion of bind': 'let g = () => 1; for (let i = 0; i < 1e5; i++) g = g.bind(null); return g();',
  'recursion of sort': 'const g = () => [2, 1].sort(g); return g();',
  'recursion of eval': 'globalThis.g = () => eval("g()"); return g();',
  'recursion of replace': 'const g = () => "x".replace(/x/, g); return g();',
  'recursion of await': 'const g = async () => await g(); return g();',
  'deep value in': 'return typeof a;',
  'deep JSON parsed': 'return JSON.parse("[".repeat(1e6) + "]".repeat(1e6));',
  'deep value out': 'let x = 1; for (let i = 0; i < 1e6; i++) x = [x]; return x;',
  'deep object out': 'let x = {}; for (let i = 0; i < 2e5; i++) x = { x }; return x;',
  'deep prototype chain':
    'let x = {}; for (let i = 0; i < 2e5; i++) x = Object.create(x); return x.y === undefined;',
  'deep nesting for eval': 'return eval("(".repeat(1e5) + "1" + ")".repeat(1e5));',
  'cyclic value out': 'const x = {}; x.x = x; return x;',
});

const OUTPUT = bodies('output', {
  'flood of lines': 'for (let i = 0; ; i++) console.log("line", i);',
  'long line': 'console.log("x".repeat(2e7)); console.error("y".repeat(2e7)); return "done";',
  'long result': 'return "x".repeat(2e7);',
  'long result of control characters': 'return "\\0".repeat(1e6);',
  'long result of lone surrogates': 'return "\\ud800".repeat(1e6);',
  'long result of wide characters': 'return "\\u{1F600}".repeat(1e6);',
  'long error': 'throw new Error("x".repeat(2e7));',
  'long name of an error': 'const e = new Error("x"); e.name = "y".repeat(2e7); throw e;',
  'many keys': 'const x = {}; for (let i = 0; i < 2e5; i++) x["k" + i] = i; return x;',
  'frames in a result': 'return "\\0\\0\\0\\x10{\\"kind\\":\\"ready\\"}";',
  'terminal control codes': 'console.log("\\x1b]0;x\\x07\\x1b[2J"); return "done";',
});

/** A hunt succeeds if it finds something; the expected answer is that there is nothing. */
const HUNTS = bodies(
  'hunt',
  {
    process: 'return typeof process;',
    require: 'return typeof require;',
    'process by Function': 'return new Function("return typeof process")();',
    'process by indirect eval': 'return (0, eval)("typeof process");',
    'process by the constructor of a function': 'return f.constructor("return typeof process")();',
    'process by the constructor of console.log': 'return console.log.constructor("return typeof process")();',
    'process by an error':
      'try { null.x } catch (e) { return e.constructor.constructor("return typeof process")(); }',
    'process by a generator':
      'return (function* () {}).constructor("return typeof process")().next().value ?? "undefined";',
    'process by an async function': 'return (async () => {}).constructor("return typeof process")();',
    'module, exports and Buffer':
      'return typeof module === "undefined" && typeof exports === "undefined" ? typeof Buffer : "found";',
    WebAssembly: 'return typeof WebAssembly;',
    'Deno, Bun and std':
      'return typeof Deno === "undefined" && typeof Bun === "undefined" ? typeof std : "found";',
    'timers and workers': 'return typeof setTimeout === "undefined" ? typeof Worker : "found";',
    'fetch without a host': 'return typeof fetch;',
    'the caller of a function':
      'return typeof (function () { try { return arguments.callee.caller } catch {} })();',
    'stack frames of the host':
      'return /node:|file:|\\.ts|\\/work|\\/tmp/.test(new Error().stack) ? "found" : "undefined";',
    prepareStackTrace:
      'let seen; Error.prepareStackTrace = (e, frames) => { seen = frames?.[0]?.getThis?.(); }; new Error().stack; return typeof seen;',
    'import.meta': 'return typeof import.meta.dirname;',
  },
  { status: 'succeeded', result: 'undefined' },
);

const IMPORTS = bodies(
  'import',
  {
    'of a Node module': 'return Object.keys(await import("node:fs"));',
    'of os': 'return Object.keys(await import("os"));',
    'of a file': 'return Object.keys(await import("file:///etc/passwd"));',
    'of the prelude': 'return Object.keys(await import("guest.js"));',
    'of a data URL': 'return Object.keys(await import("data:text/javascript,export default 1"));',
  },
  {
    problem: ({ status, result }) =>
      status === 'failed' || (status === 'succeeded' && !/readFile|platform|passwd/.test(result))
        ? undefined
        : `${status}: ${result.slice(0, 100)}`,
  },
);

const BORDER = bodies('border', {
  'toJSON of all objects': 'Object.prototype.toJSON = () => { throw new Error("x") }; return { a: 1 };',
  'setter of all objects':
    'Object.defineProperty(Object.prototype, "0", { set() { for (;;); } }); return [1].map((x) => x);',
  'setter on arrays':
    'Object.defineProperty(Array.prototype, "0", { set() { for (;;); }, get: () => 7 }); return a;',
  'JSON replaced': 'JSON.stringify = JSON.parse = () => { for (;;); }; return { a: 1 };',
  'text methods replaced':
    'String.prototype.slice = String.prototype.charCodeAt = () => { for (;;); }; return "x".repeat(1e5);',
  'Reflect replaced':
    'Reflect.apply = () => { for (;;); }; Function.prototype.call = Reflect.apply; return 1;',
  'symbols on builtins':
    'Array.prototype[Symbol.iterator] = () => { for (;;); }; String[Symbol.hasInstance] = () => true; return [1];',
  'regex replaced': 'RegExp.prototype.exec = () => { for (;;); }; throw new Error("x");',
  'instanceof replaced':
    'Object.defineProperty(Error, Symbol.hasInstance, { value: () => { for (;;); } }); throw {};',
  'proxy out': 'return new Proxy({}, { ownKeys() { return ["a", "a"] } });',
  'revoked proxy out': 'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy;',
  'revoked proxy thrown': 'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy;',
  'symbol out': 'return Symbol("x");',
  'symbol thrown': 'throw Symbol("x");',
  'BigInt out': 'return 1n;',
  'function out': 'return () => 1;',
  'undefined thrown': 'throw undefined;',
  'object without a prototype thrown': 'throw Object.create(null);',
  'error with a hostile name':
    'const e = new Error("x"); Object.defineProperty(e, "name", { get() { throw e } }); throw e;',
  'console replaced': 'globalThis.console = null; return "done";',
  'global object frozen': 'Object.freeze(globalThis); Object.freeze(Object.prototype); return "done";',
  'global object emptied':
    'for (const k of Reflect.ownKeys(globalThis)) try { delete globalThis[k] } catch {} return "done";',
  'string object out': 'return Object.assign(new String("x"), { length: 1e9 });',
  'array with a huge length out': 'const x = []; x.length = 2 ** 32 - 1; return x;',
  'typed array out': 'return new Uint8Array(5e6);',
});

const ARGUMENTS: readonly HostileProgram[] = [
  { __proto__: 'x' },
  JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}') as object,
  { a: '\0\ud800', b: '\u2028' },
].map((given, at) => ({
  name: `argument: prototype tricks ${at + 1}`,
  code: 'export function f() { return typeof {}.polluted }',
  arguments: given as Record<string, unknown>,
  status: 'succeeded',
  result: 'undefined',
}));

const HOSTS = ['allowed.example'];
const FETCHES = [
  ...bodies(
    'fetch',
    {
      '1,000 requests':
        'return (await Promise.allSettled(Array.from({ length: 1000 }, () => fetch("https://allowed.example/")))).filter((x) => x.status === "fulfilled").length;',
      '1,000 requests in a row':
        'let n = 0; for (let i = 0; i < 1000; i++) try { await fetch("https://allowed.example/"); n++ } catch {} return n;',
    },
    { network: HOSTS, status: 'succeeded', result: '20' },
  ),
  ...bodies(
    'fetch',
    {
      'of a host that is not listed': 'return fetch("https://other.example/");',
      'of a subdomain': 'return fetch("https://x.allowed.example/");',
      'of a host with a suffix': 'return fetch("https://allowed.example.other.example/");',
      'with credentials': 'return fetch("https://allowed.example@other.example/");',
      'with own credentials': 'return fetch("https://user:password@allowed.example/");',
      'of a loopback address': 'return fetch("http://127.0.0.1:1/");',
      'of a decimal address': 'return fetch("http://2130706433/");',
      'of a metadata address': 'return fetch("http://169.254.169.254/latest/meta-data/");',
      'of a file': 'return fetch("file:///etc/passwd");',
      'of a relative URL': 'return fetch("/etc/passwd");',
      'of a data URL': 'return fetch("data:text/plain,x");',
      'of nothing': 'return fetch();',
      'of an object that changes':
        'let n = 0; return fetch({ toString: () => (n++ === 0 ? "https://other.example/" : "https://allowed.example/") });',
      'with a backslash': 'return fetch("https://other.example\\\\@allowed.example/x/..//");'.replace(
        '@allowed',
        '.allowed',
      ),
      'with a split header':
        'return fetch("https://allowed.example/", { headers: { a: "b\\r\\nHost: other.example" } });',
      'with a header name of blanks':
        'return fetch("https://allowed.example/", { headers: { "a b": "c" } });',
      'with a strange method': 'return fetch("https://allowed.example/", { method: "CONNECT" });',
      'with an object as body': 'return fetch("https://allowed.example/", { body: { a: 1 } });',
      'with 5 MB': 'return fetch("https://allowed.example/", { method: "POST", body: "x".repeat(5e6) });',
      'with a throwing getter':
        'return fetch("https://allowed.example/", { get method() { throw new Error("x") } });',
    },
    { network: HOSTS, status: 'failed' },
  ),
  ...bodies(
    'fetch',
    {
      '400 kB eleven times':
        'for (let i = 0; i < 11; i++) await fetch("https://allowed.example/", { method: "POST", body: "x".repeat(4e5) }); return 1;',
    },
    { network: HOSTS, status: 'failed', result: /too large/ },
  ),
  ...bodies(
    'fetch',
    {
      'that is not awaited': 'fetch("https://allowed.example/slow"); return "done";',
      'with a loop beside it': 'fetch("https://allowed.example/"); for (;;);',
      'with a tampered answer':
        'Object.prototype.error = "x"; return (await fetch("https://allowed.example/")).status;',
      'with tampered promises':
        'Promise.prototype.then = undefined; return (await fetch("https://allowed.example/")).text();',
      'of a host that does not answer': 'return fetch("https://allowed.example/slow");',
      'in a storm': 'const g = () => fetch("https://allowed.example/").then(g, g); return g();',
      'with a large answer': 'return (await fetch("https://allowed.example/large")).text();',
    },
    { network: HOSTS },
  ),
];

const ATOMICS = bodies('atomics', {
  wait: 'return Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0);',
  'busy wait': 'const x = new Int32Array(new SharedArrayBuffer(8)); while (x[0] === 0);',
});

const DEEP = nested(5_000);

/** The corpus. Each program must end in time, within the memory, and without an effect on others. */
export const PROGRAMS: readonly HostileProgram[] = [
  ...LOOPS,
  ...TOP_LEVEL,
  ...PROMISES,
  ...NATIVE,
  ...MEMORY,
  ...STACK.map((program) =>
    program.name === 'stack: deep value in' ? { ...program, arguments: { a: DEEP } } : program,
  ),
  ...OUTPUT,
  ...HUNTS,
  ...IMPORTS,
  ...BORDER.map((program) => ({ ...program, arguments: { a: 1 } })),
  ...ARGUMENTS,
  ...FETCHES,
  ...ATOMICS,
];
