/** Simulates module tools and counts their effects by key and by arguments. */
import type { JsonObject } from '../libs/agent-core/src/index.ts';
import type { ModuleTool } from '../libs/db/src/index.ts';
import type { ToolReply, ToolRequest } from '../apps/worker/src/tools/runner.ts';
import { hash32, type Random } from './random.ts';

const input_schema: JsonObject = {
  type: 'object',
  properties: { note: { type: 'string' } },
  required: ['note'],
  additionalProperties: false,
};

const moduleTool = (name: string, side_effects: ModuleTool['side_effects']): ModuleTool => ({
  name,
  description: `Takes a note; its side effects: ${side_effects}.`,
  input_schema,
  side_effects,
  return_char_limit: 1_000,
  timeout_ms: 1_000,
});

export const MODULE_TOOLS: readonly ModuleTool[] = [
  moduleTool('look_up', 'none'),
  moduleTool('note_idempotent', 'idempotent'),
  moduleTool('note_once', 'once'),
];

/** Tools with side effects, whose receivers recognise repeats by their key. */
const ACTING = new Set(
  MODULE_TOOLS.filter(({ side_effects }) => side_effects !== 'none').map(({ name }) => name),
);

export interface ToolWorld {
  /** Returns the delay of the reply to a call. Unit: milliseconds. */
  delayMs(call: ToolRequest): number;
  run(calls: readonly ToolRequest[]): readonly ToolReply[];
  heal(): void;
  violations(): readonly { readonly name: string; readonly detail: string }[];
}

/** A call by its tool and arguments: no script repeats arguments. */
interface Ran {
  readonly tool_name: string;
  readonly keys: Set<string>;
  times: number;
}

/** End of the notes whose calls are always slow. */
export const SLOW_NOTE = ' slowly';
/** Shortest delay of a slow call, longer than replies are gathered; the longest is four times as long. */
const SLOW_MS = 1_000;

/** Creates the tools' world. `failing`: share of calls that fail, some after their effect. `slow`: share of slow calls. */
export function createToolWorld(random: Random, failing: number, slow = 0): ToolWorld {
  let trouble = failing;
  const ran = new Map<string, Ran>();
  const argumentsOf = new Map<string, string>();
  const notes: { readonly name: string; readonly detail: string }[] = [];
  return {
    delayMs(call) {
      const { note } = call.arguments as { note: string };
      const drawn = hash32(`slow ${note}`);
      const isSlow = note.endsWith(SLOW_NOTE) || drawn / 0x1_0000_0000 < slow;
      return isSlow ? SLOW_MS * (1 + (drawn % 4)) : 0;
    },
    heal() {
      trouble = 0;
    },
    run: (calls) =>
      calls.map((call): ToolReply => {
        const { call_id, idempotency_key: key, tool_name } = call;
        const args = JSON.stringify([tool_name, call.arguments]);
        const same = ran.get(args) ?? { tool_name, keys: new Set<string>(), times: 0 };
        ran.set(args, same);
        same.keys.add(key);
        same.times += 1;
        const earlier = argumentsOf.get(key);
        if (earlier !== undefined && earlier !== args)
          notes.push({ name: 'tool_key_reused', detail: `${key}: ${earlier}, then ${args}` });
        argumentsOf.set(key, args);
        if (random.chance(trouble)) {
          const status = random.pick(['failed', 'timed_out', 'crashed'] as const);
          return { call_id, status, result: `It ${status}.`, duration_ms: 3, started: true };
        }
        return {
          call_id,
          status: 'succeeded',
          result: `noted ${(call.arguments as { note: string }).note}`,
          duration_ms: 3,
          started: true,
        };
      }),
    violations() {
      const acting = [...ran].filter(([, { tool_name }]) => ACTING.has(tool_name));
      const twice = acting.filter(([, { tool_name, times }]) => tool_name === 'note_once' && times > 1);
      const renewed = acting.filter(([, { keys }]) => keys.size > 1);
      return [
        ...notes,
        ...twice.map(([call, { times }]) => ({
          name: 'once_tool_ran_twice',
          detail: `${call} ran ${times} times`,
        })),
        ...renewed.map(([call, { keys }]) => ({
          name: 'tool_key_renewed',
          detail: `${call} ran as ${[...keys].join(', ')}`,
        })),
      ];
    },
  };
}
