import type {} from '../../../../test/global-setup.ts';
import { decodeResultLine, toCustomId } from '@nightshift/agent-core';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { ingestResults } from '../../src/flows/ingest-results/ingest-results.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import { pollProviderBatches } from '../../src/flows/poll-provider-batches/poll-provider-batches.ts';
import { submitProviderBatch } from '../../src/flows/submit-provider-batch/submit-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { ResultsInterrupted, type ProviderPort } from '../../src/provider/port.ts';
import { createLeaseKeeper } from '../../src/leases/keeper.ts';
import { openHouse, type House } from './house.ts';
import { openRewindingDatabase, type RewindingDatabase } from './rewinding-database.ts';

const RUNS = 20;
const NEWLINE = 10;

let house: House;
let rewinding: RewindingDatabase;
let worker: FlowDeps;
let file: Buffer;
beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'));
  await house.submit(
    Array.from({ length: RUNS }, () => ({
      input: 'Look.',
      blocks: { notes: 'old' },
      tools: ['core_memory_append'],
    })),
  );
  const sender = house.worker();
  await composeProviderBatch(sender);
  await submitProviderBatch(sender);
  do await pollProviderBatches(sender);
  while ((await house.rows(`select 1 from provider_batch where state = 'ended'`)).length === 0);
  sender.leases.close();
  file = await resultFile();
  rewinding = await openRewindingDatabase(house.database.url);
  const { db } = rewinding;
  worker = { ...sender, db, leases: createLeaseKeeper(db, sender.claimant) };
});
afterAll(async () => {
  worker.leases.close();
  await rewinding.close();
  await house.close();
});

/** Short lines, so that every byte can be tried: most end their run, every third writes to memory and goes on. */
async function resultFile(): Promise<Buffer> {
  const steps = await house.rows<{ run_id: string; number: number; attempt: number; nonce: string }>(
    `select s.run_id, s.number, s.attempt, p.nonce from step s join provider_batch p on p.id = s.provider_batch_id
      order by s.ordinal`,
  );
  expect(steps).toHaveLength(RUNS);
  const lines = steps.map(({ nonce, ...key }, n) => {
    const writes = n % 3 === 0;
    const content = writes
      ? {
          type: 'tool_use',
          id: `t${n}`,
          name: 'core_memory_append',
          input: { label: 'notes', content: `${n}` },
        }
      : { type: 'text', text: `é${n}` };
    const message = {
      id: `m${n}`,
      type: 'message',
      role: 'assistant',
      model: 'claude-haiku-4-5',
      content: [content],
      stop_reason: writes ? 'tool_use' : 'end_turn',
      usage: { input_tokens: 1, output_tokens: n },
    };
    return JSON.stringify({ custom_id: toCustomId(nonce, key), result: { type: 'succeeded', message } });
  });
  return Buffer.from(`${lines.join('\n')}\n`);
}

/** A provider that sends this many bytes of the file. */
function cutAt(bytes: number, how: 'ends' | 'breaks'): Pick<ProviderPort, 'streamResults'> {
  return {
    streamResults: () =>
      Promise.resolve({
        outcome: 'open',
        chunks: (async function* () {
          yield await Promise.resolve(file.subarray(0, bytes));
          if (how === 'breaks') throw new ResultsInterrupted('cut');
        })(),
      }),
  };
}

/** Ingests one download of these bytes. */
async function download(bytes: number, how: 'ends' | 'breaks' = 'ends'): Promise<void> {
  await ingestResults({ ...worker, provider: { ...worker.provider, ...cutAt(bytes, how) } });
  await rewinding.rows('update provider_batch set next_due_at = app_now() where next_due_at is not null');
}

/** Reads every row written by the results so far, without ids that are new each time. */
async function rows(): Promise<string> {
  const [all] = await rewinding.rows<{ rows: string }>(`
    select json_build_array(
      (select json_agg(json_build_array(id, state, stop_reason, step_number, attempt, failures, last_seq) order by id) from run),
      (select json_agg(json_build_array(run_id, number, attempt, state, stop_reason, provider_message_id, output_tokens,
                                        applied_at is null) order by run_id, number, attempt) from step),
      (select json_agg(json_build_array(conversation_id, seq, role, shown, content) order by conversation_id, seq) from message),
      (select json_agg(json_build_array(run_id, step_number, call_index, tool_use_id, state) order by run_id, call_index) from tool_call),
      (select json_agg(json_build_array(block_id, revision, value, tool_use_id) order by block_id, revision) from block_revision),
      (select json_agg(run_id order by run_id) from (select unnest(run_ids) as run_id from run_chunk) c),
      (select json_agg(t) from (select sum(completed), sum(failed), sum(steps), sum(tool_calls), sum(output_tokens) from batch_tally) t),
      (select json_agg(state) from provider_batch),
      (select json_agg(json_build_array(custom_id, reason)) from result_line))::text as rows`);
  return all?.rows ?? '';
}

/** NIGHTSHIFT_EVERY_BYTE=1 tries all bytes, which takes minutes; by default a sample, and all ends of lines. */
const STRIDE = process.env['NIGHTSHIFT_EVERY_BYTE'] === '1' ? 1 : 37;

test('a result file cut at any byte, ends of lines included, leaves the same rows in the end', async () => {
  await download(file.length);
  const whole = await rows();
  expect(whole).toContain('ingested');
  // A download leaves exactly the rows of its complete lines.
  let wholeLines = '';
  for (let bytes = 0; bytes < file.length; bytes++) {
    const isEndOfLine = bytes === 0 || file[bytes - 1] === NEWLINE;
    // The last brace completes its line, with or without a newline.
    if (!isEndOfLine && (bytes % STRIDE !== 0 || file[bytes] === NEWLINE)) continue;
    await rewinding.rewind();
    await download(bytes);
    if (!isEndOfLine) {
      expect(await rows(), `cut at byte ${bytes}`).toBe(wholeLines);
      continue;
    }
    wholeLines = await rows();
    expect(wholeLines).not.toBe(whole);
    await download(file.length);
    expect(await rows(), `cut at byte ${bytes}`).toBe(whole);
    await rewinding.rewind();
    await download(bytes, 'breaks');
    expect(await rows(), `broken off at byte ${bytes}, whole lines`).toBe(wholeLines);
    await download(file.length);
    expect(await rows(), `broken off at byte ${bytes}`).toBe(whole);
  }
}, 1_800_000);

test('the beginning of a line is not taken for the line', () => {
  for (const line of file.toString().trimEnd().split('\n')) {
    expect(decodeResultLine(line).kind).toBe('answered');
    for (let end = 1; end < line.length; end++)
      expect(decodeResultLine(line.slice(0, end)).kind, `until ${end}`).toBe('unreadable');
  }
});
