import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sendJson } from '../../../libs/client/test/server.ts';
import { serveCommand } from './command.ts';
import { makeFolder } from './folder.ts';

const SOURCE = 'def stock(item: str) -> str:\n    """Counts an item."""\n    return f"7 {item}"\n';
const SCHEMA = { name: 'stock', parameters: { type: 'object', properties: { item: { type: 'string' } } } };

test.each([
  ['without a schema, which its annotations give', [], {}],
  ['with a schema', ['--schema', JSON.stringify(SCHEMA)], { json_schema: SCHEMA }],
])('a tool is made of a file of Python %s', async (_what, flags, sent) => {
  const path = join(makeFolder(), 'stock.py');
  writeFileSync(path, SOURCE);
  const { run, received } = await serveCommand((_, response) =>
    sendJson(response, { id: 'tool-1', name: 'stock' }),
  );
  const { exitCode, stdout, stderr } = await run('tools', 'create', path, ...flags);
  expect([exitCode, stdout, stderr]).toEqual([0, 'tool-1\n', expect.stringMatching(/^Made stock\./)]);
  expect(received.map(({ method, url }) => `${method} ${url.pathname}`)).toEqual(['POST /v1/tools']);
  expect(JSON.parse(received[0]?.body ?? '')).toEqual({
    ...{ source_type: 'python', source_code: SOURCE },
    ...sent,
  });
});
