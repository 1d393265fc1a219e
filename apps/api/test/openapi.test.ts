import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApi, type TestApi } from './api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

type Schema = Readonly<Record<string, unknown>>;

interface Operation {
  readonly operationId?: string;
  readonly summary?: string;
  readonly responses: Record<string, unknown>;
  readonly requestBody?: Schema;
  readonly parameters?: readonly Schema[];
}

test('the committed document is the served document; `npx vitest run apps/api/test/openapi.test.ts -u` writes it', async () => {
  const { body } = await api.call('GET', '/openapi.json', undefined, { authorization: '' });
  await expect(`${JSON.stringify(body, null, 2)}\n`).toMatchFileSnapshot('../openapi.json');
});

test('every operation has a unique name, a summary, and a schema of its answer', () => {
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

test('every list in a request has a greatest length', () => {
  const document = api.app.swagger() as unknown as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, Schema> };
  };
  const seen = new Set<string>();
  const found: string[] = [];
  const unbounded: string[] = [];
  const walk = (part: unknown, at: string): void => {
    if (typeof part !== 'object' || part === null) return;
    const { type, maxItems, $ref } = part as Schema;
    if (type === 'array') (maxItems === undefined ? unbounded : found).push(at);
    for (const [key, inner] of Object.entries(part)) {
      if (key !== 'examples') walk(inner, `${at}/${key}`);
    }
    const name = typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? '') : '';
    if (name === '' || seen.has(name)) return;
    seen.add(name);
    walk(document.components.schemas[name], name);
  };
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, { requestBody, parameters }] of Object.entries(operations)) {
      walk(requestBody, `${method} ${path}`);
      walk(parameters, `${method} ${path}?`);
    }
  }
  expect(unbounded).toEqual([]);
  expect(found.length).toBeGreaterThan(20);
});

test('answers stay open for later fields and name the schemas of runs, batches and messages', () => {
  const { paths, components } = api.app.swagger() as unknown as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, Schema> };
  };
  const seen = new Set<string>();
  const closed: string[] = [];
  const open: string[] = [];
  const walk = (part: unknown, at: string): void => {
    if (typeof part !== 'object' || part === null) return;
    const { type, additionalProperties, $ref } = part as Schema;
    if (additionalProperties === false) closed.push(at);
    if (type === 'object' && additionalProperties !== undefined) open.push(at);
    for (const [key, inner] of Object.entries(part)) walk(inner, `${at}/${key}`);
    const name = typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? '') : '';
    if (name === '' || seen.has(name)) return;
    seen.add(name);
    walk(components.schemas[name], name);
  };
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  for (const { operationId = '', responses } of operations) walk(responses['200'], operationId);
  expect(closed).toEqual([]);
  const ofWork = /^(Run|Batch|WaitsFor|AwaitedToolCall|.*Message|.*Part|Tool(Call|Return)|Internal.*)\b/;
  // Values of the caller or the model.
  expect(open.filter((at) => ofWork.test(at)).sort()).toEqual([
    'AwaitedToolCall/properties/arguments',
    'Batch/properties/metadata/anyOf/0',
  ]);
});

test('a shape used twice is a component', () => {
  const { paths, components } = api.app.swagger() as unknown as {
    paths: unknown;
    components: { schemas: Record<string, Schema> };
  };
  const places = new Map<string, string[]>();
  const walk = (part: unknown, at: string): void => {
    if (typeof part !== 'object' || part === null) return;
    const { type, properties } = part as Schema;
    if (type === 'object' && properties !== undefined) {
      const shape = JSON.stringify(part);
      places.set(shape, [...(places.get(shape) ?? []), at]);
    }
    for (const [key, inner] of Object.entries(part)) if (key !== 'examples') walk(inner, `${at}/${key}`);
  };
  walk(paths, '');
  walk(components.schemas, '');
  expect([...places.values()].filter((found) => found.length > 1)).toEqual([]);
});

test('examples of bodies are in the document, also with transformed parts', () => {
  const { components } = api.app.swagger() as unknown as { components: { schemas: Record<string, Schema> } };
  const bodies = ['AgentCreate', 'BatchCreate', 'ToolResults'];
  expect(bodies.filter((name) => components.schemas[name]?.['examples'] === undefined)).toEqual([]);
});

test('a body is required unless the route needs none', () => {
  const document = api.app.swagger() as unknown as { paths: Record<string, Record<string, Operation>> };
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  const namesOf = (required: boolean): unknown[] =>
    operations
      .filter(({ requestBody }) => requestBody?.['required'] === required)
      .map(({ operationId }) => operationId);
  expect(namesOf(false).toSorted()).toEqual([
    'acceptHeldChanges',
    'cancelRunsOfBatch',
    'pauseSchedule',
    'rejectHeldChanges',
    'resetMessages',
    'retryBatch',
    'revertBatch',
    'rewindCursor',
    'updateToolApproval',
  ]);
  expect(namesOf(true)).toContain('createBatch');
  expect(namesOf(true).length + 9).toBe(operations.filter(({ requestBody }) => requestBody).length);
});

/** Tells a list, which answers a page of JSON, from a download, which goes on by `after` too. */
function isList({ parameters, responses }: Operation): boolean {
  const { content = {} } = responses['200'] as { readonly content?: Schema };
  return 'application/json' in content && (parameters?.some(({ name }) => name === 'after') ?? false);
}

test('every list documents short pages and the link to the next page', () => {
  const document = api.app.swagger() as unknown as { paths: Record<string, Record<string, Operation>> };
  const lists = Object.values(document.paths)
    .flatMap(({ get }) => (get === undefined ? [] : [get]))
    .filter(isList);
  expect(lists.length).toBeGreaterThan(10);
  for (const { operationId, parameters } of lists) {
    const limit = parameters?.find(({ name }) => name === 'limit');
    expect([operationId, limit?.['description']]).toEqual([
      operationId,
      expect.stringMatching(/^A page may hold fewer than `limit`.*`Link` header with rel="next"/),
    ]);
  }
});

test('exactly the answers of lists have a Link header in the document', () => {
  const document = api.app.swagger() as unknown as {
    paths: Record<string, Record<string, Operation>>;
    components: { headers: Record<string, Schema> };
  };
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  const headersOf = ({ responses }: Operation) => (responses['200'] as Schema)['headers'];
  const LINK = { Link: { $ref: '#/components/headers/Link' } };
  for (const operation of operations) {
    const { operationId } = operation;
    expect([operationId, headersOf(operation)]).toEqual([operationId, isList(operation) ? LINK : undefined]);
  }
  expect(document.components.headers['Link']).toMatchObject({
    description: expect.stringMatching(/rel="next".*rel="prev"/),
    schema: { type: 'string' },
  });
});

test('the change of caps says that a batch without caps cannot get a cap, and how to stop it', () => {
  const document = api.app.swagger() as unknown as { paths: Record<string, Record<string, Operation>> };
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  expect(operations.find(({ operationId }) => operationId === 'changeBatchCaps')).toMatchObject({
    description: expect.stringMatching(/submitted without any cap.*cannot get a cap.*pause.*cancel/),
  });
});
