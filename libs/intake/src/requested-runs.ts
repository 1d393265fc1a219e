import { setImmediate } from 'node:timers/promises';
import { ISSUES_MAX, NightshiftError, toStorableText, type FieldError } from '@nightshift/agent-core';
import type { NewRun } from '@nightshift/db';
import { actWithin } from './act-within.ts';
import { assertSchemas } from './assert-schemas.ts';
import { HELD_MS_MAX } from './held.ts';
import { BATCH_BYTES_MAX, type RunsRequest, type TemplateInput, type TemplateRequest } from './request.ts';
import { sentence } from './sentence.ts';
import { parseTemplate } from './template.ts';
import { toMessages, toNewRun } from './to-runs.ts';

/** Characters that all inputs of a template may come to: what a body with them written out could hold. */
const FILLED_CHARS_MAX = BATCH_BYTES_MAX;
/** Bytes that a character takes in memory where one of its text is beyond Latin-1. */
const CHAR_BYTES = 2;
/** Milliseconds that one input may take to fill in: a loop without end takes more, a machine that pauses for breath less. */
const INPUT_MS_MAX = 2_000;
/** Milliseconds that filling in may take in all, those of other requests aside. */
const FILL_MS_MAX = 30_000;
/**
 * The runs that a batch asks for, in order: one a request, or one an input of its template. Throws `validation_failed` or
 * `invalid_argument` naming what is wrong with which of them, and `payload_too_large` for a template that comes to more
 * than a body may hold. What a template comes to is told to `hold` as it grows, in bytes; what that throws ends the work.
 */
export async function requestedRuns(
  body: RunsRequest,
  hold: (bytes: number) => void,
): Promise<readonly NewRun[]> {
  const { template, inputs } = body;
  if (template != null && inputs != null) {
    assertNamedOnce(inputs, '/inputs');
    await assertSchemas(body);
    return fillTemplate(template, inputs, hold);
  }
  const requests = body.requests ?? [];
  if (requests.length === 0) {
    throw new NightshiftError('invalid_argument', 'The list of requests is empty.', {
      fields: [{ path: '/requests', message: 'must not be empty' }],
    });
  }
  assertNamedOnce(requests, '/requests');
  await assertSchemas(body);
  return requests.map(toNewRun);
}

/** Fills in portion by portion, and lets other requests through between them. */
async function fillTemplate(
  template: TemplateRequest,
  inputs: readonly TemplateInput[],
  hold: (bytes: number) => void,
): Promise<readonly NewRun[]> {
  const fill = parseTemplate(template.input, '/template/input');
  const shared = toNewRun({ ...template, conversation: template.conversation ?? 'isolated' });
  const runs: NewRun[] = [];
  const fields: FieldError[] = [];
  let chars = 0;
  const fillIn = (path: string, { custom_id, variables }: TemplateInput): void => {
    let text: string;
    try {
      text = fill(variables, path);
    } catch (error) {
      if (!(error instanceof NightshiftError)) throw error;
      fields.push(...error.fields.map((field) => named(field, custom_id)));
      return;
    }
    if (text.trim() === '')
      fields.push(named({ path, message: 'leave the template without any text' }, custom_id));
    chars += text.length;
    if (chars > FILLED_CHARS_MAX) throw tooMuch(`came to more than ${FILLED_CHARS_MAX} characters`);
    hold(text.length * CHAR_BYTES);
    runs.push({ ...shared, custom_id, messages: toMessages({ input: text }) });
  };

  let next = 0;
  const fillPortion = (): void => {
    const startedAt = performance.now();
    for (let input = inputs[next]; input !== undefined; input = inputs[++next]) {
      if (fields.length >= ISSUES_MAX || performance.now() - startedAt > HELD_MS_MAX) return;
      fillIn(`/inputs/${next}/variables`, input);
    }
  };

  let spentMs = 0;
  while (next < inputs.length && fields.length < ISSUES_MAX) {
    await setImmediate();
    if (spentMs > FILL_MS_MAX) throw tooMuch(`took more than ${FILL_MS_MAX / 1000} s`);
    const startedAt = performance.now();
    const inTime = actWithin(INPUT_MS_MAX, fillPortion);
    spentMs += performance.now() - startedAt;
    const input = inputs[next];
    if (inTime || input === undefined) continue;
    const path = `/inputs/${next++}/variables`;
    fields.push(named({ path, message: `take more than ${INPUT_MS_MAX / 1000} s` }, input.custom_id));
  }
  const [first] = fields;
  if (first === undefined) return runs;
  throw new NightshiftError(
    'validation_failed',
    `${sentence(`${first.path}: ${first.message}`)} Nothing was stored.`,
    {
      fields: fields.slice(0, ISSUES_MAX),
    },
  );
}

/** Inputs are many: their own names say more than their places. */
function named({ path, message }: FieldError, customId: string): FieldError {
  return { path, message: `${message} (custom_id '${customId}')` };
}

function tooMuch(what: string): NightshiftError {
  return new NightshiftError(
    'payload_too_large',
    `Filling in the template ${what}. Split the inputs over several batches.`,
    { fields: [{ path: '/inputs', message: what }] },
  );
}

/** Names are compared as they are stored. */
function assertNamedOnce(
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
      const message = `is the same as that of ${list}/${first}`;
      throw new NightshiftError('validation_failed', `${path} ${message}.`, { fields: [{ path, message }] });
    }
    places.set(name, index);
  }
}
