import { z } from 'zod';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openApi, type TestApi } from './api.ts';
import { checkAnswer, createCompiler } from './check-answer.ts';
import { formsOf, operationsOf, propertiesOf, type OpenApiDocument, type Schema } from './document.ts';

let api: TestApi;
let document: OpenApiDocument;
beforeAll(async () => {
  api = await openApi();
  document = api.app.swagger() as unknown as OpenApiDocument;
});
afterAll(() => api.close());

/** The texts that a schema allows: itself, and the items of its lists. */
function textsOf(schema: Schema): readonly Schema[] {
  return formsOf(document, schema).flatMap((form) => {
    const items = form['items'];
    const isText =
      [form['type']].flat().includes('string') && form['const'] === undefined && form['enum'] === undefined;
    return [...(isText ? [form] : []), ...(typeof items === 'object' ? textsOf(items as Schema) : [])];
  });
}

/** Ids that come from callers, models and the provider, and the names of promises of the audit. */
const FOREIGN_IDS = /^(custom_id|tool_call_id)$/;
const FOREIGN_PLACES = /((InternalToolCall|Audit).*|violations\/items)\.id$/;
const TIMES =
  /(_at|created_after|created_before|_date|_ticks)$|^(date|from|to|until|earliest|latest|deadline|last_run_completion|start_date|end_date)$/;

test('every id of the service has a pattern, and every time a format', () => {
  const properties = propertiesOf(document);
  const ids = properties.filter(
    ({ name, at }) => /(^|_)ids?$/.test(name) && !FOREIGN_IDS.test(name) && !FOREIGN_PLACES.test(at),
  );
  const times = properties.filter(({ name }) => TIMES.test(name));
  expect([ids.length > 100, times.length > 50]).toEqual([true, true]);
  const isId = ({ pattern }: Schema) => pattern !== undefined;
  const isTime = ({ format }: Schema) => format === 'date-time' || format === 'date';
  expect(ids.filter(({ schema }) => !textsOf(schema).every(isId)).map(({ at }) => at)).toEqual([]);
  expect(times.filter(({ schema }) => !textsOf(schema).every(isTime)).map(({ at }) => at)).toEqual([]);
  const cursors = operationsOf(document).flatMap(({ operationId, parameters = [] }) =>
    parameters
      .filter(
        ({ name, schema: { type, pattern, format } }) =>
          (name === 'after' || name === 'before') &&
          type === 'string' &&
          pattern === undefined &&
          format === undefined,
      )
      .map(({ name }) => `${operationId}?${name}`),
  );
  // A tag, and the cursor of a download, which only its lines define.
  expect(cursors.sort()).toEqual(['downloadResults?after', 'listTags?after', 'listTags?before']);
});

test('formats stand without the pattern of the format', () => {
  const both: string[] = [];
  const walk = (part: unknown, at: string): void => {
    if (typeof part !== 'object' || part === null) return;
    const { format, pattern } = part as Schema;
    if (typeof format === 'string' && format.startsWith('date') && pattern !== undefined) both.push(at);
    for (const [key, inner] of Object.entries(part)) walk(inner, `${at}/${key}`);
  };
  walk(document, '');
  expect(both).toEqual([]);
});

test('content parts, tool rules and images are unions told apart by their type', () => {
  const unions = ['ToolRule', 'AgentToolRule', 'InternalContentPart', 'ImageSource', 'LettaMessage'];
  for (const name of unions) {
    const { oneOf } = document.components.schemas[name] as { readonly oneOf: readonly Schema[] };
    const members = oneOf.map(
      (member) => formsOf(document, member).at(-1) as { readonly properties: Record<string, Schema> },
    );
    const types = members.map(
      ({ properties }) => (properties['type'] ?? properties['message_type'])?.['const'],
    );
    expect([name, types.every((type) => typeof type === 'string')]).toEqual([name, true]);
    expect(new Set(types).size).toBe(types.length);
  }
  const openParts = propertiesOf(document.components.schemas)
    .filter(({ name }) => name === 'content' || name === 'tool_rules' || name === 'source')
    .flatMap(({ schema, at }) =>
      formsOf(document, schema).map((form) => ({ at, items: form['items'] as Schema | undefined })),
    )
    .filter(
      ({ items }) =>
        items !== undefined &&
        formsOf(document, items).every(
          (form) => form['const'] === undefined && form['properties'] === undefined,
        ),
    );
  expect(openParts).toEqual([]);
});

/** Whether a schema has an example: its own, that of its reference or members, or of its items. */
function hasExample(schema: Schema): boolean {
  return formsOf(document, schema).some(
    ({ examples, items }) =>
      examples !== undefined || (typeof items === 'object' && hasExample(items as Schema)),
  );
}

test('every body and every JSON answer has an example', () => {
  const without = operationsOf(document).flatMap(({ operationId, requestBody, responses }) =>
    [...(requestBody === undefined ? [] : [requestBody]), ...Object.values(responses)].flatMap(
      ({ content = {} }) =>
        Object.entries(content)
          .filter(([type]) => type.endsWith('json') || type === 'application/jsonl')
          .filter(
            ([, media]) =>
              media.example === undefined &&
              !hasExample(media.schema) &&
              !hasExample(media['x-line-schema'] ?? {}),
          )
          .map(([type]) => `${operationId} ${type}`),
    ),
  );
  expect(without).toEqual([]);
});

test('every example is valid by the schema beside it, also by the checks that the document cannot say', () => {
  const compile = createCompiler(document);
  const invalid: unknown[] = [];
  let count = 0;
  const walk = (part: unknown, pointer: string): void => {
    if (typeof part !== 'object' || part === null) return;
    const { examples, example } = part as {
      readonly examples?: readonly unknown[];
      readonly example?: unknown;
    };
    const given = example === undefined ? examples : [example];
    if (Array.isArray(given)) {
      const validate = compile(example === undefined ? pointer : `${pointer}/schema`);
      for (const example of given) {
        count++;
        if (!validate(example)) invalid.push({ pointer, errors: validate.errors });
      }
    }
    for (const [key, inner] of Object.entries(part)) {
      if (key !== 'examples' && key !== 'example')
        walk(inner, `${pointer}/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`);
    }
  };
  walk(document, '');
  for (const schema of z.globalRegistry._idmap.values()) {
    const { id, examples = [] } = (z.globalRegistry.get(schema) ?? {}) as {
      readonly id?: string;
      readonly examples?: readonly unknown[];
    };
    for (const example of examples) {
      const parsed = z.safeParse(schema, example);
      if (!parsed.success) invalid.push({ id, issues: parsed.error.issues });
    }
  }
  expect(invalid).toEqual([]);
  expect(count).toBeGreaterThan(50);
});

test('every answer has a schema: null where null is sent, and none where no body is sent', async () => {
  const shapes = operationsOf(document).flatMap(({ operationId, responses }) =>
    Object.entries(responses).map(([status, { content = {} }]) => ({ operationId, status, content })),
  );
  for (const { operationId, status, content } of shapes) {
    const types = Object.keys(content);
    if (status === '304' || status === '204')
      expect([operationId, status, types]).toEqual([operationId, status, []]);
    else expect([operationId, status, types.length > 0]).toEqual([operationId, status, true]);
  }
  const nulls = shapes.filter(({ content }) => content['application/json']?.schema['type'] === 'null');
  expect(nulls.map(({ operationId }) => operationId).sort()).toEqual([
    'attachTool',
    'deleteBlock',
    'deleteMcpServer',
    'deleteSchedule',
    'deleteSecret',
    'deleteTool',
    'detachTool',
    'resetMessages',
    'signOut',
    'updateToolApproval',
  ]);
  const made = await api.call('POST', '/v1/blocks', { label: 'notes' });
  expect(await api.call('DELETE', `/v1/blocks/${made.body.id}`)).toMatchObject({ status: 200, body: null });
});

test('exactly the operations with `security: []` answer without a key', async () => {
  expect(document.components.securitySchemes).toMatchObject({
    key: { type: 'http', scheme: 'bearer', description: expect.stringContaining('Authorization: Bearer') },
  });
  expect((document as unknown as { security: unknown }).security).toEqual([{ key: [] }]);
  for (const { method, path, operationId, security } of operationsOf(document)) {
    const url = path.replaceAll(/\{[^}]+\}/g, 'x');
    const { status } = await api.call(method.toUpperCase() as 'GET', url, undefined, { authorization: '' });
    const isOpen = security?.length === 0;
    expect([operationId, status === 401]).toEqual([operationId, !isOpen]);
    // The session of a browser has no other key than its cookie.
    const own = /^(retrieveSession|signOut)$/.test(operationId) ? [{ browser: [] }] : undefined;
    if (!isOpen) expect([operationId, security]).toEqual([operationId, own]);
  }
});

test('every operation is in one group, and every group says what it holds', () => {
  const groups = document.tags.map(({ name }) => name);
  const used = operationsOf(document).map(({ operationId, tags = [] }) => {
    expect([operationId, tags.length]).toEqual([operationId, 1]);
    return tags[0];
  });
  expect([...new Set(used)].sort()).toEqual(groups.toSorted());
  for (const { description } of document.tags) expect(description).toMatch(/^[A-Z].*\.$/);
});

test('every test of the API compares its answers with the document', async () => {
  const { body } = await api.call('POST', '/v1/blocks', { label: 'notes' });
  const check = (change: object) => () =>
    checkAnswer('GET', `/v1/blocks/${body.id}`, 200, { ...body, ...change });
  expect(check({})).not.toThrow();
  expect(check({ id: 'block-1' })).toThrow('must match pattern');
  expect(check({ revision: '1' })).toThrow('must be integer');
  expect(check({ description: '2026-11-30T02:00:00.000Z' })).toThrow('/description');
});
