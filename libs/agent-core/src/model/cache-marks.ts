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

/** Returns marks as a byte, in which they are stored. */
export function toMarkByte({ static: fixed, memory, end }: CacheMarks): number {
  return Number(fixed) | (Number(memory) << 1) | (Number(end) << 2);
}

/** Returns the marks of a stored byte. */
export function fromMarkByte(byte: number): CacheMarks {
  return { static: (byte & 1) > 0, memory: (byte & 2) > 0, end: (byte & 4) > 0 };
}
