import { SHIPPED_PRICES, type ToolChoice, type ToolDefinition } from '@nightshift/agent-core';
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
  const facts = { now, requested, agents, prices: SHIPPED_PRICES, tools: new Set(['ask', 'tell']) };
  return planBatch({ runs, shared_path: null, ...more }, facts);
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

  describe('with a choice of tools', () => {
    const choose = (choice: Partial<ToolChoice>): ToolChoice => ({
      ...{ add: [], remove: [], only: null },
      ...choice,
    });
    const served = (name: string): ToolDefinition => ({ ...tool(name), kind: 'memory' });

    test('is refused for names of no tool, once where the choice is shared, at the batch or the request', () => {
      const [own, shared] = [
        choose({ remove: ['none'], only: ['ask', 'gone'] }),
        choose({ add: ['ask', 'away'] }),
      ];
      const runs = [run('a', { tools: shared }), run('a', { tools: own }), run('a', { tools: shared })];
      const known = { a: agent() };
      const refused = plan(runs, known, { tools: shared });
      expect(refused).toMatchObject({
        refusal: {
          code: 'validation_failed',
          message:
            "/tools/add/1: there is no tool named 'away'; GET /v1/tools/ lists all tools. Nothing was stored.",
        },
      });
      expect(pathsOf(refused)).toEqual([
        '/tools/add/1',
        '/requests/1/tools/remove/0',
        '/requests/1/tools/only/1',
      ]);
      const many = choose({ add: Array.from({ length: 250 }, (_, index) => `none_${index}`) });
      const long = plan([run('a', { tools: many })], known);
      expect(pathsOf(long)).toHaveLength(100);
      expect(long).toMatchObject({ refusal: { fields_total: 250 } });
      const template = plan([run('a', { tools: own })], known, { shared_path: '/template' });
      expect(pathsOf(template)).toEqual(['/template/tools/remove/0', '/template/tools/only/1']);
    });

    test('is refused for a kept tool that neither the agent nor the choice has', () => {
      const tools = choose({ only: ['ask', 'tell'] });
      const doubts = { tool_rules: [], tools: [served('ask'), tool('tell')] };
      const known = {
        fit: agent({ doubts: { ...doubts, tools: [served('ask'), served('tell')] } }),
        less: agent({ definition_id: 'less', doubts }),
      };
      const runs = [run('fit', { tools }), run('less', { tools })];
      expect(pathsOf(plan(runs, known))).toEqual(['/requests/1/tools/only/1']);
      expect(plan(runs, known, { tools })).toMatchObject({
        refusal: {
          message:
            "/requests/1/agent_id lacks the tool 'tell', which tools/only of the batch names. Nothing was stored.",
        },
      });
    });

    test('is refused if it leaves rules that cannot be kept, even where another choice led to the same definition', () => {
      const tool_rules = [{ type: 'run_first', tool_name: 'ask' }];
      const none = agent({ doubts: { tool_rules, tools: [served('tell')] } });
      expect(pathsOf(plan([run('a', { tools: choose({ remove: ['ask'] }) })], { a: none }))).toEqual([
        '/requests/0/tools',
      ]);
      const same = agent({ doubts: { tool_rules: [], tools: [served('ask')] } });
      const runs = [
        run('a', { tools: choose({ only: ['ask'] }) }),
        run('a', { tools: choose({ only: ['ask', 'tell'] }) }),
      ];
      expect(pathsOf(plan(runs, { a: same }))).toEqual(['/requests/1/tools/only/1']);
    });

    test('is refused for an added tool that must be called before the end, but that the rules never allow', () => {
      const tool_rules = [
        { type: 'run_first', tool_name: 'ask' },
        { type: 'constrain_child_tools', tool_name: 'ask', children: ['ask'] },
        { type: 'required_before_exit', tool_name: 'tell' },
      ];
      const doubts = { tool_rules, tools: [served('ask'), served('tell')] };
      const tools = choose({ add: ['tell'] });
      expect(pathsOf(plan([run('a', { tools })], { a: agent({ doubts }) }))).toEqual(['/requests/0/tools']);
    });
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
