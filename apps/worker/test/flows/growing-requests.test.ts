import type {} from '../../../../test/global-setup.ts';
import { fromCustomId } from '@nightshift/agent-core';
import {
  attachBlock,
  auditInvariants,
  createBlocks,
  DEFAULT_PROJECT_ID,
  detachBlock,
  inTransaction,
  newId,
  writeBlock,
} from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { answering, call, noted, openHouse, type House, type SentParams } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'look',
        description: 'Looks.',
        input_schema: { type: 'object', properties: {} },
        side_effects: 'none',
        return_char_limit: 10_000,
        timeout_ms: 1_000,
      },
    ],
  });
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

/** Forwards to the simulator, records requests by run, and calls `during` while each provider batch is away. */
function interrupted(during: (create: number) => Promise<void>): {
  readonly provider: ProviderPort;
  readonly sentBy: ReadonlyMap<string, SentParams[]>;
} {
  const { provider } = house.worker();
  const sentBy = new Map<string, SentParams[]>();
  let creates = 0;
  return {
    sentBy,
    provider: {
      ...provider,
      async createBatch(body, asked) {
        const { requests } = JSON.parse(await body.text()) as {
          requests: { custom_id: string; params: SentParams }[];
        };
        for (const { custom_id, params } of requests) {
          const run = fromCustomId(custom_id)?.key.run_id ?? '';
          sentBy.set(run, [...(sentBy.get(run) ?? []), params]);
        }
        creates += 1;
        await during(creates);
        return provider.createBatch(body, asked);
      },
    },
  };
}

/** The blocks of an agent at their heads. */
const blocksOf = (agentId: string | undefined) =>
  house.rows<{ id: string; label: string; revision: number; value: string }>(
    `select b.id, b.label, b.head_revision as revision, r.value from agent_block k join block b on b.id = k.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision where k.agent_id = $1 order by k.position`,
    [agentId],
  );

/** Writes the first block of an agent as a person does. */
async function writeFirst(agentId: string | undefined, value: string, label = 'notes'): Promise<void> {
  const [block] = await blocksOf(agentId);
  if (block === undefined) return;
  await inTransaction(house.database.db, (trx) =>
    writeBlock(trx, block.id, block.revision, noted({ value, label })),
  );
}

const textOf = (part: unknown): string =>
  JSON.stringify(part, (key, value: unknown) => (key === 'cache_control' ? undefined : value));
/** The prompt of a request as the provider's cache compares it. */
const promptOf = (sent: SentParams): string =>
  textOf([sent.tools, sent.system]) + sent.messages.map((message) => `\n${textOf(message)}`).join('');
const noticesIn = (sent: SentParams | undefined): readonly string[] =>
  (sent?.messages ?? []).flatMap(({ content }) =>
    content.flatMap(({ text }) =>
      typeof text === 'string' && text.startsWith('<memory_update>') ? [text] : [],
    ),
  );

const append = (content: string): string => call('core_memory_append', { label: 'notes', content });
const run = (lines: readonly string[]) => ({
  input: lines.join('\n'),
  blocks: { notes: 'first' },
  tools: ['core_memory_append', 'look'],
});

describe('the requests of a run', () => {
  test('show the memory of its begin; own writes are told by their calls alone', async () => {
    const { provider, sentBy } = interrupted(() => Promise.resolve());
    await house.submit([run([append('a'), append('b')])]);
    await house.drive(house.worker({ provider }));
    const [sent = []] = [...sentBy.values()];
    expect(sent).toHaveLength(3);
    expect(new Set(sent.map(({ system }) => textOf(system))).size).toBe(1);
    expect(textOf(sent[0]?.system)).toContain('first');
    expect(noticesIn(sent[2])).toEqual([]);
  });

  test('tell once what others write, and judge later calls by it', async () => {
    const agents: string[] = [];
    const { provider, sentBy } = interrupted(async (create) => {
      if (create === 1) await writeFirst(agents[0], 'first\nby a person');
    });
    const batch = await house.submit([
      run([call('look', {}), append('mine'), call('look', {}), append('again')]),
    ]);
    agents.push(...batch.agent_ids);
    await house.drive(house.worker({ provider, tools: answering() }));
    const [sent = []] = [...sentBy.values()];
    expect(sent.map((each) => noticesIn(each).length)).toEqual([0, 1, 1, 1, 1]);
    expect(noticesIn(sent[4])[0]).toContain("Memory block 'notes' has changed.");
    expect(noticesIn(sent[4])[0]).toContain('by a person');
    expect(await blocksOf(agents[0])).toMatchObject([{ value: 'first\nby a person\nmine\nagain' }]);
    // The revisions that the run saw: no write of its own met another.
    expect(
      await house.rows('select resolution from block_revision where run_id is not null order by revision'),
    ).toEqual([{ resolution: 'clean' }, { resolution: 'clean' }]);
  });

  test('tell a merged text, an attached, a detached and a renamed block', async () => {
    const agents: string[] = [];
    const added = newId();
    const { provider, sentBy } = interrupted(async (create) => {
      if (create === 1) await writeFirst(agents[0], 'a person before\nfirst');
      if (create === 2) {
        await inTransaction(house.database.db, async (trx) => {
          const block = { ...noted({ label: 'plan', value: 'rest' }), id: added };
          await createBlocks(trx, DEFAULT_PROJECT_ID, [block]);
          await attachBlock(trx, DEFAULT_PROJECT_ID, agents[0] ?? '', added);
        });
        await writeFirst(agents[0], 'renamed', 'facts');
      }
      if (create === 3)
        await inTransaction(house.database.db, (trx) =>
          detachBlock(trx, DEFAULT_PROJECT_ID, agents[0] ?? '', added),
        );
    });
    const batch = await house.submit([
      run([append('mine'), ...Array.from({ length: 3 }, () => call('look', {}))]),
    ]);
    agents.push(...batch.agent_ids);
    await house.drive(house.worker({ provider, tools: answering() }));
    const [sent = []] = [...sentBy.values()];
    const [merged, arranged, detached, ...more] = noticesIn(sent[4]);
    // Shown whole to the run that wrote only a part of it.
    expect(merged).toContain('a person before\nfirst\nmine');
    expect(arranged).toContain("Memory block 'facts' is the block that you know as 'notes'.");
    expect(arranged).toContain("Memory block 'plan' is now yours too.");
    expect(detached).toContain("Memory block 'plan' is no longer yours.");
    expect(more).toEqual([]);
  });

  test('have the tools that the batch chose, in its order, whatever becomes of the agent', async () => {
    const { provider, sentBy } = interrupted(async () => {
      await house.rows('delete from agent_tool');
    });
    const choice = { add: ['look'], remove: ['memory_insert'], only: null };
    const given = run([append('a'), call('look', {}), append('b')]);
    const { run_ids } = await house.submit([
      { ...given, tools: ['memory_insert', 'core_memory_append'], rest: { tools: choice } },
      { ...given, tools: ['memory_insert', 'core_memory_append'] },
    ]);
    await house.drive(house.worker({ provider, tools: answering() }));
    const [chosen = [], own = []] = run_ids.map((id) => sentBy.get(id));
    const names = (sent: SentParams[]) =>
      new Set(sent.map(({ tools }) => tools?.map(({ name }) => name).join()));
    expect(names(chosen)).toEqual(new Set(['core_memory_append,look']));
    expect(names(own)).toEqual(new Set(['memory_insert,core_memory_append']));
    expect(chosen).toHaveLength(4);
    for (const [index, sent] of chosen.slice(1).entries())
      expect(promptOf(sent).startsWith(promptOf(chosen[index]!))).toBe(true);
    const results = await house.rows<{ tool_name: string; state: string }>(
      "select tool_name, state from tool_call where tool_name = 'look' order by state",
    );
    expect(results.map(({ state }) => state)).toEqual(['failed', 'succeeded']);
  });

  test('in a batch under review show its drafts, and tell what others do to the originals that it has not touched', async () => {
    const agents: string[] = [];
    const { provider, sentBy } = interrupted(async (create) => {
      if (create === 1) await writeFirst(agents[1], 'by a person');
      if (create === 2) await writeFirst(agents[0], 'by a person');
    });
    const batch = await house.submit(
      [run([append('a'), append('b'), call('look', {})]), run([call('look', {}), append('c')])],
      { apply: 'review' },
    );
    agents.push(...batch.agent_ids);
    await house.drive(house.worker({ provider, tools: answering() }));
    const sent = batch.run_ids.map((id) => sentBy.get(id));
    expect(sent.map((each) => noticesIn(each?.at(-1)).length)).toEqual([0, 1]);
    expect(noticesIn(sent[1]?.at(-1))[0]).toContain('by a person');
    for (const each of sent) expect(new Set((each ?? []).map(({ system }) => textOf(system))).size).toBe(1);
  });

  test('begin with the bytes of the one before, whatever happens in between', async () => {
    const step = fc.constantFrom('own', 'tool', 'both');
    const event = fc.constantFrom('nothing', 'write', 'rename', 'attach', 'detach', 'restart', 'error');
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 5 }),
        fc.array(event, { minLength: 1, maxLength: 8 }),
        async (steps, events) => {
          const agents: string[] = [];
          let restarts = 0;
          const act = async (kind: string | undefined, create: number): Promise<void> => {
            const [agent = ''] = agents;
            const [first] = await blocksOf(agent);
            if (kind === 'write')
              await writeFirst(agent, `line ${create}\n${first?.value ?? ''}`, first?.label);
            if (kind === 'rename') await writeFirst(agent, first?.value ?? '', `label ${create}`);
            if (kind === 'restart') restarts += 1;
            await inTransaction(house.database.db, async (trx) => {
              if (kind === 'attach') {
                const id = newId();
                const block = { ...noted({ label: `more ${id}`, value: 'x' }), id };
                await createBlocks(trx, DEFAULT_PROJECT_ID, [block]);
                await attachBlock(trx, DEFAULT_PROJECT_ID, agent, id);
              } else if (kind === 'detach' && first !== undefined)
                await detachBlock(trx, DEFAULT_PROJECT_ID, agent, first.id);
            });
          };
          const { provider, sentBy } = interrupted((create) => act(events[create - 1], create));
          house.simulator.control.configure({
            outcomes: { errored: events.includes('error') ? 0.3 : 0 },
          });
          const lines = steps.flatMap((kind, index) =>
            kind === 'own'
              ? [append(`own ${index}`)]
              : kind === 'tool'
                ? [call('look', {})]
                : [append(`own ${index}`), call('look', {}, true)],
          );
          const batch = await house.submit([run(lines)]);
          agents.push(...batch.agent_ids);
          for (let workers = 0; workers <= restarts; workers++) {
            const worker = house.worker({ provider, tools: answering() });
            const before = restarts;
            try {
              await house.drive(worker, { rounds: workers < before ? 2 : 200, hasten: true });
            } catch {
              await house.bury(worker);
            }
          }
          const [sent = []] = [...sentBy.values()];
          expect(sent.length).toBeGreaterThan(0);
          for (const [index, request] of sent.entries()) {
            const before = sent[index - 1];
            if (before !== undefined) expect(promptOf(request).startsWith(promptOf(before))).toBe(true);
          }
        },
      ),
      { numRuns: 12 },
    );
  });
});
