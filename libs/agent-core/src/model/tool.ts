import type { JsonObject } from '../base/json.ts';
import type { ServerTool } from './server-tool.ts';

/**
 * Runner of a tool.
 * - `memory`, `finish`: the commit of the results; `finish` delivers the run's result.
 * - `module`: the operator's code, in the tool host.
 * - `sandbox`: uploaded JavaScript or TypeScript, in the sandbox host.
 * - `python`: uploaded Python, in a process of its own.
 * - `http`: a request to a configured address, in the net host.
 * - `mcp`: a tool of an MCP server, called by the net host.
 * - `client`: the caller of the API.
 */
export type ToolKind = 'memory' | 'finish' | 'module' | 'sandbox' | 'python' | 'http' | 'mcp' | 'client';

/** Place where the calls of a kind are carried out: in a commit, by a runner of a worker, or by the caller. */
export const CARRIED_OUT: Readonly<Record<ToolKind | 'rejected', 'commit' | 'worker' | 'caller'>> = {
  memory: 'commit',
  finish: 'commit',
  rejected: 'commit',
  module: 'worker',
  sandbox: 'worker',
  python: 'worker',
  http: 'worker',
  mcp: 'worker',
  client: 'caller',
};

/** Effect of a repeated call; decides whether an interrupted call may run again. */
export type SideEffects = 'none' | 'idempotent' | 'once';

/** A tool as frozen in a definition: its prompt and its runner. */
export interface ToolDefinition {
  readonly name: string;
  readonly kind: ToolKind;
  readonly description: string;
  readonly input_schema: JsonObject;
  readonly side_effects: SideEffects;
  /**
   * Length to which a result is cut.
   * Unit: characters.
   */
  readonly return_char_limit: number;
  /**
   * Timeout of a call.
   * Unit: milliseconds.
   */
  readonly timeout_ms: number;
  readonly requires_approval: boolean;
  /** What its runner needs beyond the arguments. Absent for tools of this release and of modules. */
  readonly source?: ToolSource | null;
}

/** The program of an uploaded tool, frozen with its definition. */
export interface ToolSource {
  /** SHA-256 of the stored code, in hexadecimal. */
  readonly code_sha256?: string;
  /** Names of the arguments in the order of the function of the code. */
  readonly parameters?: readonly string[];
  /** Hosts that its code may call. */
  readonly network?: readonly string[];
  /** Names of the secrets handed over with each call. */
  readonly secrets?: readonly string[];
  /** The request of an HTTP tool. */
  readonly http?: JsonObject;
  /** The tool of an MCP server, as it was approved. */
  readonly mcp?: McpSource;
}

/** A tool of an MCP server. */
export interface McpSource {
  readonly server_id: string;
  /** Its name on the server. */
  readonly tool_name: string;
  /** SHA-256 of the approved definition, in hexadecimal. */
  readonly definition_sha256: string;
}

/** A request's choice of tools: stored tools by name, and server tools by value. */
export interface ToolChoice {
  /** Appended to the agent's tools in this order, except those that the agent has. */
  readonly add: readonly string[];
  /** Taken away. */
  readonly remove: readonly string[];
  /** Kept of the agent's tools and of `add`; null: all. */
  readonly only: readonly string[] | null;
  /**
   * Replaces the agent's server tools.
   * Default: the agent's.
   */
  readonly server_tools?: readonly ServerTool[];
}

/** Outcome of a call, before it is packed for the model. */
export interface ToolOutcome {
  readonly ok: boolean;
  /** Text for the model. */
  readonly result: string;
}
