import { expect, test } from 'vitest';
import { mcpTool } from '../../../test/mcp-servers.ts';
import { readOffer } from '../src/index.ts';

const limits = { signal: new AbortController().signal, timeout_ms: 1_000 };
const offerOf = (tools: ReturnType<typeof mcpTool>[], secrets = {}) =>
  readOffer({ listTools: () => Promise.resolve(tools) }, secrets, limits);

test('equal definitions have equal hashes, whatever the order of their keys', async () => {
  const { name, description, inputSchema } = mcpTool('look');
  const [one, other] = await Promise.all([
    offerOf([{ name, description, inputSchema }]),
    offerOf([{ inputSchema, description, name }]),
  ]);
  expect(one.get('look')?.sha256).toBe(other.get('look')?.sha256);
  const changed = await offerOf([mcpTool('look', 'Another tool.')]);
  expect(changed.get('look')?.sha256).not.toBe(one.get('look')?.sha256);
});

test('an offer holds no value of a secret', async () => {
  const offer = await offerOf([mcpTool('look', 'Uses hunter2-long.')], { TOKEN: 'hunter2-long' });
  expect(JSON.stringify(offer.get('look')?.definition)).not.toContain('hunter2');
});

test.each([
  ['two tools of one name', [mcpTool('look'), mcpTool('look')], /two tools of one name/],
  ['a name with other characters', [mcpTool('a b')], /name is not/],
  ['too many tools', Array.from({ length: 501 }, (_, index) => mcpTool(`tool_${index}`)), /at most 500/],
  ['too large definitions', [mcpTool('look', 'x'.repeat(2_000_001))], /more than 2000000 characters/],
])('an offer with %s is refused', async (_, tools, why) => {
  await expect(offerOf(tools)).rejects.toThrow(why);
});
