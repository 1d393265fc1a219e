import type { FieldError } from '../base/errors.ts';
import type { ToolDefinition } from '../model/tool.ts';
import type { ServerTool } from '../model/server-tool.ts';
import { toolNamesIn, type ToolRule } from '../rules/rule.ts';

/**
 * Checks server tools against the tools and tool rules beside them.
 * Errors: a tool with the name of a server tool, and a rule that names a server tool: the provider makes its calls within a
 * request, so no rule can hold or order them. Paths begin at the agent.
 */
export function checkServerTools(
  serverTools: readonly ServerTool[],
  tools: readonly Pick<ToolDefinition, 'name'>[],
  rules: readonly ToolRule[],
): readonly FieldError[] {
  if (serverTools.length === 0) return [];
  const own = new Set(tools.map(({ name }) => name));
  const names = new Set(serverTools.map(({ name }) => name));
  const clashes = serverTools.flatMap(({ name }, index) =>
    own.has(name)
      ? [
          {
            path: `/server_tools/${index}/name`,
            message: `is the name of another tool too: take '${name}' away, or drop the server tool`,
          },
        ]
      : [],
  );
  const ruled = rules.flatMap((rule, index) => {
    const named = toolNamesIn(rule).find((name) => names.has(name));
    if (named === undefined) return [];
    const message = `names the server tool '${named}', whose calls the provider makes within a request: drop the rule, or the server tool`;
    return [{ path: `/tool_rules/${index}`, message }];
  });
  return [...clashes, ...ruled];
}
