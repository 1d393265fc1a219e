import type { ContentBlock, JsonObject, Message } from './script.ts';

/** One call of a task's plan. */
export interface PlannedCall {
  readonly tool: string;
  readonly args: JsonObject;
}

interface PlanLine {
  tool?: unknown;
  args?: unknown;
  parallel?: unknown;
}

/** Parses a plan entry; undefined for any other value. */
export function plannedCall(value: unknown): (PlannedCall & { readonly parallel: boolean }) | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { tool, args, parallel } = value as PlanLine;
  if (typeof tool !== 'string') return undefined;
  const isObject = typeof args === 'object' && args !== null && !Array.isArray(args);
  return { tool, args: isObject ? (args as JsonObject) : {}, parallel: parallel === true };
}

/**
 * Parses the plan in a text: each line that is a JSON object with a `tool` is a call, one per turn. `"parallel": true` adds a
 * call to the turn of the call before it. Other lines are ignored.
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

/** Returns the rest of a plan after the calls in the assistant's `messages`; a message without calls counts as a turn. */
export function planLeft(
  turns: readonly (readonly PlannedCall[])[],
  messages: readonly Message[],
): PlannedCall[][] {
  let left = turns.map((turn) => [...turn]);
  for (const { role, content } of messages) {
    if (role !== 'assistant') continue;
    const uses = typeof content === 'string' ? [] : content.filter(({ type }) => type === 'tool_use');
    if (uses.length === 0) left = left.slice(1);
    for (const { name } of uses) {
      const turn = left.find((calls) => calls.some(({ tool }) => tool === name));
      turn?.splice(
        turn.findIndex(({ tool }) => tool === name),
        1,
      );
    }
    left = left.filter((calls) => calls.length > 0);
  }
  return left;
}

/** Returns the `answer` of the last line that is a JSON object with one; undefined without such a line. */
export function answerIn(text: string): unknown {
  if (!text.includes('"answer"')) return undefined;
  for (const line of text.split('\n').toReversed()) {
    try {
      const value = JSON.parse(line) as { answer?: unknown } | null;
      if (value?.answer !== undefined) return value.answer;
    } catch {
      // The line is not JSON.
    }
  }
  return undefined;
}

/** Creates a tool call; its id is added when the answer is written. */
export function toolUse(tool: string, args: JsonObject): ContentBlock {
  return { type: 'tool_use', name: tool, input: args };
}
