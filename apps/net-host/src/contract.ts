import type { HttpTool, JsonObject, McpDefinition, SideEffects } from '@nightshift/agent-core';

/** Part of every call. */
export interface CallBase {
  /** The caller's own key, returned with the reply. */
  readonly call_id: string;
  /** Decides about retries, and about a call whose process died. */
  readonly side_effects: SideEffects;
  /** The same for every attempt of a call. */
  readonly idempotency_key: string;
  /** Timeout from the start of the call, with all retries. */
  readonly timeout_ms: number;
  /** Length to which a result is cut. Unit: characters. */
  readonly result_char_limit: number;
}

/** A call of an HTTP tool, which `checkHttpTool` accepts. */
export interface HttpCall extends CallBase {
  readonly kind: 'http';
  readonly http: HttpTool;
  readonly arguments: JsonObject;
  /** Values of the tool's secrets, by name. They are kept for this call only, and cut out of its reply. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Allows addresses inside private networks. */
  readonly allow_private: boolean;
}

/** A call of a module tool that exports `concurrency`. It shares one event loop with all other calls. */
export interface ModuleCall extends CallBase {
  readonly kind: 'module';
  /** Absolute path of the module. */
  readonly file: string;
  readonly arguments: JsonObject;
  readonly agent_id: string;
  readonly run_id: string;
  readonly tool_use_id: string;
}

/**
 * One request of sandboxed code, without retries. Its result is a {@link FetchResult} as JSON, which is never cut: an
 * answer over 1 MiB fails.
 */
export interface FetchCall extends CallBase {
  readonly kind: 'fetch';
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** The only hosts that are called, also after redirects: `example.com`, `*.example.com`, each with `:port` if unusual. */
  readonly allowed_hosts: readonly string[];
  readonly allow_private: boolean;
}

/** A server for MCP calls. */
export type McpServer =
  | {
      readonly url: string;
      /** Their values may hold `{{secrets.NAME}}`. */
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      /** A program that speaks over its standard input and output; one process serves all calls. */
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    };

/** Part of every MCP call. Calls of one server with the same secrets share a connection. */
export interface McpBase extends CallBase {
  readonly server: McpServer;
  /** Values of the server's secrets, by name. They are kept while its connection is open, and cut out of replies. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly allow_private: boolean;
  /** Age from which the server's list of tools is read again before the call. */
  readonly list_age_ms_max: number;
}

/** A call of an MCP server's tool. Fails, and calls nothing, unless the server offers the tool as it was approved. */
export interface McpCall extends McpBase {
  readonly kind: 'mcp';
  readonly tool_name: string;
  /** SHA-256 of the approved definition, in hexadecimal. */
  readonly definition_sha256: string;
  readonly arguments: JsonObject;
}

/** Lists the tools of an MCP server. Its result is an {@link McpOffer} as JSON, which is never cut. */
export interface McpListCall extends McpBase {
  readonly kind: 'mcp_list';
}

export interface McpOffer {
  /** Revision of the protocol that the server speaks. */
  readonly revision: string;
  readonly tools: readonly { readonly definition: McpDefinition; readonly sha256: string }[];
}

export type NetCall = HttpCall | ModuleCall | FetchCall | McpCall | McpListCall;

export interface FetchResult {
  readonly status: number;
  /** URL that answered, after redirects. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Status of a call.
 * - `succeeded`: a 2xx answer with a result, or the module returned. For `fetch` any answer.
 * - `failed`: any other answer, no connection, a module that threw, or an unusable call.
 * - `timed_out`: its timeout passed.
 * - `crashed`: its process ended, or the caller gave up, before it ended.
 */
export type ReplyStatus = 'succeeded' | 'failed' | 'timed_out' | 'crashed';

export interface Reply {
  readonly call_id: string;
  readonly status: ReplyStatus;
  /** The answer as text, for the model. For any status but `succeeded` the reason. */
  readonly result: string;
  readonly truncated: boolean;
  /** Unit: milliseconds. */
  readonly duration_ms: number;
  /** False only if no request was sent and no function entered: a repeat is then harmless. */
  readonly started: boolean;
  /** Attempts to send a request, redirects not counted; 1 for a module that was entered. */
  readonly attempts: number;
  /** Bytes of all answers read. */
  readonly answer_bytes: number;
  /** The process does not come up, or is closed; the call itself has no fault. */
  readonly unavailable?: true;
  /** The MCP server offers other tools than those that were approved. */
  readonly offer_changed?: true;
}

/** The exports of a module that this process runs: those of any tool module, and `concurrency`. */
export interface WaitingModule {
  /** Calls of the tool that may be under way. It also says that the module never blocks its thread. */
  readonly concurrency: number;
  run(args: JsonObject, context: ModuleContext): unknown;
}

/** Context of a module's call. */
export interface ModuleContext {
  /** Fires at the timeout or when the caller gives up. */
  readonly signal: AbortSignal;
  readonly agentId: string;
  readonly runId: string;
  readonly toolUseId: string;
  readonly idempotencyKey: string;
}
