/** A block as one revision of it stands: a labelled piece of an agent's memory. */
export interface BlockView {
  readonly block_id: string;
  readonly revision: number;
  readonly label: string;
  readonly description: string | null;
  readonly value: string;
  /** Characters (code points) that the value may hold. */
  readonly char_limit: number;
  readonly read_only: boolean;
}

/** A value that a tool call wants written, and the revision it was worked out from. */
export interface BlockWrite {
  readonly block_id: string;
  readonly based_on_revision: number;
  readonly value: string;
}

/** Default of `char_limit`, as in Letta. */
export const BLOCK_CHAR_LIMIT_DEFAULT = 100_000;
