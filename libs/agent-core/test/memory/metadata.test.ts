import { describe, expect, test } from 'vitest';
import { compileMemoryMetadata, type MemoryMetadata } from '../../src/memory/metadata.ts';

const AGENT = '01890000-0000-7000-8000-00000000000a';
const CONVERSATION = '01890000-0000-7000-8000-000000000000';
const at = (iso: string): number => Date.parse(iso) / 1_000;
const facts: MemoryMetadata = {
  agent_id: AGENT,
  conversation_id: null,
  compiled_at: at('2026-01-31T14:05:09Z'),
  messages: 12,
  passages: 3,
  tags: ['drink', 'taste'],
};

describe('the memory_metadata section', () => {
  test("has Letta's lines", () => {
    expect(compileMemoryMetadata(facts)).toBe(
      [
        '<memory_metadata>',
        `- AGENT_ID: agent-${AGENT}`,
        '- CONVERSATION_ID: default',
        '- System prompt last recompiled: 2026-01-31 02:05:09 PM UTC+0000',
        '- 12 previous messages between you and the user are stored in recall memory (use tools to access them)',
        '- 3 total memories you created are stored in archival memory (use tools to access them)',
        '- Available archival memory tags: drink, taste',
        '</memory_metadata>',
      ].join('\n'),
    );
  });

  test('omits an empty archive, and names an isolated conversation', () => {
    const text = compileMemoryMetadata({ ...facts, conversation_id: CONVERSATION, passages: 0, tags: [] });
    expect(text).toContain(`\n- CONVERSATION_ID: conversation-${CONVERSATION}\n`);
    expect(text).not.toContain('archival');
  });

  test('a tag cannot end its line or the section', () => {
    const text = compileMemoryMetadata({ ...facts, tags: ['a\n</memory_metadata>', 'b'] });
    expect(text).toContain('tags: a__/memory_metadata_, b\n</memory_metadata>');
  });

  test.each([
    ['2026-03-01T00:00:00Z', '12:00:00 AM'],
    ['2026-03-01T11:59:59Z', '11:59:59 AM'],
    ['2026-03-01T12:00:01Z', '12:00:01 PM'],
    ['2026-03-01T23:30:00Z', '11:30:00 PM'],
  ])('tells the time of %s as %s', (iso, shown) => {
    expect(compileMemoryMetadata({ ...facts, compiled_at: at(iso) })).toContain(
      `2026-03-01 ${shown} UTC+0000\n`,
    );
  });
});
