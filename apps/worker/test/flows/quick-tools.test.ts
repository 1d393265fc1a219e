import { expect, test } from 'vitest';
import {
  createQuickTools,
  QUICK_TOOLS_POLICY_DEFAULT,
  type ObservedCall,
  type QuickTools,
} from '../../src/flow-parts/calls/quick-tools.ts';

const POLICY = { ...QUICK_TOOLS_POLICY_DEFAULT, calls_min: 4, mean_ms_max: 2, call_ms_max: 100 };
const QUICK: ObservedCall = { status: 'succeeded', duration_ms: 0.1, started: true, result: 'here' };

function observe(tools: QuickTools, times: number, call: Partial<ObservedCall> = {}): void {
  for (let time = 0; time < times; time++) tools.observe('look_up', { ...QUICK, ...call });
}

test('a few calls of an unknown tool are tried', () => {
  expect(createQuickTools(POLICY).worthTrying('look_up')).toBe(4);
});

test('a tool is quick after enough fast calls in a row, and each tool separately', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 3);
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 1);
  expect(tools.worthTrying('look_up')).toBe(Infinity);
  expect(tools.worthTrying('other')).toBe(4);
});

test('no call is tried if calls may take no time', () => {
  const tools = createQuickTools({ ...POLICY, chunk_ms_max: 0 });
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 50);
  expect(tools.worthTrying('look_up')).toBe(0);
});

test('a call that fails at once is quick', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 4, { status: 'failed' });
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test.each([
  ['is slow', { duration_ms: 100 }],
  ['times out', { status: 'timed_out' }],
  ['breaks off', { status: 'crashed' }],
  ['has a very long result', { result: 'x'.repeat(50_001) }],
] as const)('a single call that %s makes its tool slow, for twice as many calls each time', (_what, call) => {
  const tools = createQuickTools(POLICY);
  observe(tools, 50);
  for (const needed of [8, 16, 32]) {
    observe(tools, 1, call);
    expect(tools.worthTrying('look_up')).toBe(0);
    observe(tools, needed - 1);
    expect(tools.worthTrying('look_up')).toBe(0);
    observe(tools, 1);
    expect(tools.worthTrying('look_up')).toBe(Infinity);
  }
});

test('a call that never started tells nothing about its tool', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 4);
  observe(tools, 1, { status: 'crashed', started: false });
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test('a tool with a slow average is not quick, even without a single long call', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 200, { duration_ms: 10 });
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 200);
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test('a skipped name is not tried, until calls of that name prove quick', () => {
  const tools = createQuickTools(POLICY);
  tools.skip('core_memory_append');
  expect(tools.worthTrying('core_memory_append')).toBe(0);
  for (let time = 0; time < 4; time++) tools.observe('core_memory_append', QUICK);
  expect(tools.worthTrying('core_memory_append')).toBe(Infinity);
});

test('only a limited number of names is remembered, and no further name is tried', () => {
  const tools = createQuickTools(POLICY);
  for (let name = 0; name < 2_000; name++) tools.skip(`made up ${name}`);
  expect(tools.worthTrying('one more')).toBe(0);
});
