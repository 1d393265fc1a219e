import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { answering, openHouse, recording, script, type House, type SubmittedRun } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'look',
        description: 'Looks.',
        input_schema: { type: 'object' },
        side_effects: 'none',
        return_char_limit: 1_000,
        timeout_ms: 1_000,
      },
    ],
  });
});
afterEach(() => house.close());

const SCHEMA = { type: 'object', properties: { grade: { enum: ['a', 'b'] } }, required: ['grade'] };

/** In the provider's strict subset. */
const CLOSED = { ...SCHEMA, additionalProperties: false };

async function run(submitted: SubmittedRun) {
  const { provider, sent } = recording(house);
  const batch = await house.submit([submitted]);
  await house.drive(house.worker({ provider, tools: answering() }));
  const [ended] = await house.rows<Record<string, unknown>>(
    'select state, stop_reason, result, step_number, error from run where batch_id = $1',
    [batch.id],
  );
  expect(await house.rows(`select 1 from step where state = 'errored'`)).toEqual([]);
  expect(await auditInvariants(house.database.db)).toEqual([]);
  return { ended, sent };
}

describe('a run that owes a typed result', () => {
  test('is ended by finish, beside other calls, after the model was told about a misfit', async () => {
    const { ended, sent } = await run({
      input: script(
        { text: 'Done.' },
        { tool: 'finish', args: { result: { grade: 'z' } } },
        [{ tool: 'look' }, { tool: 'finish', args: { result: { grade: 'a' } } }],
        { text: 'never said' },
      ),
      tools: ['look', 'finish'],
      result_schema: SCHEMA,
    });
    expect(ended).toMatchObject({
      state: 'completed',
      stop_reason: 'tool_rule',
      step_number: 3,
      result: { grade: 'a' },
    });
    expect(sent[0]?.tools?.[1]).toMatchObject({
      name: 'finish',
      input_schema: { properties: { result: SCHEMA } },
    });
    expect(JSON.stringify(sent[1]?.messages.at(-1))).toContain('You must call finish');
    expect(JSON.stringify(sent[2]?.messages.at(-1))).toContain('/result/grade must be');
  });

  test('is ended by finish only after all required calls', async () => {
    const finish = { tool: 'finish', args: { result: { grade: 'a' } } };
    const { ended, sent } = await run({
      input: script(finish, { tool: 'look' }, { text: 'All done.' }, finish, { text: 'never said' }),
      tools: ['look', 'finish'],
      tool_rules: [{ type: 'required_before_exit', tool_name: 'look' }],
      result_schema: SCHEMA,
    });
    expect(JSON.stringify(sent[1]?.messages.at(-1))).toContain(
      'The result is not taken yet: call look first, then finish again.',
    );
    expect(JSON.stringify(sent[3]?.messages.at(-1))).toContain('You must call finish');
    expect(ended).toMatchObject({ state: 'completed', step_number: 4, result: { grade: 'a' } });
  });

  test('without finish is ended by an answer, requested again until it fits', async () => {
    const { ended, sent } = await run({
      input: script(
        { text: 'It is an a.' },
        { text: '{"grade":"c"}' },
        { text: '```json\n{"grade":"b"}\n```' },
      ),
      result_schema: SCHEMA,
    });
    expect(ended).toMatchObject({
      state: 'completed',
      stop_reason: 'end_turn',
      step_number: 3,
      result: { grade: 'b' },
    });
    expect(sent[0]?.system?.[0]?.text).toContain(`<result_format>`);
    expect(JSON.stringify(sent[2]?.messages.at(-1))).toContain('/grade must be');
  });

  test('is not ended by a result within a text: the turn ends, and the text stays unchanged', async () => {
    const { ended } = await run({
      input: script(
        { text: 'DONE. I am finished.' },
        { text: '{"grade":"a","why":"It says DONE."}' },
        { text: 'never said' },
      ),
      result_schema: SCHEMA,
    });
    expect(ended).toMatchObject({
      state: 'completed',
      step_number: 2,
      result: { grade: 'a', why: 'It says DONE.' },
    });
  });

  test('fails if the result never comes, with the reason', async () => {
    const { ended } = await run({
      input: script({ text: '1' }, { text: '2' }, { text: '3' }, { text: '4' }),
      result_schema: SCHEMA,
    });
    expect(ended).toMatchObject({
      state: 'failed',
      stop_reason: 'loop_detected',
      step_number: 4,
      result: null,
      error: {
        message: expect.stringMatching(/no result of its schema, although asked again 3 times/) as string,
      },
    });
  });

  test('fails if the result in finish never fits, with the reason', async () => {
    const misfit = { tool: 'finish', args: { result: { grade: 'z' } } };
    const { ended } = await run({
      input: script(misfit, { text: '1' }, { text: '2' }, { text: '3' }, { text: '4' }),
      tools: ['finish'],
      result_schema: SCHEMA,
    });
    expect(ended).toMatchObject({
      state: 'failed',
      stop_reason: 'loop_detected',
      error: {
        message: expect.stringMatching(
          /^The model did not call finish as it must, although asked 3 times\. Its last call to hand it over was refused: .*\/result\/grade must be/,
        ) as string,
      },
    });
  });

  test('keeps a result of finish unchanged if none is owed', async () => {
    const { ended } = await run({
      input: script({ tool: 'finish', args: { result: ['any', { thing: null }] } }),
      tools: ['finish'],
    });
    expect(ended).toMatchObject({
      state: 'completed',
      stop_reason: 'tool_rule',
      result: ['any', { thing: null }],
    });
  });

  test('of one agent may owe different results, each by its own definition', async () => {
    const batch = await house.submit([
      { input: script({ text: '1' }), result_schema: { type: 'integer' } },
      { input: script({ text: '"x"' }), result_schema: { type: 'string' }, same_agent_as: 0 },
      { input: script({ text: 'words' }), same_agent_as: 0 },
    ]);
    await house.drive(house.worker());
    const rows = await house.rows('select result from run where batch_id = $1 order by ordinal', [batch.id]);
    expect(rows).toEqual([{ result: 1 }, { result: 'x' }, { result: null }]);
    expect(await house.rows('select 1 from definition')).toHaveLength(3);
  });

  test('owes the agent’s result if its request names none, and none if the request asks for text', async () => {
    const agent = { result_format: { schema: SCHEMA } };
    const batch = await house.submit([
      { input: script({ text: 'An a.' }, { text: '{"grade":"a"}' }), agent },
      { input: script({ text: '7' }), result_schema: { type: 'integer' }, same_agent_as: 0 },
      { input: script({ text: 'words' }), result_schema: 'none', same_agent_as: 0 },
    ]);
    await house.drive(house.worker());
    const rows = await house.rows(
      'select result, step_number from run where batch_id = $1 order by ordinal',
      [batch.id],
    );
    expect(rows).toEqual([
      { result: { grade: 'a' }, step_number: 2 },
      { result: 7, step_number: 1 },
      { result: null, step_number: 1 },
    ]);
  });

  test('of its agent that never comes fails the run in the same way', async () => {
    const { ended } = await run({
      input: script({ text: '1' }, { text: '2' }, { text: '3' }, { text: '4' }),
      agent: { result_format: { schema: { type: 'object' } } },
    });
    expect(ended).toMatchObject({ state: 'failed', stop_reason: 'loop_detected', result: null });
  });
});

describe('a result whose schema is proven', () => {
  test('is given by the first answer, whatever the model wants to write', async () => {
    const input = script({ text: 'It is an a.' }, { text: '{"grade":"a"}' });
    const { ended, sent } = await run({ input, result_schema: CLOSED });
    expect(ended).toMatchObject({ state: 'completed', stop_reason: 'end_turn', step_number: 1 });
    expect(ended?.['result']).toEqual({ grade: expect.stringMatching(/^[ab]$/) as string });
    expect(sent[0]).toMatchObject({ output_config: { format: { type: 'json_schema', schema: CLOSED } } });
    expect(sent[0]?.system?.[0]?.text).toContain('JSON of the output format');
    expect(sent[0]?.system?.[0]?.text).not.toContain('"grade"');
    const unproven = await run({ input, result_schema: SCHEMA });
    expect(unproven.ended).toMatchObject({ step_number: 2, result: { grade: 'a' } });
    expect(unproven.sent[0]).not.toHaveProperty('output_config');
    expect(await house.rows('select strict from definition order by strict::text nulls last')).toEqual([
      { strict: { tools: [], result_format: true } },
      { strict: null },
    ]);
  });

  test('is handed over by the first call of finish, with references too', async () => {
    const grade = { enum: ['a', 'b'] };
    for (const schema of [
      CLOSED,
      { ...CLOSED, properties: { grade: { $ref: '#/$defs/grade' } }, $defs: { grade } },
    ]) {
      const { ended, sent } = await run({
        input: script({ tool: 'finish', args: { result: { grade: 'z' } } }, { text: 'never said' }),
        tools: ['look', 'finish'],
        result_schema: schema,
      });
      expect(ended).toMatchObject({ state: 'completed', stop_reason: 'tool_rule', step_number: 1 });
      expect(ended?.['result']).toEqual({ grade: expect.stringMatching(/^[ab]$/) as string });
      expect(sent[0]?.tools?.map((tool) => tool.strict)).toEqual([undefined, true]);
      expect(sent[0]).not.toHaveProperty('output_config');
    }
  });

  test('keeps the choice of its definition, whatever this release would choose', async () => {
    const { provider, sent } = recording(house);
    const batch = await house.submit([
      { input: script({ text: 'An a.' }, { text: '{"grade":"a"}' }), result_schema: CLOSED },
    ]);
    // As a release without a proof for this schema has stored it.
    await house.rows('update definition set strict = null');
    await house.drive(house.worker({ provider, tools: answering() }));
    const rows = await house.rows('select result, step_number from run where batch_id = $1', [batch.id]);
    expect(rows).toEqual([{ result: { grade: 'a' }, step_number: 2 }]);
    expect(sent.filter((request) => 'output_config' in request)).toEqual([]);
    expect(sent[0]?.system?.[0]?.text).toContain(JSON.stringify(CLOSED));
  });

  test('is checked here all the same: a cut-off answer fails the run', async () => {
    const { ended } = await run({ input: '⟦sim:maxTokensText⟧', result_schema: CLOSED });
    expect(ended).toMatchObject({ state: 'failed', stop_reason: 'max_tokens', result: null });
  });
});
