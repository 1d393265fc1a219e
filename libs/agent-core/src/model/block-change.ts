/**
 * Result of a write against concurrent writes: none came between, both were merged, or the other was overwritten.
 * `edited`: none came between, and a reviewer edited the text before it took effect.
 */
export type WriteResolution = 'clean' | 'merged' | 'overwrote' | 'edited';

/** The tool call that caused a block change. */
export interface BlockWriterCall {
  readonly project_id: string;
  readonly batch_id: string;
  readonly run_id: string;
  readonly agent_id: string;
  readonly step_number: number;
  readonly tool_use_id: string;
  /** Whether the batch holds changes until they are accepted. */
  readonly held: boolean;
}

/** A copy of a block that holds an agent's changes for review. Its first revision is the block as the agent knew it. */
export interface HeldCopy {
  readonly kind: 'copied';
  readonly copy_of: string;
  readonly base_revision: number;
  readonly base_label: string;
  readonly label: string;
  readonly description: string | null;
  readonly value: string;
  readonly char_limit: number;
  readonly read_only: boolean;
}

/** A passage that a tool call adds to archival memory. */
export interface KeptPassage extends BlockWriterCall {
  readonly kind: 'kept';
  readonly passage_id: string;
  readonly content: string;
  readonly tags: readonly string[];
}

/** A memory change by a tool call. */
export type BlockChange =
  | KeptPassage
  | (BlockWriterCall & { readonly block_id: string } & (
        | {
            readonly kind: 'revised';
            /** The new revision, and the revision that the change is based on. */
            readonly revision: number;
            readonly based_on_revision: number;
            readonly value: string;
            readonly description: string | null;
            readonly resolution: WriteResolution;
          }
        | {
            /** A new block of its agent, with its first revision. */
            readonly kind: 'created';
            readonly label: string;
            readonly description: string | null;
            readonly value: string;
            readonly char_limit: number;
          }
        | HeldCopy
        | { readonly kind: 'detached'; readonly label: string }
        | { readonly kind: 'renamed'; readonly label: string; readonly new_label: string }
      ));
