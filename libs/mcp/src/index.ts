/**
 * A thin layer over the MCP client: connects to a server, lists its tools, calls one.
 *
 * Speaks revision 2026-07-28 and those of 2024 and 2025 over streamable HTTP, and over stdio for servers of the operator.
 * It offers a server no capability, knows no OAuth, and follows redirects within the server's origin only.
 */
export { connectMcp, type McpConnection, type McpFetch, type McpTarget } from './connect.ts';
export { readOffer, type OfferedTool } from './offer.ts';
export {
  egressErrorOf,
  explainMcpError,
  isAnswered,
  isConnectionClosed,
  isSessionLost,
  statusOf,
} from './errors.ts';
export { toResultText, type McpResult } from './result.ts';
