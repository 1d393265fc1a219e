/**
 * Runs tool calls that wait: HTTP tools, tools of MCP servers, requests of sandboxed code, and modules that export `concurrency`.
 *
 * worker ── client ══ frames over pipes ══ host ── one event loop ── guarded HTTP client, modules
 *
 * The child has no key, no database and no lease; the secrets of a call come with the call. A thousand calls under way cost
 * no thread. Each call ends in exactly one reply.
 */
export { startNetHost, type NetHost, type NetHostOptions } from './client.ts';
export type {
  CallBase,
  FetchCall,
  FetchResult,
  HttpCall,
  McpCall,
  McpListCall,
  McpOffer,
  McpServer,
  ModuleCall,
  ModuleContext,
  NetCall,
  Reply,
  ReplyStatus,
  WaitingModule,
} from './contract.ts';
