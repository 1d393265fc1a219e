/** The places of a request that may get a cache mark of an hour, in prompt order. */
export interface CacheMarks {
  /** After tools and static prompt, which all agents of a definition share. */
  readonly static: boolean;
  /** After the memory. */
  readonly memory: boolean;
  /** After the last message. */
  readonly end: boolean;
}

export const NO_MARKS: CacheMarks = { static: false, memory: false, end: false };
