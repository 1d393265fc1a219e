import { toUsd } from '@nightshift/agent-core';
import type { Usage } from '@nightshift/db';
import type { z } from 'zod';
import type { usage } from '../schemas/usage.ts';

/** Converts usage to an answer. */
export function toUsage(used: Usage): z.output<typeof usage> {
  return {
    steps: used.steps,
    tool_calls: used.tool_calls,
    failed_tool_calls: used.failed_tool_calls,
    unknown_tool_calls: used.unknown_tool_calls,
    input_tokens: used.input_tokens,
    output_tokens: used.output_tokens,
    cache_write_tokens: used.cache_write_tokens,
    cache_read_tokens: used.cache_read_tokens,
    cost_usd: toUsd(used.cost_nanousd),
  };
}
