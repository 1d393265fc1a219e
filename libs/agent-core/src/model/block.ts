/** A block at a revision: a labelled piece of an agent's memory. */
export interface BlockView {
  readonly block_id: string;
  readonly revision: number;
  readonly label: string;
  readonly description: string | null;
  readonly value: string;
  /**
   * Maximum length of the value.
   * Unit: characters (code points).
   */
  readonly char_limit: number;
  readonly read_only: boolean;
}

/** A block value requested by a tool call, and the revision that it is based on. */
export interface BlockWrite {
  readonly block_id: string;
  readonly based_on_revision: number;
  readonly value: string;
}

/** Default of `char_limit`, as in Letta. */
export const BLOCK_CHAR_LIMIT_DEFAULT = 100_000;
