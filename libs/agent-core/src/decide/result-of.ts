import type { Json } from '../base/json.ts';
import type { ContentBlock } from '../model/content.ts';
import { findInexact } from '../tools/finish.ts';
import type { ResultDemand } from './conduct.ts';

/** A result that an answer in words holds, or what is wrong with it, for the model. */
export type ReadResult =
  { readonly ok: true; readonly result: Json } | { readonly ok: false; readonly message: string };

const FENCE = /^```(?:json)?\s*\n([^]*?)\n?```$/;

/** Reads the typed result from the texts of an answer: JSON, perhaps in a code fence, that its schema takes. */
export function resultOf(content: readonly ContentBlock[], demand: ResultDemand): ReadResult {
  const said = content
    .map(({ type, text }) => (type === 'text' && typeof text === 'string' ? text : ''))
    .join('')
    .trim();
  const json = FENCE.exec(said)?.[1] ?? said;
  let result: Json;
  try {
    result = JSON.parse(json) as Json;
  } catch {
    return { ok: false, message: 'it is not JSON alone' };
  }
  const problem = demand.check(result) ?? findInexact(result);
  return problem === null ? { ok: true, result } : { ok: false, message: problem };
}
