import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type {} from '../../../../test/global-setup.ts';
import { call, openHouse, type House } from './house.ts';

let house: House;
beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'echo',
        description: 'Says it again.',
        input_schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
        side_effects: 'none',
        return_char_limit: 1000,
        timeout_ms: 1000,
      },
    ],
  });
  // Whatever holds this word cannot be stored: a stand-in for what nobody has thought of yet.
  await house.rows(`
    create function refuse_arsenic() returns trigger language plpgsql as $$
    begin
      if new.role = tg_argv[0] and new.content::text like '%arsenic%' then raise exception 'no arsenic' using errcode = '22P05'; end if;
      return new;
    end $$`);
});
afterAll(() => house.close());

test('a line that cannot be stored ends its own run as poison, and every other line of the chunk is applied', async () => {
  await house.rows(
    `create trigger arsenic before insert on message for each row execute function refuse_arsenic('assistant')`,
  );
  const batch = await house.submit(
    Array.from({ length: 40 }, (_, index) => ({
      input: `⟦sim:fixed?text=${index === 17 ? 'arsenic' : 'lace'}⟧`,
    })),
  );
  await house.drive(house.worker());
  const ends = await house.rows<{ ordinal: number; state: string; stop_reason: string }>(
    'select ordinal, state, stop_reason from run where batch_id = $1 order by ordinal',
    [batch.id],
  );
  expect(ends.filter((run) => run.state !== 'completed')).toEqual([
    { ordinal: 17, state: 'failed', stop_reason: 'poison' },
  ]);
  const aside = await house.rows('select custom_id is not null as named, reason from result_line');
  expect(aside).toEqual([{ named: true, reason: 'unreadable' }]);
  const [error] = await house.rows<{ error: { message: string } }>(
    'select error from run where batch_id = $1 and ordinal = 17',
    [batch.id],
  );
  expect(error?.error.message).not.toContain('arsenic');
  await house.rows('drop trigger arsenic on message');
});

test('a run whose tool results cannot be stored ends alone, its calls answered with errors', async () => {
  await house.rows(
    `create trigger arsenic before insert on message for each row execute function refuse_arsenic('user')`,
  );
  const batch = await house.submit(
    Array.from({ length: 6 }, (_, index) => ({ input: call('echo', { text: `${index}` }), tools: ['echo'] })),
  );
  const made: string[] = [];
  const worker = house.worker({
    tools: {
      runCalls: (calls) => {
        made.push(...calls.map((one) => one.call_id));
        return Promise.resolve(
          calls.map((one) => ({
            call_id: one.call_id,
            status: 'succeeded' as const,
            result: (one.arguments as { text: string }).text === '3' ? 'arsenic' : 'lace',
            duration_ms: 1,
            started: true,
          })),
        );
      },
    },
  });
  // A chunk that fails rests before it is tried again; the test does not.
  await house.rows(`
    create function hurry() returns trigger language plpgsql as $$ begin new.next_due_at := app_now(); return new; end $$`);
  await house.rows('create trigger hurry before update on run_chunk for each row execute function hurry()');
  await house.drive(worker);
  const ends = await house.rows<{ ordinal: number; stop_reason: string }>(
    'select ordinal, stop_reason from run where batch_id = $1 order by ordinal',
    [batch.id],
  );
  expect(ends.map((run) => run.stop_reason)).toEqual([
    'end_turn',
    'end_turn',
    'end_turn',
    'poison',
    'end_turn',
    'end_turn',
  ]);
  expect(made).toHaveLength(6);
  const [last] = await house.rows<{ content: { type: string; is_error?: boolean }[] }>(
    'select content from message where run_id = $1 order by seq desc limit 1',
    [batch.run_ids[3]],
  );
  expect(last?.content).toMatchObject([{ type: 'tool_result', is_error: true }]);
});
