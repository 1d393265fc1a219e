import type {} from '../../../../test/global-setup.ts';
import { BATCH_REQUESTS_MAX } from '@nightshift/agent-core';
import { claimDueProviderBatches, newId } from '@nightshift/db';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { encodeRequests } from '../../src/flows/submit-provider-batch/encode-requests.ts';
import { openPageSizes } from '../../src/flow-parts/requests/page-sizes.ts';
import { openBodyFile, type BodyFile } from '../../src/provider/body-file.ts';
import { openHouse, type House, type SubmittedBatch } from './house.ts';

let house: House;
let batch: SubmittedBatch;
beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterAll(() => house.close());

/** A worker that records the pages of requests it reads. */
function readingPages(): { worker: FlowDeps; pages: { requests: number; chars: number }[] } {
  const pages: { requests: number; chars: number }[] = [];
  const worker = house.worker({ settings: { body_bytes_max: 64_000_000 } });
  const db = worker.db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult({ result }) {
      const texts = result.rows.flatMap(({ messages_json: text }) =>
        typeof text === 'string' ? [text] : [],
      );
      const chars = texts.reduce((sum, text) => sum + text.length, 0);
      if (texts.length > 0) pages.push({ requests: texts.length, chars });
      return Promise.resolve(result);
    },
  });
  return { worker: { ...worker, db }, pages };
}

test('long answers are written in smaller chunks, to limit memory', async () => {
  batch = await house.submit(
    Array.from({ length: 30 }, (_, index) => ({
      input: `${index} ⟦sim:hugeText?bytes=500000⟧`,
    })),
  );
  let chunks = 0;
  const hooks = (point: string): void => {
    if (point === 'ingest.before_chunk') chunks += 1;
  };
  await house.drive(house.worker({ settings: { chunk_lines: 1_000 }, hooks }));
  expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  expect(chunks).toBeGreaterThanOrEqual(3);
  expect(chunks).toBeLessThanOrEqual(8);
});

test('long conversations are read and encoded a few at a time, and short conversations in large pages', async () => {
  const { worker, pages } = readingPages();
  const requestsRead = (): number[] => pages.splice(0).map(({ requests }) => requests);
  const next = await house.submit(
    batch.agent_ids.map((agent_id) => ({
      input: 'And now? ⟦sim:fixed⟧',
      agent_id,
    })),
  );
  await house.drive(worker);
  expect((await house.runsOf(next.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  // 500,000 characters a conversation make pages of 7; the last two are read without sampling.
  expect(requestsRead()).toEqual([7, 7, 7, 7, 2]);

  await house.submit(Array.from({ length: 700 }, (_, index) => ({ input: `short ${index}` })));
  await house.drive(worker);
  expect(requestsRead()).toEqual([160, 540]);
});

test('long conversations behind short ones are not read in a page sized for these', async () => {
  const { worker, pages } = readingPages();
  const short = await house.submit(Array.from({ length: 300 }, (_, index) => ({ input: `before ${index}` })));
  const long = await house.submit(
    batch.agent_ids.map((agent_id) => ({ input: 'And then? ⟦sim:fixed⟧', agent_id })),
  );
  await house.drive(worker);
  for (const { id } of [short, long]) {
    expect((await house.runsOf(id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  }
  // All 30 together, as in a page of short requests, are 15,000,000 characters.
  expect(Math.max(...pages.map(({ chars }) => chars))).toBeLessThan(9_000_000);
});

test('long requests among medium requests are not read all at once, to reserve their budget or to send them', async () => {
  const { worker, pages } = readingPages();
  const cap = { cost_nanousd: 1_000_000_000_000_000, output_tokens: null };
  // The long requests are neighbours, so a sample of one in 125 is too few to find them.
  for (const [requests, chars] of [
    [310, 40_000],
    [80, 300_000],
    [60, 40_000],
  ] as const) {
    await house.submit(
      Array.from({ length: requests }, (_, index) => ({
        input: `${index} ${'x'.repeat(chars)} ⟦sim:fixed⟧`,
      })),
      { cap },
    );
  }
  const longest = (): number => Math.max(...pages.splice(0).map(({ chars }) => chars));
  await composeProviderBatch(worker);
  const reserved = longest();
  await house.drive(worker);
  const sent = longest();
  expect(Math.max(reserved, sent), `${reserved} reserved, ${sent} sent`).toBeLessThan(7_000_000);
  expect(Math.min(reserved, sent)).toBeGreaterThan(3_000_000);
});

test('the sizes of short requests are looked up once for a whole body', async () => {
  let looks = 0;
  const db = house.database.db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult({ result }) {
      looks += 1;
      return Promise.resolve(result);
    },
  });
  const sizes = openPageSizes({ db }, newId(), 10_000);
  const pages: number[] = [];
  for (let from = 0; from < 10_000; from += pages.at(-1) ?? 0) {
    const page = await sizes.next(from);
    sizes.learn(page, page * 2_000);
    pages.push(page);
  }
  expect(pages).toEqual([160, 2_000, 2_000, 2_000, 2_000, 1_840]);
  expect(looks).toBe(1);
});

test('requests with long blocks are read and encoded a few at a time, and a shared block once a page', async () => {
  const { worker, pages } = readingPages();
  const blocks: number[] = [];
  const db = worker.db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult({ result }) {
      const read = result.rows.filter((row) => 'value' in row && 'read_only' in row);
      if (read.length > 0) blocks.push(read.length);
      return Promise.resolve(result);
    },
  });
  const { id } = await house.submit(
    Array.from({ length: 30 }, (_, index) => ({
      input: `short ${index}`,
      isolated: true,
      ...(index === 0 ? { blocks: { notes: 'x'.repeat(500_000) } } : { same_agent_as: 0 }),
    })),
  );
  await house.drive({ ...worker, db });
  expect((await house.runsOf(id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  expect(pages.map(({ requests }) => requests)).toEqual([7, 7, 7, 7, 2]);
  expect(blocks).toEqual([1, 1, 1, 1, 1]);
});

test('long requests of a capped batch are measured a few at a time, too', async () => {
  const { worker, pages } = readingPages();
  const { id } = await house.submit(
    Array.from({ length: 30 }, (_, index) => ({
      input: `short ${index}`,
      isolated: true,
      ...(index === 0 ? { blocks: { notes: 'x'.repeat(500_000) } } : { same_agent_as: 0 }),
    })),
    { cap: { cost_nanousd: 1_000_000_000_000, output_tokens: null } },
  );
  await house.drive(worker);
  expect((await house.runsOf(id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  // When they are sealed, with the last few read without sampling, and when they are sent.
  expect(pages.map(({ requests }) => requests)).toEqual([7, 7, 16, 7, 7, 7, 7, 2]);
});

test('pages are as large as the final requests allow, whatever makes them long', async () => {
  const { worker, pages } = readingPages();
  const manual = {
    name: 'consult',
    kind: 'client' as const,
    description: 'x'.repeat(40_000),
    input_schema: { type: 'object' },
    side_effects: 'none' as const,
    return_char_limit: 1_000,
    timeout_ms: 1_000,
    requires_approval: false,
  };
  const { id } = await house.submit(
    Array.from({ length: 280 }, (_, index) => ({ input: `short ${index}`, client_tools: [manual] })),
  );
  await house.drive(worker);
  expect((await house.runsOf(id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
  expect(pages.map(({ requests }) => requests)).toEqual([160, 98, 22]);
});

test('a body never holds more requests than the provider takes, though whole chunks were sealed', async () => {
  const worker = house.worker();
  await house.submit(Array.from({ length: 30 }, (_, index) => ({ input: `${index}` })));
  const { provider_batch_id } = await composeProviderBatch(worker);
  const [claimed] = await claimDueProviderBatches(house.database.db, ['building'], 1, worker.claimant);
  expect(claimed?.id).toBe(provider_batch_id);
  const file = await openBodyFile(worker.settings.body_dir);
  // Pretends that nearly all requests of a full batch are in it already.
  const full: BodyFile = {
    ...file,
    get count() {
      return BATCH_REQUESTS_MAX - 25 + file.count;
    },
  };
  const lease = worker.leases.hold({ table: 'provider_batch', id: claimed!.id, epoch: claimed!.lease_epoch });
  await encodeRequests(worker, claimed!, 30, full, lease);
  expect(full.count).toBe(BATCH_REQUESTS_MAX);
  await file.discard();
  await worker.leases.release(lease, 0);

  // The rest is sent with the next batch.
  await house.drive(worker);
});
