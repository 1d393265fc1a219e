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

test('of a tool that nobody has called a few calls are tried', () => {
  expect(createQuickTools(POLICY).worthTrying('look_up')).toBe(4);
});

test('a tool is quick once enough calls in a row came back at once, and each tool for itself', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 3);
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 1);
  expect(tools.worthTrying('look_up')).toBe(Infinity);
  expect(tools.worthTrying('other')).toBe(4);
});

test('none is worth trying where calls may take no time', () => {
  const tools = createQuickTools({ ...POLICY, chunk_ms_max: 0 });
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 50);
  expect(tools.worthTrying('look_up')).toBe(0);
});

test('a call that fails at once is a quick one', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 4, { status: 'failed' });
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test.each([
  ['takes long', { duration_ms: 100 }],
  ['runs out of time', { status: 'timed_out' }],
  ['breaks off', { status: 'crashed' }],
  ['has a result that thousands of would fill the memory', { result: 'x'.repeat(50_001) }],
] as const)(
  'a single call that %s makes its tool prove itself anew, for twice as long each time',
  (_what, call) => {
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
  },
);

test('a call that was never entered says nothing of its tool', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 4);
  observe(tools, 1, { status: 'crashed', started: false });
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test('a tool whose calls take a while on average is none, though no single call is long', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 200, { duration_ms: 10 });
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 200);
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test('a name that is passed over is not tried, until calls of a tool of that name prove quick', () => {
  const tools = createQuickTools(POLICY);
  tools.passOver('core_memory_append');
  expect(tools.worthTrying('core_memory_append')).toBe(0);
  for (let time = 0; time < 4; time++) tools.observe('core_memory_append', QUICK);
  expect(tools.worthTrying('core_memory_append')).toBe(Infinity);
});

test('names are remembered up to a number, and none beyond it is tried', () => {
  const tools = createQuickTools(POLICY);
  for (let name = 0; name < 2_000; name++) tools.passOver(`made up ${name}`);
  expect(tools.worthTrying('one more')).toBe(0);
});
