import { join } from 'node:path';
import { createClient } from '@hey-api/openapi-ts';

const root = join(import.meta.dirname, '../..');

/**
 * The generated sources type-check without `exactOptionalPropertyTypes` only, while the sources that import them
 * are checked with it. The packed client is checked as its users see it, by its declarations.
 */
const UNCHECKED = '// @ts-nocheck';

/** Generates the client of `apps/api/openapi.json` into `directory`, which it empties first. */
export async function generateClient(directory: string): Promise<void> {
  await createClient({
    input: join(root, 'apps/api/openapi.json'),
    output: {
      path: directory,
      clean: true,
      module: { extension: '.ts' },
      header: ({ defaultValue }) => [UNCHECKED, ...defaultValue],
    },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    logs: { level: 'silent' },
  });
}
