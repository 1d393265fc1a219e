/** How a write came to its value: no other write came between, both were merged, or the other one was overwritten. */
export type WriteResolution = 'clean' | 'merged' | 'overwrote';

/** The tool call that a change of a block is owed to. */
export interface BlockWriterCall {
  readonly project_id: string;
  readonly batch_id: string;
  readonly run_id: string;
  readonly agent_id: string;
  readonly step_number: number;
  readonly tool_use_id: string;
  /** Whether its batch holds changes until they are accepted. */
  readonly held: boolean;
}

/** The block that is to hold an agent's changes of another one: its first revision is that one as the agent knew it. */
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

/** A passage that a tool call keeps in archival memory. */
export interface KeptPassage extends BlockWriterCall {
  readonly kind: 'kept';
  readonly passage_id: string;
  readonly content: string;
  readonly tags: readonly string[];
}

/** One change of memory by a tool call. */
export type BlockChange =
  | KeptPassage
  | (BlockWriterCall & { readonly block_id: string } & (
        | {
            readonly kind: 'revised';
            /** The revision that it makes, and the one that it was worked out from. */
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
