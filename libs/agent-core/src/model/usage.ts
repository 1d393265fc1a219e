/** Tokens and web searches of an answer, as the provider billed them. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_write_5m_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly cache_read_tokens: number;
  /** Default: none. */
  readonly web_searches?: number;
}

/** Tokens that the provider adds to a request with tools. */
export const TOOL_PROMPT_TOKENS = 600;

export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_write_5m_tokens: 0,
  cache_write_1h_tokens: 0,
  cache_read_tokens: 0,
};

/** Sums all prompt tokens, cached or not. */
export function promptTokens(usage: Usage): number {
  return (
    usage.input_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens + usage.cache_read_tokens
  );
}
