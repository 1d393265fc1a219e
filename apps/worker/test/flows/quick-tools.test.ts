import { expect, test } from 'vitest';
import { createQuickTools, type QuickTools } from '../../src/flows/quick-tools.ts';

const POLICY = { calls_min: 4, mean_ms_max: 2, call_ms_max: 100 };

function observe(tools: QuickTools, times: number, duration_ms = 0.1): void {
  for (let time = 0; time < times; time++) tools.observe('look_up', { status: 'succeeded', duration_ms });
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

test('a call that fails at once is a quick one', () => {
  const tools = createQuickTools(POLICY);
  for (let time = 0; time < 4; time++) tools.observe('look_up', { status: 'failed', duration_ms: 0.1 });
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test.each([
  ['takes long', { status: 'succeeded', duration_ms: 100 }],
  ['runs out of time', { status: 'timed_out', duration_ms: 5 }],
  ['breaks off', { status: 'crashed', duration_ms: 0 }],
] as const)('a single call that %s makes its tool prove itself anew', (_what, reply) => {
  const tools = createQuickTools(POLICY);
  observe(tools, 50);
  tools.observe('look_up', reply);
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 4);
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});

test('a tool whose calls take a while on average is none, though no single call is long', () => {
  const tools = createQuickTools(POLICY);
  observe(tools, 200, 10);
  expect(tools.worthTrying('look_up')).toBe(0);
  observe(tools, 200, 0.1);
  expect(tools.worthTrying('look_up')).toBe(Infinity);
});
