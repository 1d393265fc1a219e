import type { LettaMessage } from '@nightshift/client';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { entriesOf } from '../src/pages/run-entries.ts';
import { Turn } from '../src/pages/run-turn.tsx';

/** Renders a call whose tool printed. */
function renderCall(stdout: readonly string[] | null, stderr: readonly string[] | null): string {
  const call = { name: 'look', arguments: '{}', tool_call_id: 'toolu_1' };
  const ended = { tool_return: 'done', status: 'success', tool_call_id: 'toolu_1', stdout, stderr };
  const entries = entriesOf([
    { message_type: 'tool_call_message', otid: 'a', step_id: null, tool_calls: [call] },
    { message_type: 'tool_return_message', otid: 'b', step_id: null, tool_returns: [ended] },
  ] as unknown as readonly LettaMessage[]);
  return entries.map((entry) => renderToStaticMarkup(createElement(Turn, { entry, isOpen: false }))).join('');
}

test('a call shows printed output as text, and nothing without any', () => {
  const shown = renderCall(['<script>alert(1)</script>\n'], ['lost']);
  expect(shown).toContain('Output</h3><pre class="code">&lt;script&gt;alert(1)&lt;/script&gt;\n</pre>');
  expect(shown).toContain('Error output</h3><pre class="code">lost</pre>');
  const plain = renderCall(null, null);
  expect(plain).toContain('done');
  expect(plain).not.toContain('utput');
});
