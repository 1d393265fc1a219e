import type { JsonObject } from '../base/json.ts';

/**
 * Whether the calls of a step end its run: one of them went well, and an `exit_loop` rule of the definition names its
 * tool. A call that failed does not: the model is told, and may call again.
 */
export function endsRun(
  rules: readonly JsonObject[],
  calls: readonly { readonly tool_name: string; readonly ok: boolean }[],
): boolean {
  return rules.some(
    (rule) =>
      rule['type'] === 'exit_loop' && calls.some((call) => call.ok && call.tool_name === rule['tool_name']),
  );
}
