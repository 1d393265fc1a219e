import { describe, expect, test } from 'vitest';
import { edits, readMemory } from '../src/scripts/changelog-memory.ts';
import { findEntries, readReleaseNotes } from '../src/scripts/changelog-notes.ts';
import { changelogScript } from '../src/scripts/changelog.ts';
import type { ContentBlock, JsonObject, JsonValue, Message, ScriptReply } from '../src/scripts/script.ts';

const prompt = [
  '⟦sim:changelog⟧',
  'Read these.',
  '<release_notes package="thing" line="2.x">',
  '<release version="2.1.0" date="2026-01-02">',
  '- fix CVE-2026-12345',
  '</release>',
  '<release version="2.0.0">',
  '### Breaking changes',
  '- the old way is gone',
  '</release>',
  '</release_notes>',
].join('\n');

const allTools = [
  'compare_versions',
  'memory_rethink',
  'memory_insert',
  'memory_replace',
  'core_memory_append',
];
const empty = { summary: '', breaking_changes: '', security: '' };

function render(memory: Record<string, string>): string {
  const blocks = Object.entries(memory).map(
    ([label, value]) =>
      `<${label}>\n<description>\nd\n</description>\n<value>\n${value}\n</value>\n</${label}>\n`,
  );
  return `Be good.\n\n<memory_blocks>\nYours:\n\n${blocks.join('\n')}\n</memory_blocks>`;
}

interface Ask {
  memory?: Record<string, string> | undefined;
  tools?: string[];
  messages?: Message[];
}

function ask({
  memory = empty,
  tools = allTools,
  messages = [{ role: 'user', content: prompt }],
}: Ask): ScriptReply {
  return askRaw(render(memory), tools, messages);
}

function askRaw(system: string | undefined, tools: string[], messages: Message[]): ScriptReply {
  const params = {
    model: 'm',
    max_tokens: 100,
    messages,
    tools: tools.map((name) => ({ name })),
    ...(system !== undefined && { system }),
  };
  return changelogScript({ params, seed: 's', draw: () => 0 }, {});
}

function uses(reply: ScriptReply): { name: string; input: JsonObject }[] {
  return reply.content
    .filter(({ type }) => type === 'tool_use')
    .map((block) => ({ name: asText(block.name), input: block.input as JsonObject }));
}

/** The conversation after `reply`, every call answered by `result`. */
function answered(before: Message[], reply: ScriptReply, result: (name: string) => JsonObject): Message[] {
  const content: ContentBlock[] = reply.content.map((block, i) =>
    block.type === 'tool_use' ? { ...block, id: `t${before.length}-${i}` } : block,
  );
  const results: ContentBlock[] = content
    .filter(({ type }) => type === 'tool_use')
    .map((use) => ({ type: 'tool_result', tool_use_id: use.id ?? '', ...result(asText(use.name)) }));
  return [...before, { role: 'assistant', content }, { role: 'user', content: results }];
}

const start: Message[] = [{ role: 'user', content: prompt }];
const sortedAnswer = { content: '{"sorted":["2.0.0","2.1.0"],"latest":"2.1.0","invalid":[]}' };
const afterSorting = answered(start, ask({}), () => sortedAnswer);

function asText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

function textOf(reply: ScriptReply): string {
  return reply.content.map((block) => asText(block.text)).join('');
}

describe('the turns', () => {
  test('first the versions are compared, then all blocks are written at once, then it ends', () => {
    const first = ask({});
    expect(first.stop_reason).toBe('tool_use');
    expect(uses(first)).toEqual([{ name: 'compare_versions', input: { versions: ['2.1.0', '2.0.0'] } }]);

    const second = ask({ messages: afterSorting });
    expect(second.stop_reason).toBe('tool_use');
    expect(uses(second).map(({ input }) => input.label)).toEqual(['summary', 'breaking_changes', 'security']);
    expect(uses(second)[0]?.input.new_memory).toContain(
      'Latest: 2.1.0 of 2026-01-02\nReleases read: 2.1.0, 2.0.0',
    );

    const third = ask({ messages: answered(afterSorting, second, () => ({ content: 'ok' })) });
    expect(third).toEqual({
      content: [
        {
          type: 'text',
          text: 'Read 2 releases of thing 2.x up to 2.1.0; on record are breaking changes in 1 release and security entries in 1 release.',
        },
      ],
      stop_reason: 'end_turn',
    });
  });

  test('without compare_versions the summary comes first and the other two blocks after it', () => {
    const tools = ['memory_rethink'];
    const first = ask({ tools });
    expect(uses(first).map(({ input }) => input.label)).toEqual(['summary']);
    const second = ask({ tools, messages: answered(start, first, () => ({ content: 'ok' })) });
    expect(uses(second).map(({ input }) => input.label)).toEqual(['breaking_changes', 'security']);
  });

  test('the same request gets the same answer', () => {
    expect(ask({ messages: afterSorting })).toEqual(ask({ messages: structuredClone(afterSorting) }));
  });

  test('the order is that of the tool, whose result may be packed', () => {
    // Wrong on purpose: only a script that reads the result would follow it.
    const result = { sorted: ['2.1.0', '2.0.0'], latest: '2.0.0', invalid: [] };
    for (const content of [
      JSON.stringify(result),
      JSON.stringify({ status: 'OK', message: JSON.stringify(result), time: 'now' }),
      JSON.stringify({ status: 'OK', message: result, time: 'now' }),
    ]) {
      const reply = ask({
        messages: answered(start, ask({}), () => ({ content: [{ type: 'text', text: content }] })),
      });
      expect(uses(reply)[0]?.input.new_memory).toContain('Latest: 2.0.0');
    }
  });

  test('a message without release notes is answered with a sentence', () => {
    const reply = ask({ messages: [{ role: 'user', content: 'hello' }] });
    expect(reply.stop_reason).toBe('end_turn');
    expect(textOf(reply)).toContain('no release notes');
  });

  test('a message packed as JSON is read', () => {
    const packed = JSON.stringify({ type: 'user_message', message: prompt, time: 'now' });
    expect(uses(ask({ messages: [{ role: 'user', content: packed }] }))).toEqual(uses(ask({})));
  });

  test('only calls after the last release notes count', () => {
    const second = ask({ messages: afterSorting });
    const history = answered(afterSorting, second, () => ({ content: 'ok' }));
    const again = ask({ messages: [...history, { role: 'assistant', content: 'Done.' }, ...start] });
    expect(uses(again).map(({ name }) => name)).toEqual(['compare_versions']);
  });
});

describe('refused calls', () => {
  test('if versions cannot be compared by the tool, their numbers decide', () => {
    const messages = answered(start, ask({}), () => ({ content: 'timed out', is_error: true }));
    expect(uses(ask({ messages }))[0]?.input.new_memory).toContain('Latest: 2.1.0');
  });

  test('a write that failed is tried with another tool, the others are not repeated', () => {
    const second = ask({ messages: afterSorting });
    const [, failing] = uses(second);
    const messages = answered(afterSorting, second, (name) =>
      name === failing?.name ? { content: 'Conflict.', is_error: true } : { content: 'ok' },
    );
    const next = uses(ask({ messages }));
    expect(next.length).toBeGreaterThanOrEqual(1);
    expect(next.every(({ name }) => name !== failing?.name)).toBe(true);
    expect(next.every(({ input }) => input.label !== 'summary')).toBe(true);
  });

  test('it ends and says so when no tool can write', () => {
    let messages = afterSorting;
    for (let step = 0; step < 10; step += 1) {
      const reply = ask({ messages });
      if (reply.stop_reason === 'end_turn') {
        expect(textOf(reply)).toContain('I could not write summary and breaking_changes and security.');
        expect(step).toBeGreaterThan(1);
        return;
      }
      messages = answered(messages, reply, () => ({ content: '{"status":"Failed","message":"Conflict."}' }));
    }
    expect.fail('the script did not come to an end');
  });

  test.each(['Memory block is read-only and cannot be edited.', "Memory block 'security' does not exist."])(
    'no second attempt after %j',
    (content) => {
      const second = ask({ messages: afterSorting });
      const messages = answered(afterSorting, second, () => ({ content, is_error: true }));
      expect(ask({ messages }).stop_reason).toBe('end_turn');
    },
  );

  test('a block that the agent does not have is not written', () => {
    const reply = ask({ messages: afterSorting, memory: { summary: '', breaking_changes: '' } });
    expect(uses(reply).map(({ input }) => input.label)).toEqual(['summary', 'breaking_changes']);
  });

  test('without memory tools it ends at once', () => {
    expect(textOf(ask({ tools: ['send_message'] }))).toContain('I could not write');
  });

  test('a memory that is not shown is written as a whole', () => {
    const reply = askRaw(undefined, allTools, afterSorting);
    expect(uses(reply).map(({ name }) => name)).toEqual([
      'memory_rethink',
      'memory_rethink',
      'memory_rethink',
    ]);
  });
});

describe('the rewrite', () => {
  const old = {
    summary: '# thing 2.x\nLatest: 2.0.0\nReleases read: 2.0.0, 2.0.0-rc.1\nWhat 2.0.0 brings:\n- something',
    breaking_changes:
      'Note of the operator.\n# thing 2.x: breaking changes\n## 2.0.0\n- outdated\n## 2.0.0-rc.1\n- kept',
    security: '# thing 2.x: security\nThe notes read so far name none.',
  };
  const reply = ask({ messages: afterSorting, memory: old });

  test('what the memory knows of other releases, and what others wrote above, stays', () => {
    expect(uses(reply)).toContainEqual({
      name: 'memory_replace',
      input: { label: 'breaking_changes', old_string: '- outdated', new_string: '- the old way is gone' },
    });
    expect(uses(reply)[0]?.input.new_memory).toContain('Releases read: 2.1.0, 2.0.0, 2.0.0-rc.1');
  });

  test('an entry takes the place of the sentence that there is none', () => {
    expect(uses(reply)).toContainEqual({
      name: 'memory_replace',
      input: {
        label: 'security',
        old_string: 'The notes read so far name none.',
        new_string: '## 2.1.0\n- fix CVE-2026-12345',
      },
    });
  });

  test('older notes that come late do not make an old release the latest', () => {
    const summary = '# thing 2.x\nLatest: 2.2.0\nReleases read: 2.2.0\nWhat 2.2.0 brings:\n- news';
    const first = ask({ memory: { ...empty, summary } });
    expect(uses(first)[0]?.input).toEqual({ versions: ['2.1.0', '2.0.0', '2.2.0'] });
    const sorted = { content: '{"sorted":["2.0.0","2.1.0","2.2.0"],"latest":"2.2.0"}' };
    const second = ask({ memory: { ...empty, summary }, messages: answered(start, first, () => sorted) });
    expect(uses(second)[0]?.input.new_memory).toBe(
      '# thing 2.x\nLatest: 2.2.0\nReleases read: 2.2.0, 2.1.0, 2.0.0\nWhat 2.2.0 brings:\n- news',
    );
  });
});

describe('reading', () => {
  test('the memory section, with and without line numbers, to the last character', () => {
    const memory = { a: '', b: 'x\n\ny\n', c: '<value>\n1→ no number' };
    expect(Object.fromEntries(readMemory(render(memory)) ?? [])).toEqual(memory);
    const numbered =
      '<memory_blocks>\n<a>\n<value>\n1→ x\n2→ \n3→ y\n</value>\n</a>\n\n<b>\n<value>\n</value>\n</b>\n</memory_blocks>';
    expect(Object.fromEntries(readMemory([{ type: 'text', text: numbered }]) ?? [])).toEqual({
      a: 'x\n\ny',
      b: '',
    });
  });

  test('a closing tag that was made harmless is put back', () => {
    expect(readMemory(render({ a: 'x <\\/value> y' }))?.get('a')).toBe('x </value> y');
  });

  test('no memory section is not an empty one', () => {
    expect(readMemory('Be good.')).toBeUndefined();
    expect(readMemory(undefined)).toBeUndefined();
  });

  test('the last notes of a message count, and tabs become spaces', () => {
    const notes = readReleaseNotes(
      `${prompt}\n<release_notes package="p" line="1.x">\n<release version="1.0.0">\n-\ta`,
    );
    expect(notes).toEqual({
      package: 'p',
      line: '1.x',
      releases: [{ version: '1.0.0', date: undefined, lines: ['- a'] }],
    });
  });

  test('entries keep their further lines; a topic ends with its heading', () => {
    const lines = [
      '## Breaking',
      '- one',
      '  and more',
      '',
      '### part',
      '- two',
      '## Security',
      '* three',
      '## Fixes',
      '- four',
    ];
    const found = findEntries({ version: '1.0.0', date: undefined, lines });
    expect(found.breaking).toEqual([['one', 'and more'], ['two']]);
    expect(found.security).toEqual([['three']]);
    expect(found.all.length).toBe(4);
  });

  test.each([
    '- this is not a breaking change',
    '- a non-breaking change',
    '- breaking news',
    '- fix (a!: b)',
  ])('%j is no breaking change', (line) => {
    expect(findEntries({ version: '1.0.0', date: undefined, lines: [line] }).breaking).toEqual([]);
  });
});

describe('edits', () => {
  const names = (current: string, wanted: string) => edits('a', current, wanted).map(({ name }) => name);

  test('lines are inserted where they belong', () => {
    expect(edits('a', 'x\nz', 'x\ny\nz')).toEqual([
      { name: 'memory_insert', input: { label: 'a', new_string: 'y', insert_line: 1 } },
    ]);
    expect(names('x', 'x\ny')).toEqual(['memory_insert', 'core_memory_append']);
  });

  test('removed lines leave no empty line behind', () => {
    expect(edits('a', 'x\ny\nz', 'x\nz')[0]?.input).toEqual({
      label: 'a',
      old_string: 'x\ny',
      new_string: 'x',
    });
    expect(edits('a', 'y\nz', 'z')[0]?.input).toEqual({ label: 'a', old_string: 'y\nz', new_string: 'z' });
  });

  test('a replacement that would not be exact is not offered', () => {
    expect(names('y\nx\ny', 'y\nx\nz')).toEqual([]);
    expect(names('a\tb\ny', 'a\tb\nz')).toEqual([]);
  });
});
