import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import { csvRequests, templateOf, variablesOf, type CsvOptions } from '../src/input/csv-requests.ts';

const AGENT = 'agent-01a21d53-c681-739c-ace2-2cda47da7f60';
const PLAIN: CsvOptions = { template: undefined, agentId: undefined, customId: undefined, delimiter: ',' };
const ROUTE: CsvOptions = {
  ...PLAIN,
  template: 'Which team answers {{ customer }}? {{ text }}',
  agentId: AGENT,
};

async function read(text: string, options: CsvOptions, lines: number[] = []): Promise<object[]> {
  const requests: object[] = [];
  // In bytes of one: nothing depends on how a pipe cuts a file.
  const bytes = async function* () {
    for (const byte of Buffer.from(text)) yield await Promise.resolve(Buffer.of(byte));
  };
  for await (const request of csvRequests({ name: 'rows.csv', bytes: bytes(), lines }, options))
    requests.push(request);
  return requests;
}

test('a row is an input of the template, with its number as custom id', async () => {
  expect(await read('\uFEFFcustomer,text\nAnn,"Hello,\nBöb"\nCem,x\n', ROUTE)).toEqual([
    { custom_id: 'row-1', variables: { customer: 'Ann', text: 'Hello,\nBöb' } },
    { custom_id: 'row-2', variables: { customer: 'Cem', text: 'x' } },
  ]);
});

test('--custom-id names the column of the custom ids', async () => {
  const rows = await read('ticket;customer;text\r\nt-7;Ann;x\r\n', {
    ...ROUTE,
    customId: 'ticket',
    delimiter: ';',
  });
  expect(rows).toMatchObject([{ custom_id: 't-7', variables: { ticket: 't-7' } }]);
});

test('rows without a template are requests', async () => {
  expect(await read(`custom_id,agent_id,input,max_steps\na,${AGENT},Hi,3\nb,${AGENT},Ho,\n`, PLAIN)).toEqual([
    { custom_id: 'a', agent_id: AGENT, input: 'Hi', max_steps: 3 },
    { custom_id: 'b', agent_id: AGENT, input: 'Ho' },
  ]);
});

test.each<[string, string, Partial<CsvOptions>, RegExp]>([
  [
    'a missing column',
    'customer,note\nAnn,x\n',
    ROUTE,
    /needs the column text, and rows\.csv has customer and note/,
  ],
  ['another delimiter', 'customer;text\nAnn;x\n', ROUTE, /Is --delimiter missing\?/],
  [
    'no column of the custom ids',
    'customer,text\na,b\n',
    { ...ROUTE, customId: 'id' },
    /needs the column id/,
  ],
  ['a row with too many values', 'customer,text\na,b\nc,d,e\n', ROUTE, /is no CSV file: .*line 3/],
  ['an open quote', 'customer,text\na,"b\n', ROUTE, /is no CSV file: .*Quote/],
  ['no row', 'customer,text\n', ROUTE, /rows\.csv has no rows/],
  ['a column twice', 'customer,text,text\na,b,c\n', ROUTE, /has two columns text/],
  [
    'no column of a request',
    'customer\nAnn\n',
    PLAIN,
    /need the column input and agent_id, .* has customer\. Add --template 'text with \{\{ customer \}\}' and --agent ID, or these columns/,
  ],
  ['no agent', 'input\nHi\n', PLAIN, /need the column agent_id, .* Add --agent ID, or these columns/],
  [
    'a number that is none',
    `agent_id,input,max_steps\n${AGENT},"b\nc",3\n${AGENT},d,many\n`,
    PLAIN,
    /^Line 4 of rows\.csv: the column max_steps has 'many', which is no number\. Correct it/,
  ],
  [
    'a column that is no field',
    `agent_id,input,mood\n${AGENT},b,c\n`,
    PLAIN,
    /mood .*is no field of a request/,
  ],
])('%s is refused with a sentence', async (_, text, options, message) => {
  await expect(read(text, { ...PLAIN, ...options })).rejects.toThrow(message);
});

test.each(['\n', '\r\n'])(
  'rows know their lines, also behind empty lines and values of several lines: %j',
  async (end) => {
    const lines: number[] = [];
    const text = ['customer,text', 'Ann,x', '', `Bob,"y${end}z"`, 'Cem,x', ''].join(end);
    await read(text, ROUTE, lines);
    expect(lines).toEqual([2, 4, 6]);
  },
);

test('a template needs an agent', () => {
  expect(() => templateOf({ ...ROUTE, agentId: undefined })).toThrow(/Add --agent ID/);
});

test('variables of a template are those that it does not set itself', () => {
  const template =
    "{% assign a = b %}{% for row in rows %}{{ row.x }}{% endfor %}{{ a }} {{- größe | upcase }} {{ 'text' }} {{ b.c }}";
  expect(variablesOf(template)).toEqual(['größe', 'b']);
});
