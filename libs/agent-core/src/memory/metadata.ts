import { toWireId } from '../base/ids.ts';
import { toLettaTime } from '../base/letta-time.ts';

/** What lies beside a prompt for tools to reach. */
export interface MemoryMetadata {
  readonly agent_id: string;
  /** A conversation besides the agent's own; null for that one. */
  readonly conversation_id: string | null;
  /** Since when the prompt says the same, in seconds since 1970. */
  readonly compiled_at: number;
  /** Messages of the conversation before those that the prompt shows. */
  readonly messages: number;
  readonly passages: number;
  readonly tags: readonly string[];
}

/** Tags that a prompt names; those of the most passages. */
export const SHOWN_TAGS_MAX = 100;

/**
 * Letta's `<memory_metadata>` section, byte for byte, with the time in UTC: an agent may change its zone while a request
 * waits to be encoded again. Characters of a tag that would end its line or an element become `_`.
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
