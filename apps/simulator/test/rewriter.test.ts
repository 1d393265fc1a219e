import { expect, test } from 'vitest';
import { callsOf, converse, params, textIn } from './support/converse.ts';

/** A memory block as a request shows it. */
const block = (label: string, value: string, description = '', limit = 1_000): string => {
  const lines =
    value === ''
      ? ''
      : value
          .split('\n')
          .map((line, index) => `${index + 1}→ ${line}\n`)
          .join('');
  const metadata = `<metadata>\n- chars_current=${value.length}\n- chars_limit=${limit}\n</metadata>`;
  return `<${label}>\n<description>\n${description}\n</description>\n${metadata}\n<value>\n${lines}</value>\n</${label}>\n`;
};

/** Converses about a rewrite of `summary` and `wishes`. Returns the calls and the last text. */
function rewrite(
  said: readonly { readonly role?: string; readonly text: string }[],
  blocks = [block('summary', ''), block('wishes', '', 'Wishes (prefer).'), block('persona', 'Kind.')],
) {
  const messages = said.map(
    ({ role = 'user', text }) =>
      `<message role="${role}" at="2026-11-30 09:12 UTC" name="Ann">\n${text}\n</message>`,
  );
  const input = [
    '<task>\nBlocks to rewrite: summary, wishes. Every other block is context only.\n</task>',
    `<new_messages>\n${messages.join('\n')}\n</new_messages>`,
  ].join('\n\n');
  const memory = `<memory_blocks>\n${blocks.join('\n')}\n</memory_blocks>`;
  const system = [
    { type: 'text', text: 'Rewrite.' },
    { type: 'text', text: memory },
  ];
  const answers = converse(params(input, { system, tools: [] }));
  return {
    calls: answers.flatMap((answered) => callsOf(answered).map(({ name, input: args }) => [name, args])),
    turns: answers.length,
    text: textIn(answers.at(-1)),
  };
}

test('the first block gets the first line of each user message, others the lines that belong to them', () => {
  const text = 'We move to Berlin.\nI prefer letters.\nWishes:\n- a quiet room\nOther:\n- thanks';
  expect(rewrite([{ text }, { role: 'assistant', text: 'I prefer nothing.' }, { text: 'In May.' }])).toEqual({
    calls: [
      [
        'memory_rethink',
        { label: 'summary', new_memory: '- We move to Berlin. (2026-11-30)\n- In May. (2026-11-30)' },
      ],
      [
        'memory_rethink',
        { label: 'wishes', new_memory: '- I prefer letters. (2026-11-30)\n- a quiet room (2026-11-30)' },
      ],
    ],
    turns: 2,
    text: expect.stringMatching(/^Done after 2 tool results/),
  });
});

test('a named line replaces the line of that name, and other lines are added at the end', () => {
  const blocks = [block('summary', '- Plan: basic (2026-10-01)\n- Born in Oslo. (2026-10-01)')];
  expect(rewrite([{ text: 'Plan: gold' }, { text: 'A new dog.' }], blocks).calls).toEqual([
    [
      'memory_replace',
      {
        label: 'summary',
        old_string: '- Plan: basic (2026-10-01)',
        new_string: '- Plan: gold (2026-11-30)',
      },
    ],
    ['memory_insert', { label: 'summary', new_string: '- A new dog. (2026-11-30)', insert_line: -1 }],
  ]);
});

test('without new facts it makes no call', () => {
  const blocks = [block('summary', '- Hello. (2026-11-30)')];
  for (const said of [[], [{ role: 'assistant', text: 'Hello.' }], [{ text: 'Hello.' }]])
    expect(rewrite(said, blocks)).toEqual({ calls: [], turns: 1, text: 'Nothing changed.' });
});

test('a block at its limit loses its oldest lines', () => {
  const blocks = [block('summary', '- Old. (2026-10-01)\n- Newer. (2026-10-02)', '', 45)];
  expect(rewrite([{ text: 'New.' }], blocks).calls).toEqual([
    ['memory_rethink', { label: 'summary', new_memory: '- Newer. (2026-10-02)\n- New. (2026-11-30)' }],
  ]);
});

test('a plan in the messages comes first', () => {
  expect(rewrite([{ text: 'Hello.\n{"tool":"memory_rethink","args":{"label":"summary"}}' }]).calls).toEqual([
    ['memory_rethink', { label: 'summary' }],
  ]);
});
