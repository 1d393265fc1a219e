import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { call, openHouse, recording, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

const rethink = (label: string, new_memory: string) => call('memory_rethink', { label, new_memory });

/** Reads the blocks in force of an agent. */
async function memoryOf(agentId: string): Promise<Readonly<Record<string, string>>> {
  const rows = await house.rows<{ label: string; value: string }>(
    `select k.label, r.value from agent_block k join block b on b.id = k.block_id
       join block_revision r on r.block_id = b.id and r.revision = b.head_revision
      where k.agent_id = $1 order by k.label`,
    [agentId],
  );
  return Object.fromEntries(rows.map(({ label, value }) => [label, value]));
}

describe('the parts of a rewrite', () => {
  test.each(['auto', 'review'] as const)(
    'each see the memory that the one before left, and none of its messages (apply: %s)',
    async (apply) => {
      const { provider, sent } = recording(house);
      const rest = { memory_tools_only: true, writable_labels: ['summary'], sequence: 'a' };
      const first = { input: rethink('summary', 'After one.'), isolated: true, rest };
      const next = (text: string) => ({ ...first, input: rethink('summary', text), same_agent_as: 0 });
      const batch = await house.submit(
        [{ ...first, blocks: { summary: 'Old.' } }, next('After two.'), next('After three.')],
        { apply },
      );
      await house.drive(house.worker({ provider }));
      expect(await house.runsOf(batch.id)).toMatchObject(Array(3).fill({ stop_reason: 'end_turn' }));
      expect(sent.map((params) => /→ (.*)$/m.exec(params.system?.[1]?.text ?? '')?.[1])).toEqual([
        'Old.',
        'Old.',
        'After one.',
        'After one.',
        'After two.',
        'After two.',
      ]);
      expect(sent.map(({ messages }) => messages.length)).toEqual([1, 3, 1, 3, 1, 3]);
      expect(await memoryOf(batch.agent_ids[0] ?? '')).toEqual({
        summary: apply === 'auto' ? 'After three.' : 'Old.',
      });
    },
  );

  test('after a failed one are cancelled, and their batch ends', async () => {
    const rest = { sequence: 'a' };
    const batch = await house.submit([
      { input: 'One. ⟦sim:refusal⟧', isolated: true, rest },
      { input: 'Two. ⟦sim:fixed⟧', isolated: true, rest, same_agent_as: 0 },
      { input: 'Three. ⟦sim:fixed⟧', isolated: true, rest, same_agent_as: 0 },
      { input: 'Other. ⟦sim:fixed⟧' },
    ]);
    await house.drive(house.worker());
    expect((await house.runsOf(batch.id)).map(({ stop_reason }) => stop_reason)).toEqual([
      'refusal',
      'cancelled',
      'cancelled',
      'end_turn',
    ]);
    expect(await house.rows(`select state from batch`)).toEqual([{ state: 'completed' }]);
  });
});

describe('a run with memory tools and one writable block', () => {
  test.each(['auto', 'review'] as const)(
    'sees the other blocks as read-only and cannot write them (apply: %s)',
    async (apply) => {
      const { provider, sent } = recording(house);
      const batch = await house.submit(
        [
          {
            input: [rethink('persona', 'Changed.'), rethink('summary', 'New.')].join('\n'),
            blocks: { persona: 'Kind.', summary: 'Old.' },
            isolated: true,
            tools: ['send_message'],
            rest: { system: 'Rewrite.', memory_tools_only: true, writable_labels: ['summary'] },
          },
        ],
        { apply },
      );
      await house.drive(house.worker({ provider }));
      const [agentId = ''] = batch.agent_ids;
      expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
      expect(await memoryOf(agentId)).toEqual({
        persona: 'Kind.',
        summary: apply === 'auto' ? 'New.' : 'Old.',
      });
      expect(await house.rows(`select state from tool_call order by step_number`)).toEqual([
        { state: 'failed' },
        { state: 'succeeded' },
      ]);
      const [result] = await house.rows<{ text: string }>(
        `select content::text as text from message where role = 'user' and seq = 3`,
      );
      expect(result?.text).toContain("Memory block 'persona' is read-only in this run and cannot be edited.");
      const [first] = sent;
      expect(first?.tools?.map(({ name }) => name)).toEqual([
        'memory_insert',
        'memory_replace',
        'memory_rethink',
      ]);
      expect(first?.system?.[0]?.text).toBe('Rewrite.');
      const shown = first?.system?.[1]?.text ?? '';
      const sectionOf = (label: string) => shown.split(`<${label}>`)[1]?.split(`</${label}>`)[0];
      expect(sectionOf('persona')).toContain('- read_only=true');
      expect(sectionOf('persona')).toContain('1→ Kind.');
      expect(sectionOf('summary')).not.toContain('read_only');
    },
  );
});
