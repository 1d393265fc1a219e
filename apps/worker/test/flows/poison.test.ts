import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest';
import type {} from '../../../../test/global-setup.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { answering, call, openHouse, type House } from './house.ts';

let house: House;
beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'), {
    // Lines of a file in the order of the runs.
    simulator: { settings: { result_order: 'submitted' } },
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
  // Rows with this word cannot be stored: a stand-in for unforeseen faults.
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

/** Replaces the model of result lines by an unknown one. */
async function* otherModel(chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  yield Buffer.from(
    Buffer.concat(all).toString().replaceAll('"model":"claude-haiku-4-5"', '"model":"nameless"'),
  );
}

test('a line set aside is priced like others: by the definition if its model has no price', async () => {
  await house.rows(
    `create trigger arsenic before insert on message for each row execute function refuse_arsenic('assistant')`,
  );
  const batch = await house.submit([
    { input: '⟦sim:fixed?text=arsenic⟧' },
    { input: '⟦sim:fixed?text=lace⟧' },
  ]);
  const worker = house.worker();
  const { provider } = worker;
  const renamed: ProviderPort = {
    ...provider,
    async streamResults(...asked) {
      const results = await provider.streamResults(...asked);
      return results.outcome === 'open' ? { ...results, chunks: otherModel(results.chunks) } : results;
    },
  };
  await house.drive({ ...worker, provider: renamed });
  const costs = await house.rows(
    `select cost_nanousd > 0 as paid from step s join run r on r.id = s.run_id where r.batch_id = $1`,
    [batch.id],
  );
  expect(costs).toEqual([{ paid: true }, { paid: true }]);
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
  // A failed chunk rests before its retry; the test does not.
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

describe('a chunk whose transaction exceeds the statement timeout', () => {
  /** Slows statements that store more than `rows_max` messages of this role, or the word "slow". */
  const limit = async (role: string, rows_max: number): Promise<void> => {
    await house.rows(
      `create function take_long() returns trigger language plpgsql as $$
       begin
         if (select count(*) > ${rows_max} or bool_or(content::text like '%slow%') from written where role = '${role}') then
           raise exception 'canceling statement due to statement timeout' using errcode = '57014';
         end if;
         return null;
       end $$`,
    );
    await house.rows(
      `create trigger take_long after insert on message referencing new table as written
       for each statement execute function take_long()`,
    );
  };
  afterEach(() => house.rows('drop function take_long cascade'));

  test('is applied in parts', async () => {
    await limit('assistant', 6);
    const batch = await house.submit(
      Array.from({ length: 40 }, (_, index) => ({ input: `⟦sim:fixed?text=lace ${index}⟧` })),
    );
    await house.drive(house.worker());
    const ends = await house.runsOf(batch.id);
    expect(new Set(ends.map((run) => run.stop_reason))).toEqual(new Set(['end_turn']));
  });

  test('because of one line loses only that line, and only if no pass could apply it', async () => {
    await limit('assistant', 40);
    const batch = await house.submit(
      Array.from({ length: 20 }, (_, index) => ({
        input: `⟦sim:fixed?text=${index === 7 ? 'slow' : 'lace'}⟧`,
      })),
    );
    const reports = await house.drive(house.worker(), { hasten: true });
    const ends = await house.runsOf(batch.id);
    expect(ends.map((run) => run.stop_reason)).toEqual(
      Array.from({ length: 20 }, (_, index) => (index === 7 ? 'poison' : 'end_turn')),
    );
    const passes = reports.filter((report) => report.flow === 'ingest-results');
    expect(passes.map(({ outcome, applied, quarantined }) => [outcome, applied, quarantined])).toEqual([
      ['again', 19, undefined],
      ['again', 0, undefined],
      ['ingested', 1, 1],
    ]);
  });

  const slowBefore = (end: number, index: number): string =>
    `⟦sim:fixed?text=${index < end ? 'slow' : 'lace'}⟧`;
  const toResults = async (worker: FlowDeps): Promise<void> => {
    await composeProviderBatch(worker);
    await submitProviderBatch(worker);
    do await pollProviderBatches(worker);
    while ((await house.rows(`select 1 from provider_batch where state = 'ended'`)).length === 0);
  };

  /** A batch of which three lines of twenty timed out in all passes but the last. */
  const toLastPass = async () => {
    await limit('assistant', 40);
    const batch = await house.submit(
      Array.from({ length: 20 }, (_, index) => ({ input: slowBefore(3, index) })),
    );
    const worker = house.worker();
    await toResults(worker);
    for (let pass = 0; pass < 2; pass++) {
      expect(await ingestResults(worker)).toMatchObject({ outcome: 'again' });
      await house.hasten();
    }
    return { worker, batch };
  };
  const expectAllEnded = async (batch: { readonly id: string }): Promise<void> => {
    const ends = await house.runsOf(batch.id);
    expect(new Set(ends.map((run) => run.stop_reason))).toEqual(new Set(['end_turn']));
  };

  test('because of many consecutive lines blocks no other line and loses none', async () => {
    await limit('assistant', 40);
    const batch = await house.submit(
      Array.from({ length: 48 }, (_, index) => ({ input: slowBefore(8, index) })),
    );
    const worker = house.worker({ settings: { chunk_lines: 16, chunks_in_flight: 1 } });
    await toResults(worker);
    for (let pass = 0; pass < 5; pass++) {
      const report = await ingestResults(worker);
      expect(report).toMatchObject({ outcome: 'again', alarm: true, applied: pass === 0 ? 40 : 0 });
      expect(String(report['reason']).includes('none is set aside')).toBe(pass >= 2);
      await house.hasten();
    }
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(
      Array.from({ length: 48 }, (_, index) => (index < 8 ? null : 'end_turn')),
    );
    await house.rows('drop trigger take_long on message');
    await house.drive(worker);
    await expectAllEnded(batch);
  });

  test('because the database is slow for all lines loses none, however often they are tried', async () => {
    await limit('assistant', 0);
    const batch = await house.submit(Array.from({ length: 12 }, () => ({ input: 'Say hello.' })));
    const worker = house.worker();
    await toResults(worker);
    for (let pass = 0; pass < 5; pass++) {
      expect(await ingestResults(worker)).toMatchObject({
        outcome: 'again',
        alarm: true,
        reason: expect.stringContaining('none is set aside') as string,
      });
      await house.hasten();
    }
    expect(await house.rows('select streams from provider_batch order by created_at desc limit 1')).toEqual([
      { streams: 0 },
    ]);
    await house.rows('drop trigger take_long on message');
    await house.drive(worker);
    await expectAllEnded(batch);
  });

  test('in the last pass, for a few lines and for a while, loses no line that is fast enough in its retry', async () => {
    const { worker, batch } = await toLastPass();
    // From here on a slow line is in time at its second attempt alone; sequences survive a rollback.
    await house.rows(`
      create sequence tries;
      create or replace function take_long() returns trigger language plpgsql as $$
      begin
        if (select bool_or(content::text like '%slow%') and (count(*) > 1 or nextval('tries') <= 3) from written) then
          raise exception 'canceling statement due to statement timeout' using errcode = '57014';
        end if;
        return null;
      end $$`);
    expect(await ingestResults(worker)).toMatchObject({ outcome: 'ingested', applied: 3, quarantined: 0 });
    await house.drive(worker);
    await expectAllEnded(batch);
    await house.rows('drop sequence tries');
  });

  test('in the last pass loses no line that cannot be set aside in time either', async () => {
    const { worker, batch } = await toLastPass();
    await house.rows(`
      create function take_longer() returns trigger language plpgsql as $$
      begin raise exception 'canceling statement due to statement timeout' using errcode = '57014'; end $$`);
    await house.rows(
      'create trigger take_longer before insert on result_line execute function take_longer()',
    );
    await expect(ingestResults(worker)).rejects.toThrow('statement timeout');
    await house.rows('drop function take_longer cascade');
    await house.rows('drop trigger take_long on message');
    await house.hasten();
    await house.drive(worker);
    await expectAllEnded(batch);
  });

  test.each([
    ['a few are set aside at once', 3, { left: 5, aside: 3 }],
    ['of many none is set aside', 4, { left: 9, aside: 0 }],
  ])('because of some lines, with others that cannot be stored: %s', async (_what, bad, expected) => {
    await limit('assistant', 40);
    await house.rows(
      `create or replace trigger arsenic before insert on message for each row execute function refuse_arsenic('assistant')`,
    );
    const batch = await house.submit(
      Array.from({ length: 20 }, (_, index) => ({
        input: index < 20 - bad ? slowBefore(5, index) : '⟦sim:fixed?text=arsenic⟧',
      })),
    );
    const worker = house.worker();
    await toResults(worker);
    const report = await ingestResults(worker);
    const left = (await house.runsOf(batch.id)).filter((run) => run.state === 'in_flight').length;
    const aside = await house.rows(
      `select 1 from result_line l join provider_batch p on p.id = l.provider_batch_id
        where p.id = (select max(provider_batch_id::text)::uuid from step where run_id = $1)`,
      [batch.run_ids[0]],
    );
    await house.rows('drop trigger arsenic on message');
    await house.rows('drop trigger take_long on message');
    await house.drive(worker, { hasten: true });
    expect({ outcome: report['outcome'], left, aside: aside.length }).toEqual({
      outcome: 'again',
      ...expected,
    });
  });

  test('of tool results is committed in parts, and no call is repeated', async () => {
    const batch = await house.submit(
      Array.from({ length: 6 }, (_, index) => ({
        input: call('echo', { text: `${index}` }),
        tools: ['echo'],
      })),
    );
    await limit('user', 1);
    const tools = answering();
    await house.drive(house.worker({ tools }));
    const ends = await house.runsOf(batch.id);
    expect(ends.map((run) => run.stop_reason)).toEqual(Array.from({ length: 6 }, () => 'end_turn'));
    expect(tools.asked).toHaveLength(6);
  });
});
