/** Bytes per token of the simulator's tokenizer. */
const BYTES_PER_TOKEN = 4;

/** Estimates the tokens of `bytes` bytes of JSON. */
export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}
