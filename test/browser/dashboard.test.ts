import { readFileSync } from 'node:fs';
import axe from 'axe-core';
import type { Browser, BrowserContext, Request } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createNightshift, type Nightshift, type StepRequest } from '../../libs/client/src/index.ts';
import { CHROMIUM, NO_CHROMIUM, openBrowser } from '../../scripts/screenshots/browser.ts';
import { pagesOf } from '../../scripts/screenshots/pages.ts';
import { makeSampleNight, type SampleNight } from '../../scripts/screenshots/sample-night.ts';
import { createSignInLink } from '../../scripts/stack/sign-in-link.ts';
import { openStackHouse, type StackHouse } from '../stack/house.ts';
import { HOSTILE } from './hostile.ts';
import { openPage, openSignedIn, setHidden, type WatchedPage } from './watched-page.ts';

if (CHROMIUM === undefined)
  process.stderr.write(`The dashboard is not tested in a browser. ${NO_CHROMIUM}\n`);
const inBrowser = test.runIf(CHROMIUM !== undefined);

const UNKNOWN = '01890000-0000-7000-8000-000000000000';

let house: StackHouse;
let client: Nightshift;
let browser: Browser;
/** Signed in; its pages share the files that the browser has loaded. */
let context: BrowserContext;
let night: SampleNight;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  [house, browser] = await Promise.all([
    openStackHouse({ simulatorLatency: 'fixed:100', workers: 2 }),
    openBrowser(),
  ]);
  const { stack } = house;
  client = createNightshift({ url: stack.apiUrl, apiKey: stack.apiKey });
  await house.control('POST', '/config', { keep_bodies: true });
  [night, context] = await Promise.all([makeSampleNight(stack), openSignedIn(browser, stack)]);
});
afterAll(async () => {
  if (CHROMIUM === undefined) return;
  await browser.close();
  await house.close();
});

const signedIn = (): Promise<WatchedPage> => openPage(context, house.stack);

/** Tabs in which many addresses are visited at once. */
const TABS = 3;

/** Visits each item in one of the tabs. */
async function inTabs<Item>(
  items: readonly Item[],
  visit: (tab: WatchedPage, item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const visitSome = async (): Promise<void> => {
    const tab = await signedIn();
    for (let item = left.shift(); item !== undefined; item = left.shift()) await visit(tab, item);
    tab.expectNoTrouble();
  };
  await Promise.all(Array.from({ length: TABS }, visitSome));
}

/** Returns the requests with a text that the simulated provider got, as JSON. */
async function requestsWith(text: string): Promise<readonly string[]> {
  const { batches } = await house.control<{ batches: readonly { body_path: string | null }[] }>(
    'GET',
    '/batches',
  );
  return batches
    .flatMap(({ body_path }) => {
      if (body_path === null) return [];
      const { requests } = JSON.parse(readFileSync(body_path, 'utf8')) as { requests: readonly unknown[] };
      return requests.map((request) => JSON.stringify(request));
    })
    .filter((request) => request.includes(text));
}

inBrowser('a link signs in once and leaves the address', async () => {
  const own = await browser.newContext();
  onTestFinished(() => own.close());
  const { page, expectNoTrouble } = await openPage(own, house.stack);
  await page.goto(await createSignInLink(house.stack));
  await page.locator('.rail').waitFor();
  expect(page.url()).not.toContain('token');
  await page.reload();
  await page.locator('.rail').waitFor();
  expectNoTrouble();
});

inBrowser(
  'a batch that is submitted elsewhere is seen, and followed to its end without a reload',
  async () => {
    const { page, open, expectNoTrouble } = await signedIn();
    await open('/batches');
    const { id } = await client.batches.create({
      name: 'Watched live',
      requests: Array.from({ length: 20 }, (_, place) => ({
        agent_id: night.agentId,
        conversation: 'isolated' as const,
        input: `Live ${place}`,
      })),
    });
    await page.getByRole('link', { name: 'Watched live' }).click();
    await page.waitForURL(`**/batches/${id}`);
    await page.getByText('100 %', { exact: true }).waitFor();
    await page.getByText('20 of 20 runs').waitFor();
    expectNoTrouble();
  },
);

inBrowser('an event refreshes what is shown, without a poll', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  const listening = page.waitForResponse('**/v1/events');
  await open('/settings');
  await listening;
  // The palette asks for the recent batches once.
  await page.keyboard.press('Control+k');
  const wanted = page.getByRole('combobox', { name: 'Page, batch, or id' });
  await wanted.fill('Monday');
  await page.getByRole('option', { name: 'Tickets of Monday' }).waitFor();
  await wanted.fill('Told by an event');
  await client.batches.create({
    name: 'Told by an event',
    requests: [{ agent_id: night.agentId, conversation: 'isolated', input: 'Any' }],
  });
  await page.getByRole('option', { name: 'Told by an event' }).waitFor();
  expectNoTrouble();
});

inBrowser('batches that are selected are cancelled together', async () => {
  const made = await Promise.all(
    ['one', 'two'].map((name) =>
      client.batches.create({
        name: `Selected ${name}`,
        pilot: { runs: 1, then: 'pause' },
        requests: Array.from({ length: 2 }, () => ({
          agent_id: night.agentId,
          conversation: 'isolated' as const,
          input: 'Any',
        })),
      }),
    ),
  );
  const states = (): Promise<readonly string[]> =>
    Promise.all(made.map(async ({ id }) => (await client.batches.retrieve(id)).state));
  await expect.poll(states).toEqual(['paused', 'paused']);
  const { page, open, expectNoTrouble } = await signedIn();
  await open('/batches?name=Selected');
  await page.getByLabel('Select Selected one').check();
  await page.getByRole('button', { name: 'Select all 2 listed' }).click();
  await page.getByRole('button', { name: 'Cancel 2' }).click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel 2' }).click();
  await expect.poll(states).toEqual(['cancelled', 'cancelled']);
  expectNoTrouble();
});

inBrowser('a failed run is one step from its group, which is retried', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  await open(`/batches/${night.batchId}`);
  await page.getByText('The attachment cannot be read.').first().waitFor();
  const samples = page.getByRole('table', { name: 'Failures by message' });
  await samples.getByRole('link').first().click();
  await page.waitForURL('**/runs/run-*');
  await page.goBack();
  await page.getByRole('button', { name: 'Retry these' }).click();
  await page.waitForURL(
    (url) => url.pathname.startsWith('/batches/') && !url.pathname.endsWith(night.batchId),
  );
  await page.getByText('4 of 4 runs').waitFor();
  expectNoTrouble();
});

inBrowser('a run shows what the model saw in a step, part by part', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  await open(`/runs/${night.failedRunId}`);
  const times = page.getByRole('list', { name: 'Steps and waits' });
  await times.getByText('Step 1').waitFor();
  await page.getByRole('navigation').getByRole('link', { name: 'What the model saw' }).click();
  const parts = page.getByRole('table', { name: 'Parts of the request' });
  await parts.getByRole('row', { name: /System prompt/ }).waitFor();
  await page.getByText('You keep what is known about a customer.').waitFor();
  await page.getByText(/Read the attachment of ticket \d+/).waitFor();
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Save as JSON' }).click();
  const saved = JSON.parse(readFileSync(await (await download).path(), 'utf8')) as StepRequest;
  expect(saved).toEqual(await client.runs.stepRequest(saved.id));
  expect(saved).toMatchObject({ is_exact: true, request: { model: 'claude-haiku-4-5' } });
  expectNoTrouble();
});

inBrowser('a block is reverted, and the next request of its agent holds the old text', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  const { value: first } = await client.memory.revision(night.blockId, 1);
  const { value: before, revision } = await client.memory.retrieve(night.blockId);
  expect(before).not.toBe(first);
  await open(`/blocks/${night.blockId}?revision=1`);
  const preview = page.locator('section', { hasText: 'What a revert to it would change now' });
  await preview.locator('del', { hasText: 'Speaks Portuguese.' }).waitFor();
  await page.getByRole('button', { name: 'Revert to this' }).click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Revert to this' }).click();
  await page.getByText(`${revision + 1} · in force`).waitFor();
  expect(await client.memory.retrieve(night.blockId)).toMatchObject({ value: first, revision: revision + 1 });
  const { id } = await client.batches.create({
    requests: [{ agent_id: night.agentId, conversation: 'isolated', input: 'After the revert' }],
  });
  await client.batches.wait(id);
  const [request, ...others] = await requestsWith('After the revert');
  expect(others).toEqual([]);
  // The provider gets the lines of a block with their numbers.
  const lines = first.split('\n').map((line, place) => `${place + 1}→ ${line}`);
  expect(request).toContain(JSON.stringify(`\n${lines.join('\n')}\n</value>`).slice(1, -1));
  expectNoTrouble();
});

const REVIEWED = ['Taken', 'Refused', 'Edited', 'Regretted', 'Overtaken'] as const;
/** The memory of an agent before and after; the first loses the most, so that it is the riskiest. */
const beforeOf = (name: string, place: number): string =>
  [
    `${name} lives in Oslo.`,
    'Has a dog.',
    'Likes tea.',
    `Asks to be called${', please'.repeat(6 - place)}.`,
  ].join('\n');
const afterOf = (name: string): string =>
  [`${name} lives in Oslo.`, 'Has a dog.', 'Likes tea.', 'Writes e-mails.'].join('\n');

inBrowser('changes are accepted, rejected, edited, taken back and merged by keyboard', async () => {
  const agents = await Promise.all(
    REVIEWED.map((name, place) =>
      client.agents.create({
        name,
        model: 'anthropic/claude-haiku-4-5',
        include_base_tools: false,
        tools: ['memory_rethink'],
        memory_blocks: [{ label: 'notes', value: beforeOf(name, place) }],
      }),
    ),
  );
  const { id } = await client.batches.create({
    name: 'Reviewed by keyboard',
    apply: 'review',
    requests: agents.map(({ id: agent_id, name }) => ({
      agent_id,
      input: JSON.stringify({
        tool: 'memory_rethink',
        args: { label: 'notes', new_memory: afterOf(name) },
      }),
    })),
  });
  await client.batches.wait(id);
  const blocks = new Map(agents.map(({ name, blocks: [block] }) => [name, block?.id ?? '']));
  const valueOf = async (name: (typeof REVIEWED)[number]): Promise<string> =>
    (await client.memory.retrieve(blocks.get(name) ?? '')).value;
  const { page, open, expectNoTrouble } = await signedIn();
  const { keyboard } = page;
  const selects = (name: (typeof REVIEWED)[number]): Promise<void> =>
    page.locator('.review-row[aria-current]', { hasText: name }).waitFor();
  await open(`/review/${id}`);
  await selects('Taken');
  await keyboard.press('j');
  await selects('Refused');
  await keyboard.press('k');
  await selects('Taken');
  await keyboard.press('a');
  await selects('Refused');
  await keyboard.press('r');
  await selects('Edited');

  await keyboard.press('e');
  const proposed = page.getByRole('textbox', { name: 'Proposed text' });
  await proposed.fill('Edited calls.');
  await keyboard.press('Escape');
  await page.getByText('edited, not saved').waitFor();
  await keyboard.press('e');
  expect(await proposed.inputValue()).toBe('Edited calls.');
  await keyboard.press('Control+Enter');
  await selects('Regretted');

  await keyboard.press('a');
  await selects('Overtaken');
  await keyboard.press('u');
  await selects('Regretted');
  await page.getByText('accepted, in force').waitFor();
  await keyboard.press('u');
  await page.getByText('The text before the change is in force.').waitFor();

  const present = beforeOf('Overtaken', 4).replace('Oslo', 'Porto');
  await client.memory.update(blocks.get('Overtaken') ?? '', { value: present });
  await keyboard.press('j');
  await selects('Overtaken');
  await keyboard.press('a');
  const refusal = page.getByRole('alert', { name: '' }).filter({ hasText: 'Not accepted.' });
  await refusal.getByText('The block was written after the agent read it.').waitFor();
  expect(await valueOf('Overtaken')).toBe(present);
  await refusal.getByRole('button', { name: 'Show it' }).click();
  await page.getByRole('button', { name: 'Merge with the present text' }).focus();
  await keyboard.press('Enter');
  await expect.poll(() => valueOf('Overtaken')).toBe(afterOf('Overtaken').replace('Oslo', 'Porto'));

  expect(await valueOf('Taken')).toBe(afterOf('Taken'));
  expect(await valueOf('Refused')).toBe(beforeOf('Refused', 1));
  expect(await valueOf('Edited')).toBe('Edited calls.');
  expect(await valueOf('Regretted')).toBe(beforeOf('Regretted', 3));
  const states = await client.batches.heldSummary(id);
  expect(states.states).toEqual({ held: 0, accepted: 4, rejected: 1 });
  expectNoTrouble();
});

inBrowser('tabs share one event stream, and a hidden tab asks for nothing', async () => {
  const [shown, hidden, neverShown] = [await signedIn(), await signedIn(), await signedIn()];
  const streams = new Set<Request>();
  const askedHidden: string[] = [];
  for (const { page } of [hidden, shown]) {
    page.on('request', (request) => request.url().endsWith('/v1/events') && streams.add(request));
    page.on('requestfinished', (request) => streams.delete(request));
    page.on('requestfailed', (request) => streams.delete(request));
  }
  const counted = hidden.page.waitForResponse(/held-changes\/summary/);
  await hidden.open('/batches');
  await expect.poll(() => streams.size).toBe(1);
  await counted;
  await neverShown.page.addInitScript(
    `Object.defineProperty(document, 'hidden', { configurable: true, value: true });`,
  );
  const counts: string[] = [];
  neverShown.page.on('request', (request) => {
    if (request.url().includes('/summary')) counts.push(request.url());
  });
  await neverShown.open('/batches');
  await shown.open('/batches');
  await setHidden(hidden.page, true);
  await expect.poll(() => [...streams].map((request) => request.frame().page())).toEqual([shown.page]);
  hidden.page.on('request', (request) => askedHidden.push(request.url()));
  const { id } = await client.batches.create({
    name: 'Not seen by a hidden tab',
    requests: [{ agent_id: night.agentId, conversation: 'isolated', input: 'Any' }],
  });
  await client.batches.wait(id);
  await shown.page.getByRole('link', { name: 'Not seen by a hidden tab' }).waitFor();
  expect(askedHidden).toEqual([]);
  expect(counts).toEqual([]);
  await setHidden(neverShown.page, false);
  await expect.poll(() => counts.length).toBeGreaterThan(0);
  await setHidden(hidden.page, false);
  await hidden.page.getByRole('link', { name: 'Not seen by a hidden tab' }).waitFor();
  expect(streams.size).toBe(1);
  hidden.expectNoTrouble();
  shown.expectNoTrouble();
});

inBrowser('a schedule says its rule and its agents while it is typed, is made, and runs now', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  await open('/schedules/new');
  await page.getByLabel('Name').fill('Made in a browser');
  await page.getByLabel('Rule').fill('61 * * * *');
  await page.locator('.tone-bad').first().waitFor();
  await page.getByLabel('Rule').fill('30 4 * * 1');
  await page.getByText('at 04:30').first().waitFor();
  await page.getByLabel('Agents with any of these tags').fill('customer');
  await page.getByLabel('Blocks').fill('summary');
  await page.getByText('24 agents').waitFor();
  await page.getByRole('button', { name: 'Make the schedule' }).click();
  await page.waitForURL('**/schedules/schedule-*');
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByRole('table', { name: 'Ticks' }).getByText('by hand').waitFor();
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByLabel('Rule').fill('45 4 * * 1');
  await page.getByRole('button', { name: 'Save the change' }).click();
  await page.getByText('at 04:45').first().waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByLabel('Reason').fill('The office is closed');
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.getByText('The office is closed').waitFor();
  expectNoTrouble();
});

inBrowser('a schedule that the API refuses keeps its form, with the reason at the field', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  await open('/schedules/new');
  await page.getByLabel('Name').fill('Nightly memories');
  await page.getByLabel('Any batch, as JSON').check();
  await page.getByLabel('Body').fill('{');
  await page.getByRole('button', { name: 'Make the schedule' }).click();
  await page.getByText('This is no JSON').waitFor();
  await page.getByLabel('Body').fill('{"agents": {"tags": 5}}');
  await page.getByRole('button', { name: 'Make the schedule' }).click();
  await page.locator('.field', { hasText: 'Body' }).locator('.tone-bad').waitFor();
  expect(await page.getByLabel('Name').inputValue()).toBe('Nightly memories');
  expectNoTrouble();
});

inBrowser('keys show the help, go to an id, and focus the search', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  await open('/memories');
  await page.getByText('summary · preferences').first().waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('Search on this page').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('/');
  const search = page.getByRole('searchbox');
  expect(await search.evaluate((input) => input.matches(':focus'))).toBe(true);
  // The page shows "Loading" before the agent; both take the focus.
  await page.route(`**/v1/agents/${night.agentId}`, async (route) => {
    await page.locator('#content:focus').waitFor();
    await route.continue();
  });
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Page, batch, or id' }).fill(night.agentId);
  await page.keyboard.press('Enter');
  await page.locator('#content:focus', { hasText: 'System prompt' }).waitFor();
  expectNoTrouble();
});

inBrowser('what is gone, or cannot be used, is a sentence', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  await open(`/batches/job-${UNKNOWN}`);
  await page.getByText('its retention has ended').waitFor();
  await open('/batches?state=asleep');
  await page.getByRole('alert').getByText('state').waitFor();
  await open('/batches/no/page');
  await page.getByText('The address names no page').waitFor();
  expectNoTrouble();
});

inBrowser('a session that ends asks for the key over the page, and keeps what was typed', async () => {
  const own = await openSignedIn(browser, house.stack);
  onTestFinished(() => own.close());
  const { page, open, expectNoTrouble } = await openPage(own, house.stack);
  await open('/schedules/new');
  await page.getByLabel('Name').fill('Not lost');
  await own.clearCookies();
  await page.getByLabel('Rule').fill('0 5 * * *');
  await page.getByText('The session has ended').waitFor();
  await page.getByLabel('API key').fill(house.stack.apiKey);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('The session has ended').waitFor({ state: 'detached' });
  expect(await page.getByLabel('Name').inputValue()).toBe('Not lost');
  expect(page.url()).toContain('/schedules/new');
  expectNoTrouble();
});

inBrowser.for(['light', 'dark'] as const)('every page is accessible in the %s theme', async (colorScheme) => {
  const found: string[] = [];
  await inTabs(pagesOf(night), async ({ page, open }, [name, path]) => {
    await page.emulateMedia({ colorScheme });
    await open(path);
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() =>
      (globalThis as unknown as { axe: typeof axe }).axe.run({ resultTypes: ['violations'] }),
    );
    for (const { id, impact, nodes } of violations)
      if (impact === 'serious' || impact === 'critical')
        found.push(`${name}: ${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`);
  });
  expect(found).toEqual([]);
});

inBrowser(`${HOSTILE.length} hostile texts stay text`, async () => {
  await house.control('POST', '/rules', {
    op: 'request',
    match: { contains: 'hostile error' },
    outcome: {
      type: 'errored',
      error_type: 'invalid_request_error',
      message: HOSTILE.slice(0, 20).join(' '),
    },
  });
  const agents = await Promise.all(
    // A name is refused unless it is of plain characters.
    HOSTILE.map((text, place) =>
      client.agents.create({
        name: `hostile ${place}`,
        description: text,
        model: 'anthropic/claude-haiku-4-5',
        include_base_tools: false,
        tags: [text],
        memory_blocks: [{ label: 'notes', value: text }],
      }),
    ),
  );
  const { id } = await client.batches.create({
    name: HOSTILE.slice(0, 3).join(' '),
    tags: HOSTILE.slice(3, 6),
    requests: agents.map((agent, place) => ({
      agent_id: agent.id,
      input: `${HOSTILE[place] ?? ''} ${place % 2 === 0 ? 'hostile error' : ''}`,
    })),
  });
  await client.batches.wait(id);
  const runs = [];
  for await (const run of client.runs.list({ batch_id: id, limit: 100 })) if (runs.push(run.id) === 6) break;
  const paths = [
    ...['/', '/batches', `/batches/${id}`, '/memories', '/schedules/new', '/review'],
    ...runs.flatMap((run) => [`/runs/${run}`, `/runs/${run}?tab=request`]),
    ...agents.slice(0, 10).map((agent) => `/memories/${agent.id}`),
    ...agents.slice(10, 15).map(({ blocks }) => `/blocks/${blocks[0]?.id ?? ''}`),
  ];
  await inTabs(paths, openUnharmed);
});

inBrowser('hostile texts in addresses stay text', () =>
  inTabs(
    HOSTILE.slice(0, 20).flatMap((text) => [
      `/batches?name=${encodeURIComponent(text)}`,
      `/batches/${encodeURIComponent(text)}`,
    ]),
    openUnharmed,
  ),
);

/** Opens a page, scrolls through it, and expects that none of its texts ran as a script. */
async function openUnharmed({ page, open }: WatchedPage, path: string): Promise<void> {
  await open(path);
  await page.mouse.wheel(0, 20_000);
  expect(await page.evaluate(() => 'hostile' in globalThis)).toBe(false);
}

inBrowser('a worker is drained', async () => {
  const { page, open, expectNoTrouble } = await signedIn();
  await open('/workers');
  await page.getByRole('button', { name: 'Drain' }).first().click();
  await page.getByRole('alertdialog').getByRole('button', { name: 'Drain' }).click();
  await page.getByText('draining').first().waitFor();
  expectNoTrouble();
});
