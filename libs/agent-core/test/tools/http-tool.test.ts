import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  checkHttpTool,
  isReservedHeader,
  readHttpResult,
  renderHttpRequest,
  type HttpRequest,
  type HttpTool,
  type Json,
  type JsonObject,
} from '../../src/index.ts';

const SCHEMA: JsonObject = {
  type: 'object',
  $defs: {
    place: { type: 'object', properties: { town: { type: 'string' }, next: { $ref: '#/$defs/place' } } },
  },
  properties: {
    id: { type: 'string' },
    any: {},
    list: { type: 'array', items: { type: 'object', properties: { name: { type: 'string' } } } },
    rows: { type: ['array', 'null'] },
    user: { type: 'object', properties: { name: { type: 'string' } } },
    open: { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'string' } },
    place: { $ref: '#/$defs/place' },
    loop: { $ref: '#/properties/loop' },
    lost: { $ref: '#/$defs/none' },
    one: { anyOf: [{ type: 'object', properties: { b: {} } }, { type: 'string' }] },
    yes: true,
  },
};
const TOOL: HttpTool = { method: 'POST', url: 'https://api.example.com/v1/items' };

function problemsOf(http: Partial<HttpTool>): readonly string[] {
  return checkHttpTool({ ...TOOL, ...http }, SCHEMA).map(({ path }) => path);
}

describe('the check of a tool', () => {
  test('accepts templates in every place', () => {
    const http: HttpTool = {
      method: 'PATCH',
      url: 'HTTPS://api.example.com:8443/users/{{user.name}}/x-{{ id }}?a={{id}}&b=1',
      headers: { Authorization: 'Bearer {{secrets.API_KEY}}', 'X-Id': '{{id}}' },
      query: { q: 'name:{{user.name}}' },
      body: { query: 'query { a { b }}', id: '{{id}}', list: ['{{list}}', 1, null, { deep: 'x {{id}}' }] },
      result: '/items/0/a~1b~0c',
    };
    expect(checkHttpTool(http, SCHEMA)).toEqual([]);
    expect(checkHttpTool({ ...TOOL, method: 'GET', result: '' }, {})).toEqual([]);
  });

  test.each<[string, Partial<HttpTool>, string]>([
    ['an unknown method', { method: 'TRACE' }, '/method'],
    ['a lower-case method', { method: 'get' }, '/method'],
    ['a relative URL', { url: '/v1/items' }, '/url'],
    ['another scheme', { url: 'ftp://example.com/' }, '/url'],
    ['a template in the scheme', { url: '{{id}}://example.com/' }, '/url'],
    ['a template in the host', { url: 'https://{{id}}.example.com/' }, '/url'],
    ['a template in the port', { url: 'https://example.com:{{id}}/' }, '/url'],
    ['a template directly after the host', { url: 'https://example.com{{id}}' }, '/url'],
    ['a backslash in the host', { url: 'https://example.com\\@other.com/' }, '/url'],
    ['a host that does not parse', { url: 'https://1.2.3.4.5/' }, '/url'],
    ['a port that does not parse', { url: 'https://example.com:99999/' }, '/url'],
    ['a name and password', { url: 'https://user:pass@example.com/' }, '/url'],
    ['an empty name', { url: 'https://@example.com/' }, '/url'],
    ['a fragment', { url: 'https://example.com/#{{id}}' }, '/url'],
    ['an unknown argument in the path', { url: 'https://example.com/{{nothing}}' }, '/url'],
    ['a secret in the path', { url: 'https://example.com/{{secrets.KEY}}' }, '/url'],
    ['a secret in the query of the URL', { url: 'https://example.com/?k={{secrets.KEY}}' }, '/url'],
    ['a secret in a parameter', { query: { 'a/b': '{{secrets.KEY}}' } }, '/query/a~1b'],
    ['a secret in the body', { body: { a: [{ 'b~c': 'x{{secrets.KEY}}' }] } }, '/body/a/0/b~0c'],
    ['a secret without a name', { headers: { A: '{{secrets}}' } }, '/headers/A'],
    ['a secret with two names', { headers: { A: '{{secrets.a.b}}' } }, '/headers/A'],
    ['a template in a key', { body: { '{{id}}': 1 } }, '/body/{{id}}'],
    ['a template that does not parse', { body: 'a {{ b c }}' }, '/body'],
    ['a body of a GET', { method: 'GET', body: {} }, '/body'],
    ['an unknown argument in a header', { headers: { A: '{{nothing}}' } }, '/headers/A'],
    ['a bad name of a header', { headers: { 'a b': 'x' } }, '/headers/a b'],
    ['a line break in a header', { headers: { a: 'x\r\nb: c' } }, '/headers/a'],
    ['a header twice', { headers: { a: 'x', A: 'y' } }, '/headers/A'],
    ['a header that frames the request', { headers: { 'Content-Length': '5' } }, '/headers/Content-Length'],
    ['the key of a repeat', { headers: { 'idempotency-KEY': 'x' } }, '/headers/idempotency-KEY'],
    ['a header that routes the request', { headers: { host: 'other' } }, '/headers/host'],
    ['a pointer without a slash', { result: 'items' }, '/result'],
    ['a pointer with a bad escape', { result: '/a~2' }, '/result'],
  ])('refuses %s', (_, http, path) => {
    expect(problemsOf(http)).toEqual([path]);
  });

  test.each([
    ['any.a.b', true],
    ['yes.a', true],
    ['list.0.name', true],
    ['list.0.other', false],
    ['list.name', false],
    ['rows.0.x', true],
    ['id.x', false],
    ['user.name', true],
    ['user.other', false],
    ['user.constructor', false],
    ['constructor', false],
    ['open.b', true],
    ['open.b.c', false],
    ['place.next.next.town', true],
    ['place.street', false],
    ['loop.x', true],
    ['lost.x', true],
    ['one.b', true],
    ['one.c', false],
  ])('knows whether the schema has {{%s}}: %s', (name, known) => {
    expect(problemsOf({ body: `{{${name}}}` })).toEqual(known ? [] : ['/body']);
  });

  test('knows no arguments of a schema without properties', () => {
    expect(checkHttpTool({ ...TOOL, body: '{{id}}' }, { type: 'object' })).toHaveLength(1);
  });

  test('a reserved header is found in any case', () => {
    expect(['HOST', 'Transfer-Encoding', 'x-host'].map(isReservedHeader)).toEqual([true, true, false]);
  });
});

function render(
  http: Partial<HttpTool>,
  args: JsonObject,
  secrets: Readonly<Record<string, string>> = {},
): HttpRequest {
  const rendered = renderHttpRequest({ ...TOOL, ...http }, args, secrets);
  if (!rendered.ok) throw new Error(rendered.message);
  return rendered.request;
}

function refusalOf(http: Partial<HttpTool>, args: JsonObject, secrets = {}): string {
  const rendered = renderHttpRequest({ ...TOOL, ...http }, args, secrets);
  return rendered.ok ? '' : rendered.message;
}

describe('a rendered request', () => {
  test('is the tool itself without templates', () => {
    expect(render({ headers: { a: 'b' }, query: { c: 'd e' } }, {})).toEqual({
      method: 'POST',
      url: 'https://api.example.com/v1/items?c=d%20e',
      headers: { a: 'b' },
      body: undefined,
    });
    expect(render({ url: 'https://example.com' }, {}).url).toBe('https://example.com');
  });

  test.each<[string, Json, string]>([
    ['a text', 'ü/?#&%2e\\', '%C3%BC%2F%3F%23%26%252e%5C'],
    ['a number', 1.5, '1.5'],
    ['a boolean', false, 'false'],
    ['a list', [1, 'a'], '%5B1%2C%22a%22%5D'],
    ['an object', { a: 1 }, '%7B%22a%22%3A1%7D'],
    ['a lone surrogate', '\ud800', '%EF%BF%BD'],
    ['three dots', '...', '...'],
  ])('encodes %s for path and query', (_, value, text) => {
    const url = 'https://example.com/a/{{v}}/b?q={{v}}';
    expect(render({ url, query: { r: 'x{{v}}' } }, { v: value }).url).toBe(
      `https://example.com/a/${text}/b?q=${text}&r=x${text}`,
    );
  });

  test.each<[string, Json | undefined]>([
    ['https://example.com/{{v}}', ''],
    ['https://example.com/{{v}}/x', undefined],
    ['https://example.com/a/{{v}}', null],
    ['https://example.com/a/{{v}}/b', '.'],
    ['https://example.com/a/{{v}}/b', '..'],
    ['https://example.com/a/.{{v}}', '.'],
    ['https://example.com/a/%2E{{v}}', '.'],
  ])('refuses to change the path: %s with %j', (url, v) => {
    expect(refusalOf({ url }, v === undefined ? {} : { v })).toContain("the argument 'v'");
  });

  test('leaves out absent parameters, headers and parts of the body', () => {
    const templates = { gone: '{{gone}}', null: '{{null}}', mixed: 'x{{gone}}', kept: '{{kept}}' };
    const http = {
      query: templates,
      headers: templates,
      body: { ...templates, list: ['{{gone}}', '{{kept}}', 1] },
    };
    const request = render(http, { null: null, kept: 'k' });
    expect(request.url).toBe('https://api.example.com/v1/items?mixed=x&kept=k');
    expect(request.headers).toEqual({ mixed: 'x', kept: 'k', 'content-type': 'application/json' });
    expect(JSON.parse(request.body!)).toEqual({ null: null, mixed: 'x', kept: 'k', list: ['k', 1] });
    expect(render({ body: '{{gone}}' }, {}).body).toBe('null');
  });

  test('reads nested arguments by own keys only', () => {
    const args = { user: { name: 'n' }, list: [{ a: 'b' }], text: 'abc' };
    const body = [
      '{{user.name}}',
      '{{list.0.a}}',
      '{{list.x}}',
      '{{text.length}}',
      '{{user.constructor.name}}',
    ];
    expect(JSON.parse(render({ body }, args).body!)).toEqual(['n', 'b']);
  });

  test('has JSON values where a template stands alone, and text elsewhere', () => {
    const args = { n: 1, o: { a: [true] }, s: '"x"' };
    const body = { n: '{{n}}', o: '{{ o }}', s: '{{s}}', mixed: '{{n}}:{{o}}:{{s}}', other: [null, 2, true] };
    expect(JSON.parse(render({ body }, args).body!)).toEqual({
      n: 1,
      o: { a: [true] },
      s: '"x"',
      mixed: '1:{"a":[true]}:"x"',
      other: [null, 2, true],
    });
  });

  test('keeps the content type of the tool', () => {
    const headers = { 'Content-Type': 'application/vnd.api+json' };
    expect(render({ headers, body: {} }, {}).headers).toEqual(headers);
  });

  test('encodes what a header cannot hold', () => {
    const headers = { 'X-A': 'v={{v}}' };
    expect(render({ headers }, { v: 'a b%\r\nX-B: ü😀' }).headers).toEqual({
      'X-A': 'v=a b%%0D%0AX-B: %C3%BC%F0%9F%98%80',
    });
  });

  test('has secrets in its headers', () => {
    const headers = { Authorization: 'Bearer {{secrets.KEY}}', 'X-Only': '{{secrets.KEY}}' };
    expect(render({ headers }, { secrets: { KEY: 'argument' } }, { KEY: 's3cr%t' }).headers).toEqual({
      Authorization: 'Bearer s3cr%t',
      'X-Only': 's3cr%t',
    });
  });

  test('is refused for an unchecked URL', () => {
    expect(refusalOf({ url: 'file:///etc/passwd' }, {})).toBe('the URL of this tool cannot be called');
  });

  test('is refused without its secrets, and names no value', () => {
    const headers = { Authorization: '{{secrets.KEY}}' };
    expect(refusalOf({ headers }, {})).toBe("the secret 'KEY' of this tool is not set");
    expect(refusalOf({ headers: { A: '{{secrets.toString}}' } }, {})).toContain("'toString'");
    const message = refusalOf({ headers }, {}, { KEY: 'canary\n' });
    expect(message).toContain("'KEY'");
    expect(message).not.toContain('canary');
  });

  test('any value keeps host, segments, parameters and headers', () => {
    const http = {
      url: 'https://example.com/a/x{{v}}/b?q={{v}}',
      query: { r: '{{v}}-' },
      headers: { 'X-A': 'x{{v}}' },
      body: { s: '{{v}}' },
    };
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (v) => {
        const { url, headers, body } = render(http, { v });
        const parsed = new URL(url);
        expect(parsed.origin).toBe('https://example.com');
        expect(parsed.pathname.split('/')).toHaveLength(4);
        expect([...parsed.searchParams]).toEqual([
          ['q', v.toWellFormed()],
          ['r', `${v.toWellFormed()}-`],
        ]);
        expect(new Headers(headers).get('x-a')).toMatch(/^x[\x20-\x7e]*$/);
        expect(JSON.parse(body!)).toEqual({ s: v });
      }),
    );
  });

  test('a fault of the program is thrown', () => {
    const args = { v: 1n as unknown as Json };
    expect(() => renderHttpRequest({ ...TOOL, body: '{{v}}' }, args, {})).toThrow(TypeError);
  });
});

describe('the result of an answer', () => {
  test.each<[string, string | undefined, string]>([
    ['not json', undefined, 'not json'],
    ['{"a":1}', '', '{"a":1}'],
    ['{"a":["x",{"b/~":null}]}', '/a/0', 'x'],
    ['{"a":["x",{"b/~":null}]}', '/a/1/b~1~0', 'null'],
    ['{"":{"":2}}', '//', '2'],
  ])('%s at %j', (answer, pointer, text) => {
    expect(readHttpResult(answer, pointer)).toEqual({ ok: true, text });
  });

  test.each([
    ['not json', '/a', 'is not JSON'],
    ['{"a":[1]}', '/a/1', "no value at '/a/1'"],
    ['{"a":[1]}', '/a/length', 'no value'],
    ['{}', '/constructor', 'no value'],
    ['[]', '/a/b', 'no value'],
    [`${'['.repeat(200)}${']'.repeat(200)}`, '/0', 'nests too deep'],
  ])('%s has none at %s', (answer, pointer, message) => {
    const result = readHttpResult(answer, pointer);
    expect(result.ok ? '' : result.message).toContain(message);
  });
});
