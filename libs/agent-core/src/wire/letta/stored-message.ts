import type { StepKey } from '../../base/ids.ts';
import type { ContentBlock } from '../../model/content.ts';

/** A stored row of a conversation. Content is the provider's own, unchanged. */
export interface StoredMessage {
  readonly conversation_id: string;
  readonly seq: number;
  readonly agent_id: string;
  /** Null for an appended message. */
  readonly run_id: string | null;
  /** The step of this answer or of these tool results; null for input. */
  readonly step: StepKey | null;
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: readonly ContentBlock[];
  /** The provider's name of the answering model. */
  readonly model: string | null;
  /** Uuid that the sender gave a message. */
  readonly otid: string | null;
  readonly name: string | null;
  /** Time at which an appended message was said, as ISO 8601; null: unknown. */
  readonly said_at: string | null;
  /** ISO 8601. */
  readonly created_at: string;
}

/** Names of the called tools, by tool use id. Rows of tool results do not name them. */
export type ToolNames = ReadonlyMap<string, string>;
