import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { hostname } from 'node:os';
import type { WorkerSelf } from '@nightshift/db';
import type { ToolManifest } from '@nightshift/tool-host';
import type { WorkerConfig } from './config.ts';

const HASH_CHARS = 12;

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '..', 'package.json'), 'utf8')) as {
  readonly version: string;
};

/** Describes this process for its row in the database, with the tools that it can run. */
export function describeWorker(
  { owner, name }: Pick<WorkerConfig, 'owner' | 'name'>,
  tools: readonly ToolManifest[],
): WorkerSelf {
  return {
    owner,
    name,
    host: hostname(),
    pid: process.pid,
    version,
    tools: Object.fromEntries(tools.map((tool) => [tool.name, hashOf(tool)])),
  };
}

/** Hashes the definition of a tool, without its place on this machine. */
function hashOf({
  description,
  parameters,
  side_effects,
  timeout_ms,
  result_char_limit,
}: ToolManifest): string {
  return createHash('sha256')
    .update(JSON.stringify([description, parameters, side_effects, timeout_ms, result_char_limit]))
    .digest('hex')
    .slice(0, HASH_CHARS);
}
