import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

interface Operation {
  readonly operationId?: string;
  readonly summary?: string;
  readonly responses: Record<string, unknown>;
}

test('the committed document is the one that is served; `npx vitest run apps/api/test/openapi.test.ts -u` writes it', async () => {
  const { body } = await api.call('GET', '/openapi.json', undefined, { authorization: '' });
  await expect(`${JSON.stringify(body, null, 2)}\n`).toMatchFileSnapshot('../openapi.json');
});

test('every operation has a name of its own, a summary, and says what it answers', () => {
  const document = api.app.swagger() as unknown as { paths: Record<string, Record<string, Operation>> };
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  const names = operations.map((operation) => operation.operationId);
  expect(new Set(names).size).toBe(names.length);
  for (const operation of operations) {
    expect(operation.operationId).toMatch(/^[a-z][A-Za-z]+$/);
    expect(operation.summary).toMatch(/^[A-Z]/);
    expect(Object.keys(operation.responses)).toContain('200');
  }
  expect(JSON.stringify(document)).not.toContain('__shared');
});
