import { setImmediate } from 'node:timers/promises';
import {
  ISSUES_MAX,
  NightshiftError,
  toStorableText,
  type FieldError,
  type ToolChoice,
} from '@nightshift/agent-core';
import type { NewRun } from '@nightshift/db';
import { runWithTimeout } from './run-with-timeout.ts';
import { assertSchemas } from './assert-schemas.ts';
import { HELD_MS_MAX } from './held.ts';
import { BATCH_BYTES_MAX, type RunsRequest, type TemplateInput, type TemplateRequest } from './request.ts';
import { sentence } from './sentence.ts';
import { parseTemplate } from './template.ts';
import { toMessages, toNewRun } from './to-runs.ts';

/** Maximum characters of all filled templates of a batch: the limit of a request body. */
const FILLED_CHARS_MAX = BATCH_BYTES_MAX;
/** Bytes of a character in memory, if the text holds any beyond Latin-1. */
const CHAR_BYTES = 2;
/** Timeout of filling in one input: above a pause of the machine, below an endless loop. Unit: ms. */
const INPUT_MS_MAX = 2_000;
/** Timeout of filling in this many inputs, without the time of other requests. Unit: ms. */
const FILL_MS_MAX = 30_000;
const INPUTS_PER_FILL_MS_MAX = 100_000;

/**
 * Builds the runs of a batch in order: one per request, or one per input of its template. `tools` is the choice of the
 * batch.
 * `hold` gets the bytes of each filled template and may throw to end the work.
 * Throws: `validation_failed` or `invalid_argument` with the invalid fields; `payload_too_large` when the filled templates
 * exceed the limit of a body.
 */
export async function requestedRuns(
  body: RunsRequest,
  tools: ToolChoice | null,
  hold: (bytes: number) => void,
): Promise<readonly NewRun[]> {
  const { template, inputs } = body;
  if (template != null && inputs != null) {
    assertUniqueIds(inputs, '/inputs');
    await assertSchemas(body);
    return fillTemplate(template, inputs, tools, hold);
  }
  const requests = body.requests ?? [];
  if (requests.length === 0) {
    throw new NightshiftError('invalid_argument', 'The list of requests is empty.', {
      fields: [{ path: '/requests', message: 'must not be empty' }],
    });
  }
  assertUniqueIds(requests, '/requests');
  await assertSchemas(body);
  return requests.map((request) => toNewRun(request, tools));
}

/** Fills in all inputs. */
async function fillTemplate(
  template: TemplateRequest,
  inputs: readonly TemplateInput[],
  tools: ToolChoice | null,
  hold: (bytes: number) => void,
): Promise<readonly NewRun[]> {
  const filler = createFiller(template, tools, '/template/input', hold);
  const pathOf = (index: number): string => `/inputs/${index}`;
  const { runs, fields, isAll } = await filler.fill(inputs, pathOf, Infinity);
  const [first] = fields;
  if (first === undefined) return runs;
  throw new NightshiftError(
    'validation_failed',
    `${sentence(`${first.path}: ${first.message}`)} Nothing was stored.`,
    { fields, fields_total: isAll ? fields.length : null },
  );
}

/** A template with the limits of its batch. */
export interface Filler {
  /** A run without its input. */
  readonly shared: NewRun;
  /**
   * Fills in inputs in portions, and serves other requests between them; stops after a hundred errors, or after about
   * `charsWanted` characters. `filled` counts the inputs before the stop.
   * Throws: `payload_too_large` when the filled texts of the batch, or the time for them, exceed their limits.
   */
  fill(
    inputs: readonly TemplateInput[],
    pathOf: (index: number) => string,
    charsWanted: number,
  ): Promise<{
    readonly runs: readonly NewRun[];
    readonly fields: readonly FieldError[];
    readonly filled: number;
    readonly isAll: boolean;
  }>;
}

/**
 * Parses a template at the pointer `path`. `tools` is the choice of its batch.
 * Throws: `validation_failed` with `path`.
 */
export function createFiller(
  template: TemplateRequest,
  tools: ToolChoice | null,
  path: string,
  hold: (bytes: number) => void,
  charsMax = FILLED_CHARS_MAX,
): Filler {
  const fillText = parseTemplate(template.input, path);
  const shared = toNewRun({ ...template, conversation: template.conversation ?? 'isolated' }, tools);
  let chars = 0;
  let spentMs = 0;
  let asked = 0;

  const fill: Filler['fill'] = async (inputs, pathOf, charsWanted) => {
    const charsEnd = chars + charsWanted;
    const runs: NewRun[] = [];
    const fields: FieldError[] = [];
    const fillIn = (inputPath: string, { custom_id, variables }: TemplateInput): void => {
      let text: string;
      try {
        text = fillText(variables, inputPath);
      } catch (error) {
        if (!(error instanceof NightshiftError)) throw error;
        fields.push(...error.fields.map((field) => named(field, custom_id)));
        return;
      }
      if (text.trim() === '')
        fields.push(named({ path: inputPath, message: 'fill the template to an empty text' }, custom_id));
      chars += text.length;
      if (chars > charsMax) throw tooMuch(`gave more than ${charsMax} characters`);
      hold(text.length * CHAR_BYTES);
      runs.push({ ...shared, custom_id, messages: toMessages({ input: text }) });
    };

    let next = 0;
    const isDone = (): boolean => next >= inputs.length || fields.length >= ISSUES_MAX || chars >= charsEnd;
    const fillPortion = (): void => {
      const startedAt = performance.now();
      for (let input = inputs[next]; input !== undefined; input = inputs[++next]) {
        if (isDone() || performance.now() - startedAt > HELD_MS_MAX) return;
        fillIn(`${pathOf(next)}/variables`, input);
      }
    };

    const fillMsMax = FILL_MS_MAX * Math.ceil((asked + inputs.length) / INPUTS_PER_FILL_MS_MAX);
    while (!isDone()) {
      await setImmediate();
      if (spentMs > fillMsMax) throw tooMuch(`took more than ${fillMsMax / 1000} s`);
      const startedAt = performance.now();
      const inTime = runWithTimeout(INPUT_MS_MAX, fillPortion);
      spentMs += performance.now() - startedAt;
      const input = inputs[next];
      if (inTime || input === undefined) continue;
      const inputPath = `${pathOf(next++)}/variables`;
      fields.push(
        named({ path: inputPath, message: `take more than ${INPUT_MS_MAX / 1000} s` }, input.custom_id),
      );
    }
    asked += next;
    return { runs, fields, filled: next, isAll: next >= inputs.length };
  };
  return { shared, fill };
}

/** Adds the custom id to an error: among many inputs it says more than an index. */
function named({ path, message }: FieldError, customId: string): FieldError {
  return { path, message: `${message} (custom_id '${customId}')` };
}

function tooMuch(problem: string): NightshiftError {
  return new NightshiftError(
    'payload_too_large',
    `Filling in the template ${problem}. Split the inputs over several batches.`,
    { fields: [{ path: '/inputs', message: problem }] },
  );
}

/** Refuses duplicate custom ids, compared as they are stored. */
function assertUniqueIds(
  named: readonly { readonly custom_id?: string | null | undefined }[],
  list: string,
): void {
  const places = new Map<string, number>();
  for (const [index, { custom_id }] of named.entries()) {
    if (custom_id == null) continue;
    const name = toStorableText(custom_id);
    const first = places.get(name);
    if (first !== undefined) {
      const path = `${list}/${index}/custom_id`;
      const message = `is the same as the custom_id of ${list}/${first}`;
      throw new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
    }
    places.set(name, index);
  }
}
