/** Module tools with effects that are counted, by the key that each call carries. */
import type { JsonObject } from '../libs/agent-core/src/index.ts';
import type { ModuleTool } from '../libs/db/src/index.ts';
import type { ToolReply, ToolRequest } from '../apps/worker/src/flows/deps.ts';
import type { Random } from './random.ts';

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

export interface ToolWorld {
  run(calls: readonly ToolRequest[]): readonly ToolReply[];
  heal(): void;
  violations(): readonly { readonly name: string; readonly detail: string }[];
  /** How often each call ran, by idempotency key. */
  readonly ran: ReadonlyMap<string, number>;
}

/** The world that tools act on. With `failing`, so many of the calls end badly: some after they took effect. */
export function createToolWorld(random: Random, failing: number): ToolWorld {
  let trouble = failing;
  const ran = new Map<string, number>();
  const argumentsOf = new Map<string, string>();
  const nameOf = new Map<string, string>();
  const notes: { readonly name: string; readonly detail: string }[] = [];
  return {
    ran,
    heal() {
      trouble = 0;
    },
    run: (calls) =>
      calls.map((call): ToolReply => {
        const { call_id, idempotency_key: key, tool_name } = call;
        ran.set(key, (ran.get(key) ?? 0) + 1);
        nameOf.set(key, tool_name);
        const args = JSON.stringify([tool_name, call.arguments]);
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
      const twice = [...ran].filter(([key, times]) => nameOf.get(key) === 'note_once' && times > 1);
      return [
        ...notes,
        ...twice.map(([key, times]) => ({
          name: 'once_tool_ran_twice',
          detail: `call ${key} ran ${times} times`,
        })),
      ];
    },
  };
}
