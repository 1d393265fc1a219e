import type { ContentBlock, JsonObject } from './script.ts';

/** One call that a task asks for. */
export interface PlannedCall {
  readonly tool: string;
  readonly args: JsonObject;
}

interface PlanLine {
  tool?: unknown;
  args?: unknown;
  parallel?: unknown;
}

/** Reads a plan entry; undefined when the value is none. */
export function plannedCall(value: unknown): (PlannedCall & { readonly parallel: boolean }) | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { tool, args, parallel } = value as PlanLine;
  if (typeof tool !== 'string') return undefined;
  const isObject = typeof args === 'object' && args !== null && !Array.isArray(args);
  return { tool, args: isObject ? (args as JsonObject) : {}, parallel: parallel === true };
}

/**
 * The plan in a text: each line that is a JSON object with a `tool` is a call, one per turn; `"parallel": true` puts it
 * into the turn of the call before it. Other lines say nothing.
 */
export function planIn(text: string): PlannedCall[][] {
  const turns: PlannedCall[][] = [];
  if (!text.includes('"tool"')) return turns;
  for (const line of text.split('\n')) {
    const trimmed = line.trim();
    if (!trimmed.startsWith('{') || !trimmed.endsWith('}')) continue;
    let value: unknown;
    try {
      value = JSON.parse(trimmed);
    } catch {
      continue;
    }
    const call = plannedCall(value);
    if (call === undefined) continue;
    const last = turns.at(-1);
    if (call.parallel && last !== undefined) last.push(call);
    else turns.push([call]);
  }
  return turns;
}

/** A tool call; its id is filled in when the answer is written. */
export function toolUse(tool: string, args: JsonObject): ContentBlock {
  return { type: 'tool_use', name: tool, input: args };
}
