import { describe, expect, test } from 'vitest';
import { FETCH_CHARS_MAX } from '../src/index.ts';
import { readFetch } from '../src/fetches.ts';

const HOSTS = ['api.example', 'other.example:8443'];

function read(request: object, hosts: readonly string[] = HOSTS): unknown {
  const full = { method: 'GET', headers: {}, ...request };
  return readFetch(JSON.stringify(full), hosts, { requests: 0, chars: 0 });
}

describe('a request is let through', () => {
  test.each([
    [{ url: 'https://api.example/a?b=c' }, { url: 'https://api.example/a?b=c' }],
    [{ url: 'https://API.example' }, { url: 'https://api.example/' }],
    [{ url: 'http://api.example:8080/' }, { url: 'http://api.example:8080/' }],
    [{ url: 'https://other.example:8443/', method: 'put' }, { method: 'PUT' }],
    [
      { url: 'https://api.example/', body: 'x', headers: { A: 'b' } },
      { body: 'x', headers: { A: 'b' } },
    ],
  ])('%j', (request, expected) => {
    expect(read(request)).toMatchObject(expected);
  });
});

describe('a request is refused', () => {
  test.each([
    ['https://x.api.example/', /host x\.api\.example is not in the tool's network list/],
    ['https://api.example.evil.example/', /not in the tool's network list/],
    ['https://other.example/', /host other\.example is not in/],
    ['https://api.example@evil.example/', /credentials/],
    ['https://user@api.example/', /credentials/],
    ['https://evil.example\\.api.example/', /not in/],
    ['https://api.example./', /not in/],
    ['http://2130706433/', /host 127\.0\.0\.1 is not in/],
    ['http://[::ffff:7f00:1]/', /not in/],
    ['file:///etc/passwd', /protocol file:/],
    ['data:text/plain,x', /protocol data:/],
    ['/relative', /not absolute/],
    ['', /not absolute/],
    [null, /not absolute/],
    [{ href: 'https://api.example/' }, /not absolute/],
  ])('to %j', (url, message) => {
    expect(() => read({ url })).toThrow(message);
  });

  test.each([
    [{ method: 'CONNECT' }, /method/],
    [{ method: 7 }, /method/],
    [{ body: { a: 1 } }, /body must be a string/],
    [{ headers: 'x' }, /headers must be an object/],
    [{ headers: null }, /headers must be an object/],
    [{ headers: { a: 'b\r\nHost: x' } }, /header "a"/],
    [{ headers: { 'a b': 'c' } }, /header "a b"/],
    [{ headers: { '': 'c' } }, /header ""/],
    [{ headers: { a: 1 } }, /header "a"/],
  ])('with %j', (more, message) => {
    expect(() => read({ url: 'https://api.example/', ...more })).toThrow(message);
  });

  test('after 20 requests, and after 4 MB', () => {
    const text = JSON.stringify({ url: 'https://api.example/', method: 'GET', headers: {} });
    const budget = { requests: 0, chars: 0 };
    for (let at = 0; at < 20; at += 1) readFetch(text, HOSTS, budget);
    expect(() => readFetch(text, HOSTS, budget)).toThrow('a call may make 20 requests');
    expect(() => readFetch(text, HOSTS, { requests: 0, chars: FETCH_CHARS_MAX })).toThrow('too large');
  });

  test('without hosts', () => {
    expect(() => read({ url: 'https://api.example/' }, [])).toThrow('not in');
  });
});
