import { NightshiftError, type ToolDefinition } from '@nightshift/agent-core';
import { wishKey, type DefinitionWish } from '../reads/agent-definitions.ts';
import { storableJson } from './json-rows.ts';
import type { NewBatch, NewRun } from './new-batch.ts';

/** Throws `not_found`, naming the requests, for agents of which no wish is among the `known`, by key. */
export function assertAgentsExist(
  batch: Pick<NewBatch, 'shared_path'>,
  wishes: readonly RunWish[],
  known: { has(key: string): boolean },
): void {
  const named = batch.shared_path == null ? wishes : wishes.slice(0, 1);
  const fields = named.flatMap(({ agent_id, key }, index) =>
    known.has(key)
      ? []
      : [{ path: `${pathOf(batch, index)}/agent_id`, message: `There is no agent agent-${agent_id}.` }],
  );
  const [first] = fields;
  if (first === undefined) return;
  const rest = fields.length === 1 ? '' : ` ${fields.length - 1} more are unknown.`;
  throw new NightshiftError('not_found', `${first.message}${rest} Nothing was stored.`, {
    fields: fields.slice(0, 100),
  });
}

/** Where in the body a request stands. */
export function pathOf({ shared_path }: Pick<NewBatch, 'shared_path'>, index: number): string {
  return shared_path ?? `/requests/${index}`;
}

/** The definition that a run asks for. */
export interface RunWish extends DefinitionWish {
  /** By {@link wishKey}. */
  readonly key: string;
}

/** The definitions that runs ask for, in their order. What neighbours share, as those of a template do, is written once. */
export function wishesOf(runs: readonly NewRun[]): readonly RunWish[] {
  let last: { readonly run: NewRun; readonly wish: RunWish } | null = null;
  return runs.map((run) => {
    const { agent_id, client_tools = NO_TOOLS, result_format = null } = run;
    if (
      last?.wish.agent_id === agent_id &&
      (last.run.client_tools ?? NO_TOOLS) === client_tools &&
      (last.run.result_format ?? null) === result_format
    )
      return last.wish;
    const wish = {
      agent_id,
      client_tools_json: client_tools.length === 0 ? null : storableJson(client_tools),
      result_format_json:
        result_format === null || result_format === 'none' ? result_format : storableJson(result_format),
    };
    last = { run, wish: { ...wish, key: wishKey(wish) } };
    return last.wish;
  });
}

const NO_TOOLS: readonly ToolDefinition[] = [];

/** Each wish once. */
export function distinctWishes(wishes: readonly RunWish[]): readonly RunWish[] {
  return [...new Map(wishes.map((wish) => [wish.key, wish])).values()];
}
