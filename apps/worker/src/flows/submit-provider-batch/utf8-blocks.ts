/** Large enough for a few hundred requests of ordinary length. */
const BLOCK_BYTES = 1024 * 1024;
/** Maximum bytes of one UTF-16 unit in UTF-8. */
const UNIT_BYTES_MAX = 3;

/**
 * Creates a writer of UTF-8 texts into shared blocks; the parts of a text are joined.
 * Memory for each text, and a count of its bytes beforehand, would cost as much as the writing. A block lives as long as
 * the last text in it.
 */
export function createUtf8Blocks(): (parts: readonly string[]) => Buffer {
  let block = Buffer.alloc(0);
  let at = 0;
  return (parts) => {
    let bytesMax = 0;
    for (const part of parts) bytesMax += part.length * UNIT_BYTES_MAX;
    if (block.length - at < bytesMax) {
      // A text longer than a block is counted first: its upper bound is three times its usual size.
      const bytes = bytesMax <= BLOCK_BYTES ? BLOCK_BYTES : Math.max(BLOCK_BYTES, bytesOf(parts));
      block = Buffer.allocUnsafeSlow(bytes);
      at = 0;
    }
    const start = at;
    for (const part of parts) at += block.write(part, at);
    return block.subarray(start, at);
  };
}

function bytesOf(parts: readonly string[]): number {
  return parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
}
