import { openPythonJail } from '@nightshift/python-jail';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgent, openApi, type TestApi } from './api.ts';

const problem = await openPythonJail().then(
  (jail) => jail.close(),
  (error: unknown) => String(error),
);
if (problem !== undefined) process.stderr.write(`Uploads of Python are not tested: ${problem}\n`);

let api: TestApi;
beforeAll(async () => {
  api = await openApi();
});
afterAll(() => api.close());

const sourceOf = (name: string): string => `
from typing import Optional

def ${name}(place: str, days: Optional[int] = None) -> dict:
    """Says how the weather is.

    Args:
        place (str): A town.
        days: How many days.
    """
    return {"place": place}
`;

describe.skipIf(problem !== undefined)('uploaded Python', () => {
  test('is created without a schema: annotations and docstring describe it', async () => {
    const answer = await api.call('POST', '/v1/tools/', {
      source_code: sourceOf('weather'),
      network: ['api.example.com'],
      tags: ['mine'],
    });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      name: 'weather',
      kind: 'python',
      tool_type: 'custom',
      source_type: 'python',
      side_effects: 'once',
      network: ['api.example.com'],
      tags: ['mine'],
      description: 'Says how the weather is.',
      json_schema: {
        name: 'weather',
        parameters: {
          type: 'object',
          properties: {
            place: { type: 'string', description: 'A town.' },
            days: { type: 'integer', description: 'How many days.' },
          },
          required: ['place'],
        },
      },
    });
    expect(answer.body.source_code).toBe(sourceOf('weather'));
    const { rows } = await api.database.pool.query<{ code: string; source: object }>(
      `select c.code, t.source from tool t join tool_code c on c.sha256 = t.source->>'code_sha256' where t.name = 'weather'`,
    );
    expect(rows[0]).toMatchObject({
      code: sourceOf('weather'),
      source: { parameters: ['place', 'days'], network: ['api.example.com'] },
    });
  });

  test('is replaced under the same id, and read again when its source changes', async () => {
    const first = await api.call('PUT', '/v1/tools/', {
      source_type: 'python',
      source_code: sourceOf('again'),
    });
    const path = `/v1/tools/${first.body.id as string}`;
    const tagged = await api.call('PATCH', path, { tags: ['x'] });
    expect(tagged.body).toEqual({ ...first.body, tags: ['x'] });
    const changed = await api.call('PATCH', path, {
      source_code: 'def again(town: str):\n    "Asks."\n    return town\n',
    });
    expect(changed.body).toMatchObject({
      id: first.body.id,
      description: 'Asks.',
      json_schema: { parameters: { properties: { town: { type: 'string' } }, required: ['town'] } },
    });
    const unnamed = await api.call('PATCH', path, { source_code: 'def other(town: str): pass' });
    expect(unnamed.status).toBe(400);
    expect(unnamed.body.detail).toMatch(/there is no function again/);
    const untyped = await api.call('PATCH', path, { source_code: 'def again(town): pass' });
    expect(untyped.body.detail).toMatch(/line 1, column 11: the parameter town has no type/);
  });

  test.each([['json_schema'], ['args_json_schema']])(
    'takes the schema of %s before its annotations',
    async (field) => {
      const schema = {
        type: 'object',
        properties: { to: { type: 'string', enum: ['a'] } },
        required: ['to'],
      };
      const answer = await api.call('POST', '/v1/tools/', {
        source_code: 'def first(a): pass\ndef fax(to, kind=None): pass',
        description: 'Sends a fax.',
        [field]: field === 'json_schema' ? { name: 'fax', parameters: schema } : schema,
      });
      expect(answer.body).toMatchObject({
        name: 'fax',
        description: 'Sends a fax.',
        json_schema: { parameters: schema },
      });
    },
  );

  test('can be given to an agent, whose next batch has it frozen in its definition', async () => {
    const { body } = await api.call('POST', '/v1/tools/', { source_code: sourceOf('frozen_python') });
    const agentId = await createAgent(api, { tool_ids: [body.id as string] });
    await api.call('POST', '/v1/messages/batches', { requests: [{ agent_id: agentId, input: 'Hello' }] });
    const { rows } = await api.database.pool.query<{ tools: { name: string; source?: object }[] }>(
      'select tools from definition',
    );
    expect(rows.flatMap(({ tools }) => tools).find(({ name }) => name === 'frozen_python')).toMatchObject({
      kind: 'python',
      source: { code_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string },
    });
  });

  const schema = { type: 'object', properties: { x: { type: 'string' } }, required: [] };
  test.each<[string, object, string, RegExp]>([
    ['with a syntax error', { source_code: 'def f(:' }, '/source_code', /line 1, column 7/],
    [
      'with a package',
      { source_code: 'def f():\n    import requests' },
      '/source_code',
      /line 2, column 5: requests/,
    ],
    [
      'with pip_requirements',
      { source_code: 'def f(): pass', pip_requirements: [{ name: 'requests' }] },
      '/pip_requirements',
      /empty/,
    ],
    [
      "with Letta's agent",
      { source_code: 'def f(agent_state): pass' },
      '/source_code',
      /agent_state.*arguments/,
    ],
    ['without a type', { source_code: 'def f(a): pass' }, '/source_code', /annotate it, or send json_schema/],
    [
      'with another function than its name',
      { source_code: 'def f(): pass', json_schema: { name: 'g' } },
      '/source_code',
      /no function g/,
    ],
    [
      'with a property that is no parameter',
      { source_code: 'def f(): pass', json_schema: { name: 'f', parameters: schema } },
      '/json_schema/parameters',
      /property x, which is no parameter of f/,
    ],
    [
      'with a parameter that the schema does not require',
      { source_code: 'def f(x): pass', args_json_schema: schema },
      '/args_json_schema',
      /must require x/,
    ],
    [
      'with a name of other letters',
      { source_code: 'def f(): pass\ndef für(): pass' },
      '/source_code',
      /1 to 64/,
    ],
    [
      'with the name of a built-in tool in a text',
      { source_code: 'def memory_insert(): pass\n"""\ndef f(): pass\n"""' },
      '/source_code',
      /built-in/,
    ],
    ['over 256 KB', { source_code: `def f(): pass\n${' '.repeat(262_144)}` }, '/source_code', /262144/],
    ['with an unknown secret', { source_code: 'def f(): pass', secrets: ['NO_SUCH'] }, '/secrets', /NO_SUCH/],
  ])('%s is refused, and the field is named', async (_what, body, path, told) => {
    const answer = await api.call('POST', '/v1/tools/', body);
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({ errors: [{ path }] });
    expect(answer.body.detail).toMatch(told);
  });
});

test('without a jail, Python is refused with the reason and the next step', async () => {
  const without = await openApi({
    openPython: async () => {
      throw new Error('bwrap is not installed; install the package bubblewrap');
    },
  });
  const answer = await without.call('POST', '/v1/tools/', { source_code: 'def fax(to: str): pass' });
  expect(answer.status).toBe(400);
  expect(answer.body.detail).toMatch(/'fax'.*install the package bubblewrap.*modules/);
  const builtIn = await without.call('POST', '/v1/tools/', { source_code: 'def rethink_memory(): pass' });
  expect(builtIn.status).toBe(200);
  await without.close();
});
