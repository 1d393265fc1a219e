import { SHIPPED_PRICES, type ToolDefinition } from '@nightshift/agent-core';
import { distinctDefinitions, requestedDefinitions, type NewRun, type RunAgent } from '@nightshift/db';
import { describe, expect, test } from 'vitest';
import { planBatch, type PlannableBatch } from '../src/index.ts';

const now = new Date('2026-01-01T00:00:00Z');
const past = '2026-01-01T01:00:00+01:00';
const dollars = { cost_nanousd: 1_000_000_000, output_tokens: null };

const run = (agent_id: string, more: Partial<NewRun> = {}): NewRun => ({
  agent_id,
  custom_id: null,
  max_steps: 10,
  messages: [],
  isolated: true,
  ...more,
});

const agent = (more: Partial<RunAgent> = {}): RunAgent => ({
  conversation_id: 'conversation',
  definition_id: 'definition',
  is_stored: true,
  model: 'anthropic/claude-haiku-4-5',
  context_window_limit: 200_000,
  doubts: null,
  ...more,
});

const tool = (name: string): ToolDefinition => ({
  name,
  kind: 'client',
  description: '',
  input_schema: { type: 'object' },
  side_effects: 'none',
  return_char_limit: 1_000,
  timeout_ms: 1_000,
  requires_approval: false,
});

/** Plans a batch of runs; an agent without an entry does not exist. */
function plan(
  runs: readonly NewRun[],
  known: Readonly<Record<string, RunAgent>>,
  more: Partial<PlannableBatch> = {},
) {
  const requested = requestedDefinitions(runs);
  const agents = new Map(
    distinctDefinitions(requested).flatMap(({ key, agent_id }) => {
      const found = known[agent_id];
      return found === undefined ? [] : [[key, found] as const];
    }),
  );
  return planBatch({ runs, shared_path: null, ...more }, { now, requested, agents, prices: SHIPPED_PRICES });
}

function pathsOf(planned: ReturnType<typeof planBatch>): readonly string[] {
  return planned.kind === 'plan' ? [] : planned.refusal.fields.map(({ path }) => path);
}

describe('the plan of a batch', () => {
  test('has the agent of each run, in request order', () => {
    const [a, b] = [agent({ definition_id: 'a' }), agent({ definition_id: 'b' })];
    expect(plan([run('b'), run('a'), run('b')], { a, b })).toEqual({ kind: 'plan', agents: [b, a, b] });
  });

  test('is refused for up to a hundred passed deadlines, that of the batch first', () => {
    const runs = [
      run('a', { deadline: '2026-01-01T00:00:01Z' }),
      ...Array<NewRun>(200).fill(run('a', { deadline: past })),
    ];
    const paths = pathsOf(plan(runs, { a: agent() }, { deadline: past }));
    expect(paths).toHaveLength(100);
    expect(paths.slice(0, 2)).toEqual(['/deadline', '/requests/1/deadline']);
  });

  test('is refused for a message that is longer than the context window at eight bytes a token, with its size', () => {
    const say = (text: string) => ({
      messages: [{ role: 'user' as const, content: [{ type: 'text', text }], otid: null, name: null }],
    });
    const small = agent({ context_window_limit: 1_000 });
    const runs = [
      run('a', say('x'.repeat(7_900))),
      run('a', say('ä'.repeat(4_000))),
      run('a', say('x'.repeat(8_000))),
    ];
    const planned = plan(runs, { a: small });
    expect(pathsOf(planned)).toEqual(['/requests/1', '/requests/2']);
    expect(planned).toMatchObject({
      refusal: {
        code: 'validation_failed',
        message:
          '/requests/1 has a message of 8027 bytes, which are at least 1004 tokens; the context window of agent-a holds ' +
          '1000: shorten the message, or raise context_window_limit. Nothing was stored.',
      },
    });
    expect(plan(runs, { a: agent() }).kind).toBe('plan');
    const shared = plan(runs, { a: small }, { shared_path: '/template' });
    expect(pathsOf(shared)).toEqual(['/inputs/1/variables', '/inputs/2/variables']);
  });

  test('is refused once for the deadline, agent or tool of a template', () => {
    const shared = { shared_path: '/template' };
    const late = run('a', { deadline: past });
    expect(pathsOf(plan([late, late], { a: agent() }, shared))).toEqual(['/template/deadline']);
    expect(pathsOf(plan([run('x'), run('x')], {}, shared))).toEqual(['/template/agent_id']);
    const doubts = { tool_rules: [], tools: [tool('ask'), tool('ask')] };
    const twins = plan([run('a'), run('a')], { a: agent({ doubts }) }, shared);
    expect(pathsOf(twins)).toEqual(['/template/client_tools']);
  });

  test('is refused with the pointer of each unknown agent', () => {
    const refused = plan([run('a'), run('x'), run('y')], { a: agent() });
    expect(refused).toMatchObject({
      refusal: {
        code: 'not_found',
        message: 'There is no agent agent-x. 1 more are unknown. Nothing was stored.',
        fields: [{ path: '/requests/1/agent_id' }, { path: '/requests/2/agent_id' }],
      },
    });
  });

  test('is refused for a duplicate tool, and for a rule with a missing tool', () => {
    const twins = agent({
      definition_id: 'twins',
      doubts: { tool_rules: [], tools: [tool('ask'), tool('ask')] },
    });
    const loose = agent({
      definition_id: 'loose',
      doubts: { tool_rules: [{ type: 'run_first', tool_name: 'ask' }], tools: [] },
    });
    const fit = agent({ doubts: { tool_rules: [], tools: [tool('ask')] } });
    expect(pathsOf(plan([run('fit'), run('twins')], { fit, twins }))).toEqual(['/requests/1/client_tools']);
    expect(pathsOf(plan([run('fit'), run('loose')], { fit, loose }))).toEqual(['/requests/1/agent_id']);
  });

  test('is refused for a cap in dollars, of the batch or a run, on a model without a price', () => {
    const known = { a: agent(), b: agent({ model: 'anthropic/unpriced' }) };
    const capped = run('b', { cap: dollars });
    expect(pathsOf(plan([run('a'), run('b')], known, { cap: dollars }))).toEqual(['/max_cost_usd']);
    expect(pathsOf(plan([run('a'), capped], known))).toEqual(['/requests/1/max_cost_usd']);
    expect(pathsOf(plan([run('a'), run('b')], known))).toEqual([]);
    const tokens = { cap: { cost_nanousd: null, output_tokens: 5 } };
    expect(pathsOf(plan([run('b')], known, tokens))).toEqual([]);
  });
});
