/** An MCP server with one tool. Tells its parent its URL and the hash of the tool's definition, and ends with it. */
import { readOffer } from '../../libs/mcp/src/index.ts';
import { mcpTool, serveMcp } from '../../test/mcp-servers.ts';
import { lookUp } from '../workload.ts';

const tools = [mcpTool('look_up')];
const { url } = await serveMcp(tools, () => ({
  content: [{ type: 'text', text: lookUp({ customer: 'customer', depth: 1 }) }],
}));
const limits = { signal: AbortSignal.timeout(1_000), timeout_ms: 1_000 };
const offer = await readOffer({ listTools: () => Promise.resolve(tools) }, {}, limits);
process.send?.({ url, definition_sha256: offer.get('look_up')?.sha256 });
process.on('disconnect', () => process.exit(0));
