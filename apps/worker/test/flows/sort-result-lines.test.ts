import { SHIPPED_PRICES, toCustomId } from '@nightshift/agent-core';
import { expect, test } from 'vitest';
import { sortLines } from '../../src/flow-parts/results/sort-result-lines.ts';
import type { Line } from '../../src/provider/line-splitter.ts';

const OURS = { nonce: 'aaaaaaaaaa' };
const THEIRS = 'bbbbbbbbbb';

function idOf(run: number, nonce = OURS.nonce): string {
  const run_id = `01a1fd04-e0bd-7ea3-b0fc-${run.toString(16).padStart(6, '0')}000000`;
  return toCustomId(nonce, { run_id, number: 1, attempt: 1 });
}

function answer(custom_id: string, text = 'Done.'): string {
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-haiku-4-5',
    stop_reason: 'end_turn',
    stop_sequence: null,
    content: [{ type: 'text', text }],
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  return JSON.stringify({ custom_id, result: { type: 'succeeded', message } });
}

function failure(custom_id: string, type: string, error_code?: string): string {
  const details = error_code === undefined ? {} : { details: { error_code } };
  const error = { type: 'error', error: { type, message: 'no', ...details } };
  return JSON.stringify({ custom_id, result: { type: 'errored', error } });
}

function linesOf(texts: readonly string[], isCut = false): readonly Line[] {
  return texts.map((text, index) => {
    return { kind: 'line', number: index + 1, text, terminated: !isCut || index < texts.length - 1 };
  });
}

function sort(texts: readonly string[], { isLastPass = true, isCut = false } = {}) {
  const sorted = sortLines(OURS, linesOf(texts, isCut), isLastPass, SHIPPED_PRICES);
  const entries = [...sorted.entries.values()];
  return {
    answers: entries.map(({ outcome }) => outcome.kind),
    aside: sorted.bad.map(({ line_number, reason }) => `${line_number} ${reason}`),
    cut: sorted.cut,
    accountTrouble: entries.find((entry) => entry.accountTrouble !== null)?.accountTrouble ?? null,
  };
}

const NOTHING = { answers: [], aside: [], cut: false, accountTrouble: null };

test.each([
  ['an answer to a step of ours', [answer(idOf(1))], { answers: ['answered'] }],
  ["an answer to a step of another batch's", [answer(idOf(1, THEIRS))], { aside: ['1 foreign'] }],
  ['an answer to an unknown step', [answer('hello')], { aside: ['1 foreign'] }],
  ['text that is not JSON', ['{"custom_id":'], { aside: ['1 unreadable'] }],
  ['the same line twice', [answer(idOf(1)), answer(idOf(1))], { answers: ['answered'] }],
  [
    'two answers to one step',
    [answer(idOf(1)), answer(idOf(1), 'No.')],
    { answers: ['answered'], aside: ['2 conflicting'] },
  ],
  [
    'a failure of our key',
    [failure(idOf(1), 'authentication_error')],
    { answers: ['errored'], accountTrouble: 'a result says authentication_error' },
  ],
  [
    'a failure of our organisation that reads like a fault of the request',
    [failure(idOf(1), 'invalid_request_error', 'organization_on_hold')],
    { answers: ['errored'], accountTrouble: 'a result says organization_on_hold' },
  ],
] as const)('%s', (_what, texts, expected) => {
  expect(sort(texts)).toEqual({ ...NOTHING, ...expected });
});

test('an unreadable line of ours is an answer only on the last pass, and is set aside on each', () => {
  const broken = `{"custom_id":"${idOf(1)}","result":{"type":"succeeded","message":\u00007}}`;
  expect(sort([broken], { isLastPass: false })).toEqual({ ...NOTHING, aside: ['1 unreadable'] });
  expect(sort([broken])).toEqual({ ...NOTHING, answers: ['unreadable'], aside: ['1 unreadable'] });
});

test('a last line that breaks off is no answer: the file is cut', () => {
  const text = answer(idOf(2));
  const texts = [answer(idOf(1)), text.slice(0, text.length / 2)];
  expect(sort(texts, { isCut: true })).toEqual({ ...NOTHING, answers: ['answered'], cut: true });
});

test('a line too long to be held is set aside as too long', () => {
  const head = answer(idOf(1)).slice(0, 200);
  const sortLong = (tail: string) => {
    const line: Line = { kind: 'too_long', number: 1, byte_length: 1_000_000, head, tail, terminated: true };
    return sortLines(OURS, [line], true, SHIPPED_PRICES);
  };
  const { entries, bad } = sortLong('nothing of use');
  expect([...entries.values()]).toMatchObject([{ outcome: { kind: 'unreadable', bill: null } }]);
  const aside = { reason: 'too_long', byte_length: 1_000_000, custom_id: idOf(1) };
  expect(bad).toMatchObject([{ ...aside, bill: null }]);
  // Its tail tells its cost, and that it is complete.
  const whole = sortLong(answer(idOf(1)).slice(-200));
  expect([...whole.entries.values()]).toMatchObject([
    { outcome: { kind: 'unusable', bill: { cost_nanousd: 3_000, usage: { output_tokens: 1 } } } },
  ]);
  expect(whole.bad).toMatchObject([{ ...aside, bill: { usage: { output_tokens: 1 } } }]);
});

test('an unusable answer counts in the first pass, an unreadable answer in the last; both are set aside with their cost', () => {
  const deep = answer(idOf(1)).replace('"Done."', `${'['.repeat(200)}${']'.repeat(200)}`);
  const garbled = answer(idOf(2)).replace('Done.', '\u0001');
  const sorted = (isLastPass: boolean) =>
    sortLines(OURS, linesOf([deep, garbled]), isLastPass, SHIPPED_PRICES);
  const first = sorted(false);
  const bill = { usage: { input_tokens: 1, output_tokens: 1 } };
  expect([...first.entries.values()]).toMatchObject([{ outcome: { kind: 'unusable', bill } }]);
  expect([...sorted(true).entries.values()]).toMatchObject([
    { outcome: { kind: 'unusable', bill } },
    { outcome: { kind: 'unreadable', bill } },
  ]);
  expect(first.bad).toMatchObject([
    { reason: 'unusable', bill },
    { reason: 'unreadable', bill },
  ]);
  const others = deep.replace(OURS.nonce, THEIRS);
  expect(sortLines(OURS, linesOf([others]), true, SHIPPED_PRICES)).toMatchObject({
    bad: [{ reason: 'foreign', bill: null }],
  });
});

test('a failure of the account or for lack of funds ends no run', () => {
  const texts = [
    failure(idOf(1), 'invalid_request_error', 'cmek_key_disabled'),
    failure(idOf(2), 'rate_limit_error', 'enforced_spend_limit_reached'),
  ];
  const { entries } = sortLines(OURS, linesOf(texts), true, SHIPPED_PRICES);
  expect([...entries.values()].map(({ outcome }) => outcome)).toMatchObject([
    { kind: 'errored', error_class: 'account' },
    { kind: 'errored', error_class: 'account' },
  ]);
});

test('a single line proves no outage, also if it names an overload', () => {
  const texts = ['overloaded_error', 'rate_limit_error', 'timeout_error', 'api_error'].map((type, run) =>
    failure(idOf(run), type),
  );
  const { entries } = sortLines(OURS, linesOf(texts), true, SHIPPED_PRICES);
  expect([...entries.values()].map(({ outcome }) => 'error_class' in outcome && outcome.error_class)).toEqual(
    ['overloaded', 'overloaded', 'overloaded', 'retryable'],
  );
});
