import { dirname, join } from 'node:path';
import { readCommandLine } from './command-line.ts';
import { generateClient } from './client/generate-client.ts';

// Writes the generated part of the client again.
readCommandLine({
  name: 'gen-client',
  what: 'Writes libs/client/src/generated from apps/api/openapi.json.',
  takes: 'about 2 seconds',
  flags: {},
});
await generateClient(join(dirname(import.meta.dirname), 'libs/client/src/generated'));
