import { JSON_DEPTH_MAX, nestsTooDeep, type Json } from '../base/json.ts';
import type { ContentBlock } from '../model/content.ts';
import { inexactInText } from '../tools/inexact.ts';
import type { ResultDemand } from './tool-policy.ts';

/** The result in a text answer, or its error for the model. */
export type ReadResult =
  { readonly ok: true; readonly result: Json } | { readonly ok: false; readonly message: string };

const FENCE = '```';

/** Reads the typed result from the texts of an answer: valid, storable JSON, optionally in a code fence. */
export function resultOf(content: readonly ContentBlock[], demand: ResultDemand): ReadResult {
  const said = content
    .map(({ type, text }) => (type === 'text' && typeof text === 'string' ? text : ''))
    .join('')
    .trim();
  const json = unfenced(said);
  if (nestsTooDeep(json)) return { ok: false, message: `it nests deeper than ${JSON_DEPTH_MAX} levels` };
  let result: Json;
  try {
    result = JSON.parse(json) as Json;
  } catch {
    return { ok: false, message: 'it is not JSON alone' };
  }
  const problem = demand.check(result) ?? inexactInText(json);
  return problem === null ? { ok: true, result } : { ok: false, message: problem };
}

/** Returns the content of a code fence around the whole text; any other text unchanged. */
function unfenced(text: string): string {
  const start = text.indexOf('\n');
  if (start === -1 || !text.startsWith(FENCE) || !text.endsWith(FENCE)) return text;
  const language = text.slice(FENCE.length, start).trim();
  return language === '' || language === 'json' ? text.slice(start, -FENCE.length) : text;
}
