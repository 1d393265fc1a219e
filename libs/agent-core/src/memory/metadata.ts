import { toWireId } from '../base/ids.ts';
import { toLettaTime } from '../base/letta-time.ts';

/** Facts about stored memory outside the prompt, for tools. */
export interface MemoryMetadata {
  readonly agent_id: string;
  /** The isolated conversation; null for the agent's own. */
  readonly conversation_id: string | null;
  /** Time of the last change of the prompt, in seconds since 1970. */
  readonly compiled_at: number;
  /** Messages of the conversation before the first shown message. */
  readonly messages: number;
  readonly passages: number;
  readonly tags: readonly string[];
}

/** Maximum number of tags in a prompt, those with most passages. */
export const SHOWN_TAGS_MAX = 100;

/**
 * Compiles Letta's `<memory_metadata>` section, byte for byte, with the time in UTC.
 * An agent may change its zone before a repeated encoding. Characters of a tag that would end its line or an element
 * become `_`.
 */
export function compileMemoryMetadata(facts: MemoryMetadata): string {
  const { agent_id, conversation_id, compiled_at, messages, passages, tags } = facts;
  return [
    '<memory_metadata>',
    `- AGENT_ID: ${toWireId('agent', agent_id)}`,
    `- CONVERSATION_ID: ${conversation_id === null ? 'default' : toWireId('conversation', conversation_id)}`,
    `- System prompt last recompiled: ${toLettaTime(new Date(compiled_at * 1_000))}`,
    `- ${messages} previous messages between you and the user are stored in recall memory (use tools to access them)`,
    ...(passages > 0
      ? [`- ${passages} total memories you created are stored in archival memory (use tools to access them)`]
      : []),
    ...(tags.length > 0
      ? [`- Available archival memory tags: ${tags.map((tag) => tag.replace(/[<>\r\n]/g, '_')).join(', ')}`]
      : []),
    '</memory_metadata>',
  ].join('\n');
}
