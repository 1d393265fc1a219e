import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApi, type TestApi } from './api.ts';

const BROWSER = '/usr/bin/chromium';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const read = (path: string) => api.app.inject({ method: 'GET', url: path });

test('the reference is public, and its policy allows no other host', async () => {
  const [page, script] = [await read('/docs/'), await read('/docs/js/scalar.js')];
  expect([page.statusCode, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect([script.statusCode, script.headers['content-type']]).toEqual([
    200,
    'application/javascript; charset=utf-8',
  ]);
  for (const { headers } of [page, script]) {
    const policy = String(headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).not.toMatch(/https?:|\*/);
  }
  expect((await read('/openapi.json')).headers['content-security-policy']).toBeUndefined();
});

test('the page names no resource of another host', async () => {
  const { body } = await read('/docs/');
  const resources = [...body.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, target]) => target);
  expect(resources).toEqual(['js/scalar.js']);
  expect(body).toContain('"/openapi.json"');
  expect(body).not.toMatch(/https?:\/\//);
});

test('without its slash the page is found too, so that its script is', async () => {
  const { statusCode, headers } = await read('/docs');
  expect([statusCode, headers.location]).toEqual([301, '/docs/']);
});

test('a browser shows the operations and sends no request to another host', async ({ skip }) => {
  if (!existsSync(BROWSER)) {
    console.log(`Skipped: there is no browser at ${BROWSER}. Install it with: apt-get install chromium`);
    skip();
  }
  const url = await api.app.listen({ port: 0, host: '127.0.0.1' });
  const browser = await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    const requests: string[] = [];
    const refusals: string[] = [];
    page.on('request', (request) => requests.push(request.url()));
    page.on('console', (message) => {
      if (/content security policy/i.test(message.text())) refusals.push(message.text());
    });
    await page.goto(`${url}/docs`);
    await page.getByText('Submit a batch').first().waitFor({ timeout: 90_000 });
    expect(requests).toContain(`${url}/openapi.json`);
    expect(requests.filter((request) => !/^(data|blob):/.test(request) && !request.startsWith(url))).toEqual(
      [],
    );
    expect(refusals).toEqual([]);
    expect(await page.getByText(/Ask AI|Generate MCP|Open API Client/).count()).toBe(0);
  } finally {
    await browser.close();
  }
});
