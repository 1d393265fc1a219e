import type { Json } from '../base/json.ts';
import { toolUsesOf, type ContentBlock } from '../model/content.ts';

/** What the rules know of a run so far. */
export interface RuleHistory {
  /** Names of the tools that were carried out in this run, in call order; one entry a call, never two. */
  readonly calls: readonly string[];
  /** Text of the last one's result; null before the first, and where a result has no text. */
  readonly last_result: string | null;
}

/** The history of a run that has called nothing. */
export const NO_HISTORY: RuleHistory = { calls: [], last_result: null };

/** A call of a run and what came of it. */
export interface PastCall {
  readonly tool_use_id: string;
  readonly tool_name: string;
  readonly input: Json;
  /** The text that the model was given; null while there is none. */
  readonly result: string | null;
  readonly is_error: boolean;
  /** False for a call that was refused before it could have had an effect. */
  readonly carried_out: boolean;
}

/** A message of a run, as far as calls and their results are concerned. */
export interface CallMessage {
  readonly role: string;
  readonly content: readonly ContentBlock[];
}

/**
 * The calls of each answer of a run, oldest first, with their results; answers without calls are left out. `messages`
 * are the messages of this run alone, in order. `refusedIds` are the tool use ids of calls that were refused (unknown
 * tool, unusable arguments, rules): those have a result and yet did not happen.
 *
 * A result belongs to the latest call of its id before it. Of calls with one id in one answer the first stands.
 */
export function callsOf(
  messages: readonly CallMessage[],
  refusedIds: ReadonlySet<string> = new Set(),
): readonly (readonly PastCall[])[] {
  const steps: Map<string, PastCall>[] = [];
  for (const { role, content } of messages) {
    if (role === 'assistant') {
      const step = new Map<string, PastCall>();
      for (const { id, name, input } of toolUsesOf(content)) {
        if (step.has(id)) continue;
        step.set(id, {
          tool_use_id: id,
          tool_name: name,
          input,
          result: null,
          is_error: false,
          carried_out: !refusedIds.has(id),
        });
      }
      if (step.size > 0) steps.push(step);
      continue;
    }
    for (const block of content) {
      const id = block['tool_use_id'];
      if (block.type !== 'tool_result' || typeof id !== 'string') continue;
      const step = steps.findLast((candidate) => candidate.has(id));
      const call = step?.get(id);
      if (step === undefined || call === undefined) continue;
      step.set(id, { ...call, result: resultText(block['content']), is_error: block['is_error'] === true });
    }
  }
  return steps.map((step) => [...step.values()]);
}

/** Text of a result's content; parts that are no text stand as their JSON. */
function resultText(content: Json | undefined): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content
    .map((part: Json) => {
      const text = typeof part === 'object' && part !== null && 'text' in part ? part['text'] : null;
      return typeof text === 'string' ? text : JSON.stringify(part);
    })
    .join('\n');
}

/** The history that calls in call order amount to. Refused ones never happened: they count for nothing. */
export function historyOf(
  calls: Iterable<Pick<PastCall, 'tool_name' | 'result' | 'carried_out'>>,
): RuleHistory {
  return withCalls(NO_HISTORY, calls);
}

/** The history after further calls. */
export function withCalls(
  history: RuleHistory,
  calls: Iterable<Pick<PastCall, 'tool_name' | 'result' | 'carried_out'>>,
): RuleHistory {
  const happened = [...calls].filter((call) => call.carried_out);
  const last = happened.at(-1);
  if (last === undefined) return history;
  return {
    calls: [...history.calls, ...happened.map((call) => call.tool_name)],
    last_result: last.result,
  };
}
