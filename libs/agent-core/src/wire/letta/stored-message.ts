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

/** A tool call with a result: the facts that a row of tool results lacks. */
export interface ReturnedCall {
  readonly tool_name: string;
  readonly stdout: string | null;
  readonly stderr: string | null;
}

/** Calls with results, by tool use id. */
export type ReturnedCalls = ReadonlyMap<string, ReturnedCall>;

/** Returns the captured output of a call as Letta's lists of strings. */
export function outputsOf(call: ReturnedCall | undefined): {
  readonly stdout: readonly string[] | null;
  readonly stderr: readonly string[] | null;
} {
  const listOf = (text: string | null = null): readonly string[] | null => (text === null ? null : [text]);
  return { stdout: listOf(call?.stdout), stderr: listOf(call?.stderr) };
}
