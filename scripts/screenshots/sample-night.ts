import { createNightshift, type Nightshift } from '../../libs/client/src/index.ts';
import type { Stack } from '../stack/stack.ts';

/** Ids of the sample night, for the addresses of pages. */
export interface SampleNight {
  /** All agents of the night. */
  readonly agents: readonly string[];
  /** An agent whose block has several revisions. */
  readonly agentId: string;
  readonly blockId: string;
  readonly scheduleId: string;
  /** The batch of its tick, which may still run. */
  readonly tickBatchId: string;
  /** A batch with completed and failed runs. */
  readonly batchId: string;
  readonly failedRunId: string;
  /** A run that called a tool. */
  readonly runId: string;
  /** A batch with changes to review. */
  readonly reviewId: string;
}

const MODEL = 'anthropic/claude-haiku-4-5';
const NAMES = [
  'Ada',
  'Ben',
  'Carla',
  'Dmitri',
  'Elif',
  'Femi',
  'Grace',
  'Hana',
  'Ivo',
  'Jun',
  'Kaya',
  'Lena',
];
const CITIES = ['Berlin', 'Lisbon', 'Oslo', 'Nairobi', 'Porto', 'Kyoto'];
const WAYS = ['phone', 'e-mail', 'chat'];
const REFUSED = 'attachment';

const pick = (list: readonly string[], place: number): string => list[place % list.length] ?? '';

/** Text of a memory; a later one differs in a few words. */
function summaryOf(place: number, isLater: boolean): string {
  const way = pick(WAYS, isLater ? place + 1 : place);
  const lines = [
    `${pick(NAMES, place)} lives in ${pick(CITIES, isLater && place % 3 === 0 ? place + 1 : place)}.`,
    `Prefers ${way} in the morning.`,
    `Bought the ${place % 2 === 0 ? 'annual' : 'monthly'} plan in March.`,
    'Works from home on Mondays and Fridays, is hard to reach before ten, and answers letters within a week.',
    ...(isLater ? ['Asked twice about invoices; send them as PDF.'] : ['Asked once about invoices.']),
  ];
  return (isLater && place % 7 === 0 ? lines.slice(0, 1) : lines).join('\n');
}

/** Fills a service on the simulated provider with a night's work, and waits for its end. */
export async function makeSampleNight(stack: Stack): Promise<SampleNight> {
  const client = createNightshift({ url: stack.apiUrl, apiKey: stack.apiKey });
  await refuseAttachments(stack);
  const agents = await makeAgents(client);
  const batchId = await answerTickets(client, agents);
  const reviewId = await rewriteSummaries(client, agents);
  const schedule = await client.schedules.create({
    name: 'Nightly memories',
    cron: '0 2 * * *',
    time_zone: 'Europe/Berlin',
    body: { kind: 'memory_rewrite', agents: { tags: ['customer'] }, blocks: ['summary'], apply: 'review' },
  });
  const tick = await client.schedules.runNow(schedule.id);
  const blockId = (await client.agents.retrieve(agents[1] ?? '')).blocks[0]?.id ?? '';
  const { value } = await client.memory.retrieve(blockId);
  await client.memory.update(blockId, { value: `${value}\nSpeaks Portuguese.` });
  const failedRunId = await firstRun(client, { batch_id: batchId, state: 'failed' });
  const runId = await firstRun(client, { batch_id: reviewId });
  const [, agentId = ''] = agents;
  return {
    ...{ agents, agentId, blockId, batchId, failedRunId, runId, reviewId },
    ...{ scheduleId: schedule.id, tickBatchId: tick.job_id ?? '' },
  };
}

async function firstRun(
  client: Nightshift,
  query: Parameters<Nightshift['runs']['list']>[0],
): Promise<string> {
  for await (const { id } of client.runs.list({ ...query, limit: 1 })) return id;
  throw new Error('The sample night has no such run.');
}

/** Leaves a batch at the provider, of which a part has ended. */
export async function leaveUnderWay(stack: Stack, { agents, tickBatchId }: SampleNight): Promise<void> {
  const client = createNightshift({ url: stack.apiUrl, apiKey: stack.apiKey });
  await client.batches.wait(tickBatchId);
  const { id } = await client.batches.create({
    name: 'Letters of Tuesday',
    tags: ['letters'],
    max_cost_usd: 2,
    pilot: { runs: 14, then: 'pause' },
    requests: agents.map((agent_id, place) => ({
      agent_id,
      custom_id: `letter-${place + 1}`,
      conversation: 'isolated' as const,
      input: `Answer the letter of ${pick(NAMES, place)}.`,
    })),
  });
  while ((await client.batches.retrieve(id)).state !== 'paused')
    await new Promise((resolve) => setTimeout(resolve, 200));
  await control(stack, '/config', { latency: 'fixed:3600000' });
  await client.batches.resume(id);
  while ((await client.batches.progress(id)).steps_at_provider === 0)
    await new Promise((resolve) => setTimeout(resolve, 200));
}

async function control({ simulatorControlUrl }: Stack, path: string, body: unknown): Promise<void> {
  await fetch(`${simulatorControlUrl ?? ''}${path}`, { method: 'POST', body: JSON.stringify(body) });
}

function refuseAttachments(stack: Stack): Promise<void> {
  return control(stack, '/rules', {
    op: 'request',
    match: { contains: REFUSED },
    outcome: {
      type: 'errored',
      error_type: 'invalid_request_error',
      message: 'The attachment cannot be read.',
    },
  });
}

async function makeAgents(client: Nightshift): Promise<readonly string[]> {
  const agents = await Promise.all(
    Array.from({ length: 24 }, (_, place) =>
      client.agents.create({
        name: `${pick(NAMES, place)} ${pick(['Lind', 'Okafor', 'Sato', 'Novak', 'Reyes'], place)}`,
        model: MODEL,
        system: 'You keep what is known about a customer.',
        include_base_tools: false,
        tools: ['memory_rethink'],
        tags: ['customer', place % 2 === 0 ? 'annual' : 'monthly'],
        memory_blocks: [
          { label: 'summary', value: summaryOf(place, false) },
          { label: 'preferences', value: 'Writes in English.' },
        ],
      }),
    ),
  );
  return agents.map(({ id }) => id);
}

async function answerTickets(client: Nightshift, agents: readonly string[]): Promise<string> {
  const { id } = await client.batches.create({
    name: 'Tickets of Monday',
    tags: ['tickets'],
    max_cost_usd: 5,
    requests: agents.map((agent_id, place) => ({
      agent_id,
      custom_id: `ticket-${1_000 + place}`,
      input:
        place % 6 === 5
          ? `Read the ${REFUSED} of ticket ${1_000 + place}.`
          : `Sort ticket ${1_000 + place}: ${pick(CITIES, place)} cannot log in.`,
    })),
  });
  await client.batches.wait(id);
  return id;
}

async function rewriteSummaries(client: Nightshift, agents: readonly string[]): Promise<string> {
  const { id } = await client.batches.create({
    name: 'Memories of Monday',
    tags: ['memories'],
    apply: 'review',
    requests: agents.map((agent_id, place) => ({
      agent_id,
      input: JSON.stringify({
        tool: 'memory_rethink',
        args: { label: 'summary', new_memory: summaryOf(place, true) },
      }),
    })),
  });
  await client.batches.wait(id);
  return id;
}
