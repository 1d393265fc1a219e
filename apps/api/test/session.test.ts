import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import { API_KEY, openApi, type Answer, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const HOST = 'nightshift.example';
const OWN = { host: HOST, origin: `http://${HOST}` };
/** A request of a browser: no key. */
const browser = (
  method: 'GET' | 'POST' | 'DELETE',
  url: string,
  body?: unknown,
  headers: Record<string, string> = OWN,
): Promise<Answer> => api.call(method, url, body, { authorization: '', ...headers });
const signIn = async (): Promise<string> => {
  const { status, headers } = await browser('POST', '/v1/session', { api_key: API_KEY });
  expect(status).toBe(200);
  return String(headers['set-cookie']);
};
const cookieOf = (setCookie: string): string => setCookie.split(';')[0]!;

test('a key becomes a cookie that scripts and other sites cannot use', async () => {
  const cookie = await signIn();
  expect(cookie).toMatch(
    /^nightshift_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=604800$/,
  );
  const { status, body } = await browser('GET', '/v1/session', undefined, { cookie: cookieOf(cookie) });
  expect(status).toBe(200);
  expect(body).toMatchObject({ version: '0.1.0', model: 'simulator' });
  expect((await browser('GET', '/v1/agents', undefined, { cookie: cookieOf(cookie) })).status).toBe(200);
});

test('behind TLS the cookie is sent over TLS only', async () => {
  const secure = { host: HOST, origin: `https://${HOST}` };
  const { headers } = await browser('POST', '/v1/session', { api_key: API_KEY }, secure);
  expect(String(headers['set-cookie'])).toMatch(/; Secure$/);
});

test('a wrong key is refused, and says where the right one stands', async () => {
  const { status, body, headers } = await browser('POST', '/v1/session', { api_key: 'wrong' });
  expect(status).toBe(401);
  expect(body.detail).toContain('.data/api-key');
  expect(headers['set-cookie']).toBeUndefined();
});

describe('a changing request counts only from our own pages', () => {
  test.each([
    ['of another site', { host: HOST, origin: 'http://evil.example' }],
    ['of a page without a site', { host: HOST, origin: 'null' }],
    ['that does not say from where', { host: HOST }],
  ])('not %s', async (_, headers: Record<string, string>) => {
    const cookie = cookieOf(await signIn());
    const refused = await browser(
      'POST',
      '/v1/agents',
      { model: 'anthropic/claude-haiku-4-5' },
      { ...headers, cookie },
    );
    expect(refused.status).toBe(401);
    expect((await browser('POST', '/v1/session', { api_key: API_KEY }, headers)).status).toBe(401);
  });

  test('our own', async () => {
    const cookie = cookieOf(await signIn());
    const made = await browser(
      'POST',
      '/v1/agents',
      { model: 'anthropic/claude-haiku-4-5' },
      { ...OWN, cookie },
    );
    expect(made.status).toBe(200);
  });
});

test('a session ends by sign-out, by its time, and with its key', async () => {
  const cookies = [cookieOf(await signIn()), cookieOf(await signIn())] as const;
  const out = await browser('DELETE', '/v1/session', undefined, { ...OWN, cookie: cookies[0] });
  expect(String(out.headers['set-cookie'])).toContain('Max-Age=0');
  const gone = await browser('GET', '/v1/agents', undefined, { cookie: cookies[0] });
  expect([gone.status, gone.body.detail]).toEqual([
    401,
    expect.stringContaining('The session has ended. Sign in again.'),
  ]);
  const other = buildServer({
    db: api.database.db,
    bell: { ring: async () => undefined },
    apiKey: 'another_key_of_the_service',
    model: 'simulator',
  });
  const answer = await other.inject({ url: '/v1/agents', headers: { cookie: cookies[1] } });
  await other.close();
  expect(answer.statusCode).toBe(401);
  expect((await browser('GET', '/v1/agents', undefined, { cookie: cookies[1] })).status).toBe(200);
  await api.database.pool.query(`update session set expires_at = app_now()`);
  expect((await browser('GET', '/v1/agents', undefined, { cookie: cookies[1] })).status).toBe(401);
});

describe('a sign-in link', () => {
  const link = async (): Promise<string> => (await api.call('POST', '/v1/session/links')).body.token;

  test('signs in once, also when two browsers use it at once', async () => {
    const token = await link();
    const answers = await Promise.all([1, 2, 3].map(() => browser('POST', '/v1/session', { token })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 401, 401]);
  });

  test('is valid for ten minutes', async () => {
    const token = await link();
    const { rows } = await api.database.pool.query<{ ms: string }>(
      `select extract(epoch from expires_at - created_at) * 1000 as ms from session where kind = 'link' order by created_at desc limit 1`,
    );
    // Two readings of the clock, in one statement.
    expect(Number(rows[0]?.ms)).toBeCloseTo(600_000, 0);
    await api.database.pool.query(`update session set expires_at = app_now()`);
    const { status, body } = await browser('POST', '/v1/session', { token });
    expect([status, body.detail]).toEqual([401, expect.stringContaining('older than ten minutes')]);
  });

  test('needs the key', async () => {
    expect((await browser('POST', '/v1/session/links')).status).toBe(401);
  });
});

test('the next start of a session removes expired ones', async () => {
  await signIn();
  await api.database.pool.query(`update session set expires_at = app_now() - interval '1 s'`);
  await signIn();
  const { rows } = await api.database.pool.query<{ count: string }>('select count(*) from session');
  expect(Number(rows[0]?.count)).toBe(1);
});
