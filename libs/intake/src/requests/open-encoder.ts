import {
  compileMemory,
  compileMemoryMetadata,
  encodeDefinition,
  encodeFrame,
  encodeRequest,
  nextToolChoice,
  NO_MARKS,
  requestInParts,
  summaryExtra,
  summaryLimits,
  summaryMessage,
  summaryRequest,
  toCustomId,
  type BlockView,
  type CacheMarks,
  type ContentBlock,
  type JsonObject,
  type Trail,
} from '@nightshift/agent-core';
import { readBlocksAt, type Database, type SealedRequest } from '@nightshift/db';
import type { CachedDefinition, DefinitionCache } from './definition-cache.ts';

interface BlockRef {
  readonly block_id: string;
  readonly revision: number;
}

const NO_REFS: readonly BlockRef[] = [];

/** The text of a request in parts, its number of images, and its sources. */
export interface RequestText {
  readonly parts: readonly string[];
  readonly images: number;
  readonly made_by: CachedDefinition;
  readonly marks: CacheMarks;
  readonly prompt: PromptTexts;
}

/** The parts of a prompt, each in its JSON but the memory; empty for none. */
export interface PromptTexts {
  readonly tools: string;
  readonly system: string;
  readonly memory: string;
  readonly summary: string;
  readonly messages: string;
}

/**
 * Reads the data of a page of sealed requests and returns their encoder.
 * The same request and marks always give the same bytes. The encoder throws for a request that cannot be built, which harms
 * no other.
 */
export async function openEncoder(
  deps: { readonly definitions: DefinitionCache },
  db: Database,
  nonce: string,
  page: readonly SealedRequest[],
  marksOf: MarksOf,
): Promise<(request: SealedRequest) => RequestText> {
  const definitions = await deps.definitions.get(
    db,
    page.map((request) => request.definition_id),
  );
  const blocks = await readBlocksAt(db, page.flatMap(refsOf));
  const frameOf = createFrames();
  return (request) => {
    const cached = definitions.get(request.definition_id);
    if (cached === undefined) throw new Error(`Definition ${request.definition_id} is gone.`);
    const customId = toCustomId(nonce, request);
    if (request.is_summary) return encodeSummary(customId, request, cached);
    const memory = memoryOf(request, cached, blocks);
    const summary = request.summary === null ? '' : summaryMessage(request.summary, request.hidden ?? 0);
    const messages_json = withSummary(request, summary);
    const marks = marksOf(request, cached, { memory: memory.length, messages: messages_json.length });
    const frame = frameOf(cached, memory, toolChoiceOf(request, cached), marks);
    const { max_tokens } = request;
    const parts = { frame: frame.text, messages_json, max_tokens, end_mark: marks.end };
    return {
      parts: requestInParts(customId, cached.encoded, parts),
      images: frame.images + countImages(messages_json),
      made_by: cached,
      marks,
      prompt: {
        tools: cached.encoded.tools,
        system: cached.encoded.system,
        memory,
        summary,
        messages: request.messages_json,
      },
    };
  };
}

/** Returns the cache marks of a request, of which memory and messages have these lengths in characters. */
export type MarksOf = (
  request: SealedRequest,
  made_by: CachedDefinition,
  lengths: { readonly memory: number; readonly messages: number },
) => CacheMarks;

/** The JSON before and after the messages of a request. */
interface Frame {
  readonly memory: string;
  readonly marks: CacheMarks;
  readonly text: string;
  readonly images: number;
}

/** Creates frames and keeps the last of each definition: requests without memory share it. */
function createFrames(): (
  cached: CachedDefinition,
  memory: string,
  toolChoice: JsonObject | null,
  marks: CacheMarks,
) => Frame {
  const last = new Map<CachedDefinition, Frame>();
  return (cached, memory, toolChoice, marks) => {
    const known = last.get(cached);
    const isSame =
      known?.memory === memory && known.marks.static === marks.static && known.marks.memory === marks.memory;
    if (isSame && toolChoice === null) return known;
    const text = encodeFrame(cached.encoded, memory, toolChoice, marks);
    const frame = { memory, marks, text, images: countImages(text) };
    if (toolChoice === null) last.set(cached, frame);
    return frame;
  };
}

/** Returns the tool choice. Without tool rules no call is forced, so the trail is not read. */
function toolChoiceOf({ trail_json }: SealedRequest, { toolPolicy }: CachedDefinition): JsonObject | null {
  if (toolPolicy.rules.length === 0) return null;
  return nextToolChoice(toolPolicy, trail_json === null ? null : (JSON.parse(trail_json) as Trail));
}

function memoryOf(
  request: SealedRequest,
  { memory_form, definition }: CachedDefinition,
  blocks: ReadonlyMap<string, BlockView>,
): string {
  const shown = asWritable(blocksOf(request, blocks), definition.writable_labels ?? null);
  const memory = compileMemory(shown, memory_form);
  if (request.metadata === null) return memory;
  const metadata = compileMemoryMetadata(request.metadata);
  return memory === '' ? metadata : `${memory}\n\n${metadata}`;
}

/** Returns the messages, preceded by the summary of earlier messages. */
function withSummary({ messages_json }: SealedRequest, summary: string): string {
  if (summary === '') return messages_json;
  return messages_json === '[]' ? `[${summary}]` : `[${summary},${messages_json.slice(1)}`;
}

/** Encodes a summary request: the agent's model and effort, without its tools, memory and other settings. */
function encodeSummary(customId: string, request: SealedRequest, cached: CachedDefinition): RequestText {
  const { definition } = cached;
  const messages = JSON.parse(request.messages_json) as readonly {
    readonly role: string;
    readonly content: readonly ContentBlock[];
  }[];
  const limits = summaryLimits(definition.context_window_limit, request.max_tokens);
  const { system, messages_json } = summaryRequest(messages, request.summary, limits);
  const bare = encodeDefinition({
    ...definition,
    system,
    tools: [],
    server_tools: null,
    result_format: null,
    strict: null,
    model_settings: {
      ...definition.model_settings,
      extra: summaryExtra(definition.model_settings.extra),
    },
  });
  const text = encodeRequest(customId, bare, { memory: '', messages_json, max_tokens: request.max_tokens });
  return {
    parts: [text],
    images: countImages(text),
    made_by: cached,
    marks: NO_MARKS,
    prompt: { tools: '', system: bare.system, memory: '', summary: '', messages: messages_json },
  };
}

/** Returns the blocks and revisions that a request shows. */
function refsOf({ block_ids, block_revisions }: SealedRequest): readonly BlockRef[] {
  if (block_ids === null) return NO_REFS;
  return block_ids.map((block_id, index) => ({ block_id, revision: block_revisions?.[index] ?? 0 }));
}

function blocksOf(request: SealedRequest, blocks: ReadonlyMap<string, BlockView>): readonly BlockView[] {
  return refsOf(request).flatMap(({ block_id, revision }, index) => {
    const block = blocks.get(`${block_id}/${revision}`);
    if (block === undefined) return [];
    const label = request.block_labels?.[index] ?? block.label;
    return label === block.label ? block : { ...block, label };
  });
}

/** Returns the blocks with those read-only that the run must not write. */
function asWritable(blocks: readonly BlockView[], writable: readonly string[] | null): readonly BlockView[] {
  if (writable === null) return blocks;
  return blocks.map((block) =>
    block.read_only || writable.includes(block.label) ? block : { ...block, read_only: true },
  );
}

/** Counts the images in a text. Text that looks like an image counts too, so the count is never too low. */
function countImages(json: string): number {
  // A search stops at every occurrence of its first letter: `m` is rare, quotes are not.
  return json.includes('mage"') ? json.split('"image"').length - 1 : 0;
}
