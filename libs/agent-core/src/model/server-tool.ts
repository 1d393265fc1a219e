import { type Json, type JsonObject } from '../base/json.ts';
import type { FieldError } from '../base/errors.ts';

/** A tool of the provider, sent verbatim. The provider runs its calls within the request. */
export interface ServerTool extends JsonObject {
  /** Family and date, such as `web_search_20260318`. */
  readonly type: string;
  /** The name of its family. */
  readonly name: string;
}

/**
 * Families of server tools that a message batch accepts without a beta header.
 * `searches`: each use has a price in the table. `tokens`: its results cost prompt tokens alone. `time`: the provider bills
 * time of containers, which no answer reports.
 */
const FAMILIES: Readonly<Record<string, 'searches' | 'tokens' | 'time'>> = {
  web_search: 'searches',
  web_fetch: 'tokens',
  code_execution: 'time',
  tool_search_tool_regex: 'tokens',
  tool_search_tool_bm25: 'tokens',
};

/** Most server tools of an agent or a request. */
export const SERVER_TOOLS_MAX = 16;
/** Most characters of the JSON of a server tool. */
export const SERVER_TOOL_CHARS_MAX = 20_000;
/**
 * Searches a step that are reserved for a web search without `max_uses`: twice the provider's limit of ten rounds, which
 * is higher in a batch.
 */
export const SEARCHES_ASSUMED = 20;

/** Returns the family of a dated type; null for an unknown family. */
function familyOf(type: string): string | null {
  const family = /^([a-z0-9_]+)_20\d{6}$/.exec(type)?.[1] ?? '';
  return Object.hasOwn(FAMILIES, family) ? family : null;
}

/** Finds the invalid fields of server tools. Paths begin at the list. */
export function serverToolIssues(tools: readonly JsonObject[]): readonly FieldError[] {
  const names = new Set<Json | undefined>();
  return tools.flatMap((tool, index) => {
    const issue = issueOf(tool);
    if (issue !== null) return [{ path: `/${index}${issue.path}`, message: issue.message }];
    if (names.size !== names.add(tool['name']).size) return [];
    return [
      { path: `/${index}/name`, message: 'repeats the name of an earlier server tool: drop one of them' },
    ];
  });
}

function issueOf(tool: JsonObject): FieldError | null {
  const { type, name, max_uses = null } = tool;
  const family = typeof type === 'string' ? familyOf(type) : null;
  if (family === null) {
    const known = Object.keys(FAMILIES).map((each) => `${each}_YYYYMMDD`);
    return { path: '/type', message: `must be a dated server tool: ${known.join(', ')}` };
  }
  if (name !== family) return { path: '/name', message: `must be '${family}', the name of its family` };
  if (max_uses !== null && (!Number.isSafeInteger(max_uses) || (max_uses as number) < 1))
    return { path: '/max_uses', message: 'must be a whole number from 1 on' };
  if ('cache_control' in tool)
    return {
      path: '/cache_control',
      message: 'must be left out: the cache marks of a request are placed for it',
    };
  if (JSON.stringify(tool).length > SERVER_TOOL_CHARS_MAX)
    return { path: '', message: `must not be longer than ${SERVER_TOOL_CHARS_MAX} characters of JSON` };
  return null;
}

/** What the server tool costs beside tokens: priced searches, nothing, or time without a price. */
export function billingOf({ type }: ServerTool): 'searches' | 'tokens' | 'time' {
  return FAMILIES[familyOf(type) ?? ''] ?? 'tokens';
}

/** Returns the most searches of a step, by `max_uses` or {@link SEARCHES_ASSUMED}. */
export function searchesMax(tools: readonly ServerTool[] | null | undefined): number {
  return (tools ?? []).reduce((sum, tool) => sum + (billingOf(tool) === 'searches' ? usesMax(tool) : 0), 0);
}

function usesMax({ max_uses }: ServerTool): number {
  return typeof max_uses === 'number' ? max_uses : SEARCHES_ASSUMED;
}

/** Cost of a server tool beside its tokens. */
export interface ServerToolCost {
  readonly type: string;
  readonly name: string;
  /** Most uses a step that have a price; null for a tool without a price a use. */
  readonly uses_per_step: number | null;
  /** Whether `uses_per_step` is assumed, because the tool has no `max_uses`. */
  readonly is_assumed: boolean;
  /**
   * Most cost of its uses a step: 0 for a tool that costs tokens alone, null for one whose price no answer reports.
   * Unit: billionths of a US dollar.
   */
  readonly nanousd_per_step: number | null;
}

/** Returns the cost of a server tool by the price of a thousand searches. */
export function serverToolCost(tool: ServerTool, searchUsdPer1000: number): ServerToolCost {
  const { type, name } = tool;
  const billing = billingOf(tool);
  const uses_per_step = billing === 'searches' ? usesMax(tool) : null;
  return {
    ...{ type, name, uses_per_step },
    is_assumed: billing === 'searches' && typeof tool['max_uses'] !== 'number',
    nanousd_per_step: billing === 'time' ? null : (uses_per_step ?? 0) * searchUsdPer1000 * 1_000_000,
  };
}
