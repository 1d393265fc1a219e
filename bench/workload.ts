/**
 * The workload of every engine: N runs of three steps; the first two end in one tool call.
 * A result line has 1,500 bytes; a tool's result has 214 characters.
 */

export const STEPS = 3;
/** Messages of a finished run: the user's, one answer per step, one tool result per step but the last. */
export const MESSAGES_PER_RUN = 1 + STEPS + (STEPS - 1);
export const LINE_BYTES = 1_500;
export const TOOL_RESULT_CHARS = 214;
export const TEXT_CHARS = 640;
export const MODEL = 'claude-haiku-4-5';
export const SYSTEM_PROMPT =
  'You keep the records of one customer. Look up what you need, one thing at a time, then write the summary.';

/**
 * Tool of the two calls: `module` answers at once, `waiting` waits for a service in a thread, `concurrent` beside other calls.
 */
export type Scenario = 'module' | 'waiting' | 'concurrent';

const TOOL_OF: Readonly<Record<Scenario, string>> = {
  module: 'look_up',
  waiting: 'ask_service',
  concurrent: 'ask_service_together',
};

/** Characters of a custom_id: ten of nonce, 32 of step, one of attempt, two dashes. */
export const CUSTOM_ID_CHARS = 45;

/** A result line, cut at its custom_id. */
export interface LineTemplate {
  readonly head: Buffer;
  readonly tail: Buffer;
}

const PROSE =
  'The account was opened in spring and has grown since; invoices are paid within the month, with two exceptions. ';

function prose(chars: number): string {
  return PROSE.repeat(Math.ceil(chars / PROSE.length)).slice(0, chars);
}

/** Returns the tool call of step `step`. */
export function toolCall(
  scenario: Scenario,
  step: number,
): { readonly name: string; readonly input: object } {
  return {
    name: TOOL_OF[scenario],
    input: { customer: 'c-0001234', question: prose(80), depth: step },
  };
}

function lineOf(customId: string, content: readonly object[], stopReason: string, padding: string): string {
  const message = {
    id: `msg_01${'A'.repeat(22)}`,
    type: 'message',
    role: 'assistant',
    model: MODEL,
    content,
    stop_reason: stopReason,
    stop_sequence: null,
    usage: {
      input_tokens: 812,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
      output_tokens: 231,
      service_tier: 'batch',
    },
    padding,
  };
  return `${JSON.stringify({ custom_id: customId, result: { type: 'succeeded', message } })}\n`;
}

/** Builds result lines for steps 1 to {@link STEPS}, each {@link LINE_BYTES} long with its custom_id. */
export function lineTemplates(scenario: Scenario): readonly LineTemplate[] {
  const mark = 'x'.repeat(CUSTOM_ID_CHARS);
  return Array.from({ length: STEPS }, (_, index) => {
    const step = index + 1;
    const text = { type: 'text', text: prose(TEXT_CHARS) };
    const calls = {
      type: 'tool_use',
      id: `toolu_01${String(step).padEnd(22, 'B')}`,
      ...toolCall(scenario, step),
    };
    const make = (padding: string): string =>
      step < STEPS
        ? lineOf(mark, [text, calls], 'tool_use', padding)
        : lineOf(mark, [text], 'end_turn', padding);
    const line = make('.'.repeat(LINE_BYTES - make('').length));
    const at = line.indexOf(mark);
    return { head: Buffer.from(line.slice(0, at)), tail: Buffer.from(line.slice(at + mark.length)) };
  });
}

/** Returns the user message of a run. */
export function userText(ordinal: number): string {
  return `Customer c-${String(ordinal).padStart(7, '0')}: bring the record up to date and say what has changed since last week.`;
}

/** Computes the module tool's cheap answer, {@link TOOL_RESULT_CHARS} long. */
export function lookUp(args: { readonly customer?: unknown; readonly depth?: unknown }): string {
  return `record of ${String(args.customer)} at depth ${String(args.depth)}: `
    .padEnd(TOOL_RESULT_CHARS, 'paid; ')
    .slice(0, TOOL_RESULT_CHARS);
}

const NONCE = 'b'.repeat(10);

/**
 * Builds the custom_id of an engine that numbers its runs; length and step lie where the product has them.
 */
export function customIdOf(item: number, step: number): string {
  return `${NONCE}-${item.toString(16).padStart(24, '0')}${(step * 256).toString(16).padStart(8, '0')}-1`;
}

/** Parses {@link customIdOf}. */
export function itemOf(customId: string): { readonly item: number; readonly step: number } {
  return {
    item: Number.parseInt(customId.slice(11, 35), 16),
    step: Number.parseInt(customId.slice(35, 43), 16) >>> 8,
  };
}

/**
 * Short waits for the product: the provider answers at once, and a bench at the defaults would mostly sleep.
 */
export const SHORT_WAITS = { GATHER_WINDOW_MS: '500', POLL_INTERVAL_MS: '20' };
