import { expect, test } from 'vitest';
import { createConfirmations, TOKEN_MS } from '../src/mcp/confirmations.ts';

const CALL = { tool: 'retry_batch', input: { batch_id: 'job-1', states: ['failed'] }, state: { runs: 3 } };

function open() {
  let now = 0;
  const confirmations = createConfirmations(() => now);
  const { token, expiresAt } = confirmations.issue(CALL);
  return { confirmations, token, expiresAt, pass: (ms: number) => (now += ms) };
}

test('a token confirms its call once, whatever the order of names', () => {
  const { confirmations, token, expiresAt } = open();
  expect(Date.parse(expiresAt)).toBe(TOKEN_MS);
  const same = { state: { runs: 3 }, input: { states: ['failed'], batch_id: 'job-1' }, tool: 'retry_batch' };
  confirmations.check(token, same);
  confirmations.take(token, same);
  expect(() => confirmations.check(token, same)).toThrow('is unknown, used or older than ten minutes');
});

test.for([
  { ...CALL, tool: 'cancel_batch' },
  { ...CALL, input: { batch_id: 'job-1', states: ['expired'] } },
  { ...CALL, input: { batch_id: 'job-1' } },
])('a token refuses another call, and stays valid for its own: %o', (other) => {
  const { confirmations, token } = open();
  expect(() => confirmations.take(token, other)).toThrow('belongs to other arguments');
  confirmations.take(token, CALL);
});

test('a token is used up by a call whose state has changed', () => {
  const { confirmations, token } = open();
  const changed = { ...CALL, state: { runs: 4 } };
  expect(() => confirmations.take(token, changed)).toThrow('Its state has changed since the dry run');
  expect(() => confirmations.take(token, CALL)).toThrow('is unknown, used');
});

test('a token holds for ten minutes', () => {
  const { confirmations, token, pass } = open();
  pass(TOKEN_MS - 1);
  confirmations.check(token, CALL);
  pass(1);
  expect(() => confirmations.check(token, CALL)).toThrow('older than ten minutes');
});

test('a token that is given back holds again, also for a state that its own call may have changed', () => {
  const { confirmations, token } = open();
  expect(confirmations.check(token, CALL)).toEqual({ wasSent: false });
  confirmations.take(token, CALL);
  confirmations.giveBack(token, CALL);
  expect(confirmations.check(token, CALL)).toEqual({ wasSent: true });
  confirmations.take(token, { ...CALL, state: { runs: 0 } });
  expect(() => confirmations.check(token, CALL)).toThrow('is unknown, used');
});

test('a thousand tokens are kept', () => {
  const { confirmations, token } = open();
  for (let count = 0; count < 1_000; count++) confirmations.issue(CALL);
  expect(() => confirmations.check(token, CALL)).toThrow('is unknown');
});
