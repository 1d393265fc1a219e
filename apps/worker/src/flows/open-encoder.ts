import {
  compileMemory,
  compileMemoryMetadata,
  encodeDefinition,
  encodeRequest,
  nextToolChoice,
  parseModelHandle,
  summaryLimits,
  summaryMessage,
  summaryRequest,
  toCustomId,
  type BlockView,
  type ContentBlock,
} from '@nightshift/agent-core';
import { readBlocksAt, type Database, type SealedRequest } from '@nightshift/db';
import type { CachedDefinition } from './definition-cache.ts';
import type { FlowDeps } from './deps.ts';

/**
 * Reads what a page of sealed requests refers to, and returns what encodes each: the same request always gives the same
 * bytes. It throws for a request that cannot be built, which harms no other.
 */
export async function openEncoder(
  deps: Pick<FlowDeps, 'definitions'>,
  db: Database,
  nonce: string,
  page: readonly SealedRequest[],
): Promise<(request: SealedRequest) => string> {
  const definitions = await deps.definitions.get(
    db,
    page.map((request) => request.definition_id),
  );
  const blocks = await readBlocksAt(
    db,
    page.flatMap((request) =>
      (request.block_ids ?? []).map((block_id, index) => ({
        block_id,
        revision: request.block_revisions?.[index] ?? 0,
      })),
    ),
  );
  return (request) => {
    const cached = definitions.get(request.definition_id);
    if (cached === undefined) throw new Error(`Definition ${request.definition_id} is gone.`);
    const customId = toCustomId(nonce, request);
    return request.is_summary
      ? encodeSummary(customId, request, cached)
      : encode(customId, request, cached, blocksOf(request, blocks));
  };
}

function encode(
  customId: string,
  request: SealedRequest,
  { definition, conduct, encoded }: CachedDefinition,
  blocks: readonly BlockView[],
): string {
  const memory = compileMemory(blocks, {
    agent_type: definition.agent_type,
    model_provider: parseModelHandle(definition.model)?.provider ?? '',
  });
  const sections = [memory, request.metadata === null ? '' : compileMemoryMetadata(request.metadata)];
  return encodeRequest(customId, encoded, {
    memory: sections.filter((section) => section !== '').join('\n\n'),
    messages_json: withSummary(request),
    max_tokens: request.max_tokens,
    tool_choice: nextToolChoice(conduct, request.trail),
  });
}

/** The messages with the summary of earlier ones before them. */
function withSummary({ messages_json, summary, hidden }: SealedRequest): string {
  if (summary === null) return messages_json;
  const first = summaryMessage(summary, hidden ?? 0);
  return messages_json === '[]' ? `[${first}]` : `[${first},${messages_json.slice(1)}`;
}

/** The request for a summary: the agent's model, without its tools, memory and settings. */
function encodeSummary(customId: string, request: SealedRequest, { definition }: CachedDefinition): string {
  const messages = JSON.parse(request.messages_json) as readonly {
    readonly role: string;
    readonly content: readonly ContentBlock[];
  }[];
  const limits = summaryLimits(definition.context_window_limit);
  const { system, messages_json } = summaryRequest(messages, request.summary, limits);
  const bare = encodeDefinition({
    ...definition,
    system,
    tools: [],
    result_format: null,
    model_settings: { ...definition.model_settings, extra: {} },
  });
  return encodeRequest(customId, bare, { memory: '', messages_json, max_tokens: request.max_tokens });
}

function blocksOf(request: SealedRequest, blocks: ReadonlyMap<string, BlockView>): readonly BlockView[] {
  return (request.block_ids ?? []).flatMap((id, index) => {
    const block = blocks.get(`${id}/${request.block_revisions?.[index] ?? 0}`);
    return block === undefined ? [] : [block];
  });
}
