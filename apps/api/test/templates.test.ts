import type { Database, DB } from '@nightshift/db';
import { Kysely, PostgresDialect } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildServer } from '../src/index.ts';
import { API_KEY, countRows, createAgent, openApi, UNKNOWN_UUID, type TestApi } from './api.ts';

let api: TestApi;
let agent_id = '';
beforeAll(async () => {
  api = await openApi();
  agent_id = await createAgent(api);
});
afterAll(() => api.close());

const submit = (body: object) => api.call('POST', '/v1/batches', body);
const map = (input: string, inputs: readonly object[], more: object = {}) =>
  submit({ template: { agent_id, input, ...more }, inputs });
const one = (input: string, variables: object) => map(input, [{ custom_id: 'only', variables }]);

interface Message {
  readonly custom_id: string | null;
  readonly content: readonly { readonly text: string }[];
}

async function textsOf(jobId: string, query = ''): Promise<(string | undefined | null)[][]> {
  const { body } = await api.call('GET', `/v1/batches/${jobId}/messages?order=asc${query}`);
  return body.messages.map(({ custom_id, content }: Message) => [custom_id, content[0]?.text]);
}

describe('a template', () => {
  test("makes a run per input, each in its own conversation, under the caller's id", async () => {
    const { status, body } = await map(
      'Route this {% if urgent %}URGENT {% endif %}ticket of {{ from.name | upcase }}: {{ text }}',
      [
        { custom_id: 't-1', variables: { urgent: true, from: { name: 'Ann' }, text: 'Help!' } },
        { custom_id: 't-2', variables: { urgent: false, from: { name: 'Bob' }, text: '<b>$& {{ x }}' } },
      ],
      { max_steps: 2 },
    );
    expect([status, body.counts.total]).toEqual([200, 2]);
    expect(await textsOf(body.id)).toEqual([
      ['t-1', 'Route this URGENT ticket of ANN: Help!'],
      ['t-2', 'Route this ticket of BOB: <b>$& {{ x }}'],
    ]);
    const runs = await api.call('GET', `/v1/runs?batch_id=${body.id}&order=asc`);
    expect(runs.body).toMatchObject([
      { agent_id, custom_id: 't-1', state: 'ready', limits: { max_steps: 2 } },
      { agent_id, custom_id: 't-2', state: 'ready', limits: { max_steps: 2 } },
    ]);
    expect(runs.body[0].conversation_id).not.toBe(runs.body[1].conversation_id);
    expect((await api.call('GET', `/v1/runs/${runs.body[1].id}`)).body.custom_id).toBe('t-2');
    expect((await api.call('GET', `/v1/agents/${agent_id}/messages`)).body).toEqual([]);
  });

  test("lets its runs take turns in the agent's conversation", async () => {
    const inputs = ['a', 'b'].map((custom_id) => ({ custom_id, variables: {} }));
    const { body } = await map('Go on.', inputs, { conversation: 'agent' });
    const runs = await api.call('GET', `/v1/runs?batch_id=${body.id}&order=asc`);
    expect(runs.body.map((run: { state: string }) => run.state)).toEqual(['ready', 'queued']);
  });

  test.each([
    [
      'structures print as JSON',
      '{{ a }} {{ b }}',
      { a: { x: 1 }, b: [1, { y: null }] },
      '{"x":1} [1,{"y":null}]',
    ],
    ['null and false are values', '[{{ a }}] {{ b }}', { a: null, b: false }, '[] false'],
    ['input text is never parsed as a template', '{{ a }}', { a: '{% raw %}{{ a }}' }, '{% raw %}{{ a }}'],
    [
      'filters match properties of list elements',
      "{{ a | where: 'x', 1 }} {{ a | find: 'x', 2 }}",
      { a: [{ x: 1 }, { x: 2 }] },
      '[{"x":1}] {"x":2}',
    ],
    [
      'structures print as JSON in every tag',
      '{{ a | raw }}{% echo a %}{% cycle a %}',
      { a: [1, 2] },
      '[1,2][1,2][1,2]',
    ],
    [
      'texts and lists are searchable',
      "{{ a | replace: 'l', 'L' }} {{ a | remove_last: 'l' }} {{ a | split: 'll' }} " +
        "{% if a contains 'ell' and b contains 'x' %}yes{% endif %}",
      { a: 'hello', b: ['x'] },
      'heLLo helo ["he","o"] yes',
    ],
    ['NUL is dropped', '{{ a }}', { a: 'x\u0000y' }, 'xy'],
  ])('%s', async (_name, input, variables, text) => {
    const { body } = await one(input, variables);
    expect(await textsOf(body.id)).toEqual([['only', text]]);
  });
});

describe('a result is found by custom_id', () => {
  test('in the messages and runs of a batch', async () => {
    const { body } = await submit({
      requests: [
        { agent_id, input: 'first', custom_id: 'a/1', conversation: 'isolated' },
        { agent_id, input: 'second', custom_id: 'a/2', conversation: 'isolated' },
        { agent_id, input: 'third', conversation: 'isolated' },
      ],
    });
    expect(await textsOf(body.id)).toEqual([
      ['a/1', 'first'],
      ['a/2', 'second'],
      [null, 'third'],
    ]);
    expect(await textsOf(body.id, '&custom_id=a%2F2')).toEqual([['a/2', 'second']]);
    expect(await textsOf(body.id, '&custom_id=unknown')).toEqual([]);
    const runs = await api.call('GET', `/v1/runs?batch_id=${body.id}&custom_id=a%2F1`);
    expect(runs.body).toMatchObject([{ custom_id: 'a/1', ordinal: 0 }]);
  });

  test('in runs only together with its batch', async () => {
    const answer = await api.call('GET', '/v1/runs?custom_id=a');
    expect([answer.status, answer.body.errors[0].path]).toEqual([422, '?custom_id']);
  });
});

/** Returns a short template for a list of 2^26 lists around `leaf`. */
const nested = (leaf: string): string =>
  [
    `{% assign none = '' | split: '' %}{% assign l = none | push: ${leaf} %}`,
    ...Array<string>(26).fill('{% assign l = none | push: l | push: l %}'),
  ].join('');

/** Two equal lists of 2^26 lists each. */
const LISTS = [
  "{% assign none = '' | split: '' %}{% assign a = none %}{% assign b = none %}",
  ...Array<string>(26).fill(
    '{% assign a = none | push: a | push: a %}{% assign b = none | push: b | push: b %}',
  ),
].join('');

describe('an unusable template stores nothing', () => {
  const good = { custom_id: 'good', variables: { a: 'x' } };
  const template = () => ({ agent_id, input: 'Say {{ a }}.' });

  test.each<[string, () => object, number, string, RegExp]>([
    [
      'a variable missing in an input',
      () => ({ template: template(), inputs: [good, { custom_id: 'bad', variables: { b: 1 } }] }),
      422,
      '/inputs/1/variables',
      /undefined variable: a/,
    ],
    [
      'a missing member',
      () => ({ template: { agent_id, input: '{{ a.b.c }}' }, inputs: [good] }),
      422,
      '/inputs/0/variables',
      /undefined variable: a.b/,
    ],
    [
      'a member of a prototype',
      () => ({ template: { agent_id, input: '{{ a.constructor }}' }, inputs: [good] }),
      422,
      '/inputs/0/variables',
      /undefined variable/,
    ],
    [
      'an unknown filter',
      () => ({ template: { agent_id, input: '{{ a | shout }}' }, inputs: [good] }),
      422,
      '/template/input',
      /undefined filter: shout/,
    ],
    ...['where_exp', 'reject_exp', 'group_by_exp', 'has_exp', 'find_exp', 'find_index_exp'].map(
      (filter): [string, () => object, number, string, RegExp] => [
        `a filter that takes an expression: ${filter}`,
        () => ({ template: { agent_id, input: `{{ a | ${filter}: 'x', 'x == 1' }}` }, inputs: [good] }),
        422,
        '/template/input',
        new RegExp(`undefined filter: ${filter}`),
      ],
    ),
    [
      'an unclosed tag',
      () => ({ template: { agent_id, input: '{% if a %}' }, inputs: [good] }),
      422,
      '/template/input',
      /not closed/,
    ],
    [
      'a file of the server',
      () => ({ template: { agent_id, input: "{% include '/etc/passwd' %}" }, inputs: [good] }),
      422,
      '/template/input',
      /include.* not found/,
    ],
    [
      'an endless loop',
      () => ({ template: { agent_id, input: '{% for i in (1..99999999) %}{% endfor %}' }, inputs: [good] }),
      422,
      '/inputs/0/variables',
      /limit exceeded/,
    ],
    ...(
      [
        ['a text', '{% for i in (1..20) %}{{ a }}{% endfor %}', 'x'.repeat(1_000_000)],
        [
          'a captured text',
          '{% capture b %}{% for i in (1..20) %}{{ a }}{% endfor %}{% endcapture %}b',
          'x'.repeat(1_000_000),
        ],
        ['a list', '{% for i in a %}{{ a }}{% endfor %}', Array<string>(200).fill('x'.repeat(1_000))],
        [
          'a list beside an unescaped list',
          '{% for i in a %}{{ a | raw }}{% endfor %}',
          Array(5_000).fill('x'),
        ],
        ['a list of lists that hold each other twice', `${nested('a')}{{ l }}`, 'x'.repeat(1_000)],
      ] as const
    ).map(([what, input, a]): [string, () => object, number, string, RegExp] => [
      `${what}, written over and over`,
      () => ({ template: { agent_id, input }, inputs: [{ custom_id: 'x', variables: { a } }] }),
      422,
      '/inputs/0/variables',
      /limit exceeded/,
    ]),
    [
      'a filter with a long path for many elements',
      () => ({
        template: { agent_id, input: '{{ a | map: path }}' },
        inputs: [{ custom_id: 'x', variables: { a: Array(20_000).fill(1), path: '.'.repeat(20_000) } }],
      }),
      422,
      '/inputs/0/variables',
      /more than 2 s/,
    ],
    [
      'a comparison of lists that hold each other twice',
      () => ({ template: { agent_id, input: `${LISTS}{% if a == b %}x{% endif %}` }, inputs: [good] }),
      422,
      '/inputs/0/variables',
      /more than 2 s/,
    ],
    ...[
      '{% if text contains pattern %}x{% endif %}',
      ...['split', 'remove', 'remove_first', 'remove_last'].map((name) => `{{ text | ${name}: pattern }}`),
      ...['replace', 'replace_first', 'replace_last'].map((name) => `{{ text | ${name}: pattern, 'x' }}`),
      '{{ list | split: pattern }}',
      '{% if text contains list %}x{% endif %}',
    ].map((input): [string, () => object, number, string, RegExp] => [
      `a search for a long text in a long text: ${input}`,
      () => {
        const pattern = `b${'a'.repeat(20_000)}`;
        const text = `a${pattern}`.repeat(50);
        return {
          template: { agent_id, input },
          inputs: [{ custom_id: 'x', variables: { text, pattern, list: [text, text] } }],
        };
      },
      422,
      '/inputs/0/variables',
      /^search limit exceeded/,
    ]),
    [
      'a variable with a long name',
      () => ({ template: { agent_id, input: `{{ a['x${'😀'.repeat(1_000)}'] }}` }, inputs: [good] }),
      422,
      '/inputs/0/variables',
      /^undefined variable: a\.x(😀){88}\uFFFD… \(custom_id 'good'\)$/u,
    ],
    [
      'a template of very many tags',
      () => ({ template: { agent_id, input: '{{ a }}'.repeat(200_000) }, inputs: [good] }),
      422,
      '/template/input',
      /more than 2 s/,
    ],
    [
      'a template that renders to nothing',
      () => ({
        template: { agent_id, input: '{{ a }}' },
        inputs: [{ custom_id: 'x', variables: { a: ' ' } }],
      }),
      422,
      '/inputs/0/variables',
      /to an empty text/,
    ],
    [
      'a repeated custom_id',
      () => ({ template: template(), inputs: [good, good] }),
      422,
      '/inputs/1/custom_id',
      /same as the custom_id of \/inputs\/0/,
    ],
    [
      'two custom_ids with the same stored form',
      () => ({ template: template(), inputs: [good, { ...good, custom_id: 'go\u0000od' }] }),
      422,
      '/inputs/1/custom_id',
      /same as the custom_id of/,
    ],
    [
      'an input without a custom_id',
      () => ({ template: template(), inputs: [{ variables: {} }] }),
      422,
      '/inputs/0/custom_id',
      /./,
    ],
    [
      'an unknown agent',
      () => ({ template: { ...template(), agent_id: `agent-${UNKNOWN_UUID}` }, inputs: [good] }),
      404,
      '/template/agent_id',
      /no agent/,
    ],
    ['no inputs', () => ({ template: template(), inputs: [] }), 422, '/inputs', /must not be empty/],
    ['absent inputs', () => ({ template: template() }), 422, '/inputs', /is missing/],
    [
      'inputs without a template',
      () => ({ inputs: [good] }),
      422,
      '/requests',
      /is required, unless there is a template/,
    ],
    [
      'inputs beside requests',
      () => ({ requests: [{ agent_id, input: 'x' }], inputs: [good] }),
      422,
      '/inputs',
      /needs a template/,
    ],
    [
      'a template beside requests',
      () => ({ requests: [{ agent_id, input: 'x' }], template: template(), inputs: [good] }),
      422,
      '/requests',
      /cannot be combined with a template/,
    ],
  ])('%s', async (_name, make, status, path, message) => {
    const before = await countRows(api);
    const answer = await submit(make());
    expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([status, path]);
    expect(answer.body.errors[0].message).toMatch(message);
    expect(await countRows(api)).toEqual(before);
  });

  test('names every wrong input, up to a hundred', async () => {
    const inputs = Array.from({ length: 300 }, (_, index) => ({
      custom_id: `${index}`,
      variables: index % 2 === 0 ? { a: 1 } : {},
    }));
    const { body } = await map('{{ a }}', inputs);
    expect(body.errors).toHaveLength(100);
    expect(body.errors_total).toBeNull();
    expect(body.detail).toContain('Checking stopped after 100 errors; there may be more.');
    expect(body.errors.slice(0, 2).map((error: { path: string }) => error.path)).toEqual([
      '/inputs/1/variables',
      '/inputs/3/variables',
    ]);
    expect(body.detail).toMatch(
      /^\/inputs\/1\/variables: undefined variable: a.* \(custom_id '1'\)\. Nothing was stored\. /,
    );
    expect(body.detail.match(/stored/g)).toHaveLength(1);
  });

  test('names its own fields, not fields of absent requests', async () => {
    const inputs = [{ custom_id: 'only', variables: {} }];
    const unknown = await map('Go.', inputs, { agent_id: `agent-${UNKNOWN_UUID}` });
    expect(unknown.body.errors).toMatchObject([{ path: '/template/agent_id' }]);
    const [tool] = (await api.call('GET', `/v1/agents/${agent_id}/tools`)).body;
    const twin = await map('Go.', inputs, { client_tools: [{ name: tool.name }] });
    expect([twin.status, twin.body.errors]).toMatchObject([422, [{ path: '/template/client_tools' }]]);
  });

  test('that renders to more than a body could hold', async () => {
    const inputs = Array.from({ length: 300 }, (_, index) => ({ custom_id: `${index}`, variables: {} }));
    const before = await countRows(api);
    const answer = await map('x'.repeat(1_000_000), inputs);
    expect([answer.status, answer.body.code]).toEqual([413, 'payload_too_large']);
    expect(await countRows(api)).toEqual(before);
  });
});

test('10,000 inputs of an agent take one transaction and a bounded number of statements', async () => {
  const statements: string[] = [];
  const counted: Database = new Kysely<DB>({
    dialect: new PostgresDialect({ pool: api.database.pool }),
    log: (event) => {
      statements.push(event.query.sql);
    },
  });
  const app = buildServer({
    db: counted,
    bell: { ring: () => Promise.resolve() },
    apiKey: API_KEY,
    model: 'simulator',
  });
  await app.ready();
  const mapped = await createAgent(api);
  statements.length = 0;
  const answer = await app.inject({
    method: 'POST',
    url: '/v1/batches',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    payload: JSON.stringify({
      template: { agent_id: mapped, input: 'Ticket {{ number }}: {{ text }}' },
      inputs: Array.from({ length: 10_000 }, (_, number) => ({
        custom_id: `ticket-${number}`,
        variables: { number, text: `Text of ticket ${number}.` },
      })),
    }),
  });
  expect(answer.statusCode).toBe(200);
  const { id, counts } = answer.json<{ id: string; counts: { total: number } }>();
  expect(counts.total).toBe(10_000);
  expect(statements.length).toBeLessThanOrEqual(22);
  expect(statements.filter((statement) => statement === 'begin')).toHaveLength(1);
  expect(await textsOf(id, '&custom_id=ticket-9999')).toEqual([
    ['ticket-9999', 'Ticket 9999: Text of ticket 9999.'],
  ]);
  const { rows } = await api.database.pool.query(
    `select count(distinct conversation_id)::int as conversations, count(*) filter (where state = 'ready')::int as ready
       from run where agent_id = $1`,
    [mapped.slice('agent-'.length)],
  );
  expect(rows).toEqual([{ conversations: 10_000, ready: 10_000 }]);
});
