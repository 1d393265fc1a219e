import { isJsonObject, toStorableText, type Json, type JsonObject } from '../base/json.ts';
import type { ToolOutcome } from '../model/tool.ts';
import type { Refusal } from './edits.ts';
import { refused } from './refusal.ts';
import type { ArchivalInsert } from './store-calls.ts';

/** Passages to keep, or the outcome of a call whose arguments cannot be used: then nothing is kept. */
export type ReadChunks =
  | { readonly ok: true; readonly inserts: readonly ArchivalInsert[] }
  | { readonly ok: false; readonly outcome: ToolOutcome };

const CHUNKS_MAX = 100;

/**
 * Reads a call of `store_memories`: parts of a numbered transcript, each kept as one passage with its context before
 * it. `transcript` are its lines as the model was shown them, numbered from 0; both ends of a part belong to it.
 */
export function readTranscriptChunks(args: JsonObject, transcript: readonly string[]): ReadChunks {
  const { chunks } = args;
  if (!Array.isArray(chunks) || chunks.length === 0 || chunks.length > CHUNKS_MAX) {
    return refuse(`Argument 'chunks' must be a list of 1 to ${CHUNKS_MAX} parts.`);
  }
  const inserts: ArchivalInsert[] = [];
  for (const [index, chunk] of (chunks as readonly Json[]).entries()) {
    const { start_index, end_index, context } = isJsonObject(chunk) ? chunk : {};
    if (typeof start_index !== 'number' || typeof end_index !== 'number' || typeof context !== 'string') {
      return refuse(`Part ${index} of 'chunks' needs start_index, end_index and context.`);
    }
    const lines =
      Number.isInteger(start_index) && start_index >= 0 ? transcript.slice(start_index, end_index + 1) : [];
    if (lines.length === 0 || lines.length !== end_index - start_index + 1) {
      return refuse(
        `Part ${index} of 'chunks' names the lines ${start_index} to ${end_index}; there are 0 to ${transcript.length - 1}.`,
      );
    }
    const content = toStorableText(`${context}\n\n${lines.join('\n')}`);
    inserts.push({ kind: 'archival_insert', content, tags: [] });
  }
  return { ok: true, inserts };
}

function refuse(message: string): ReadChunks {
  const refusal: Refusal = { kind: 'ValueError', message };
  return { ok: false, outcome: refused('store_memories', refusal) };
}
