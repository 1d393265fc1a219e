import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DEFAULT_PROJECT_ID,
  inTransaction,
  readToolCode,
  storeTool,
  type Database,
  type NewTool,
} from '@nightshift/db';
import { startNetHost, type NetHost } from '@nightshift/net-host';
import { startSandboxHost, type SandboxHost } from '@nightshift/sandbox-host';
import { startToolHost, type ToolHost } from '@nightshift/tool-host';
import { createHash } from 'node:crypto';
import { registerTools } from '../../src/register-tools.ts';
import { createHttpRunner } from '../../src/tools/http/http-runner.ts';
import { createLazyHost, type LazyHost } from '../../src/tools/lazy-host.ts';
import { createModuleRunner } from '../../src/tools/module/module-runner.ts';
import { createPlaces } from '../../src/tools/places.ts';
import { createToolRunners, type ToolRunners } from '../../src/tools/runner.ts';
import { createSandboxFetch } from '../../src/tools/sandbox/sandbox-fetch.ts';
import { createSandboxRunner } from '../../src/tools/sandbox/sandbox-runner.ts';

/** The hosts of a worker as child processes, and its runners on them. */
export interface RealHosts {
  readonly runners: ToolRunners;
  readonly toolHost: ToolHost;
  readonly netHost: LazyHost<NetHost>;
  readonly sandboxHost: LazyHost<SandboxHost>;
  close(): Promise<void>;
}

export interface RealHostsOptions {
  /** Text of each module by the name of its tool. */
  readonly modules?: Readonly<Record<string, string>>;
  readonly threads?: number;
  readonly allow_private?: boolean;
  /** The executable of the net host. Default: the executable of this process. */
  readonly netHostPath?: () => string;
}

/** Starts the tool host and registers its modules; the other hosts start with their first call. */
export async function openRealHosts(db: Database, options: RealHostsOptions = {}): Promise<RealHosts> {
  const { modules = {}, threads = 2, allow_private = true, netHostPath = () => process.execPath } = options;
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-modules-'));
  for (const [name, text] of Object.entries(modules)) await writeFile(join(dir, `${name}.mjs`), text);
  const toolHost = await startToolHost({ toolsDirs: [dir], threads });
  await registerTools(db, toolHost.listTools());
  const netHost = createLazyHost(() => startNetHost({ nodePath: netHostPath() }));
  const sandboxHost = createLazyHost(() =>
    startSandboxHost({ fetch: createSandboxFetch(netHost, allow_private), threads }),
  );
  const readSecrets = () => Promise.resolve({});
  const runners = createToolRunners(
    {
      module: createModuleRunner(toolHost, netHost),
      sandbox: createSandboxRunner(sandboxHost, {
        threads,
        readCode: (sha256) => readToolCode(db, DEFAULT_PROJECT_ID, sha256),
        readSecrets,
      }),
      http: createHttpRunner(netHost, { allow_private, readSecrets }),
    },
    createPlaces(),
  );
  return {
    ...{ runners, toolHost, netHost, sandboxHost },
    async close() {
      await Promise.all([toolHost.close(), sandboxHost.close(), netHost.close()]);
      await rm(dir, { recursive: true });
    },
  };
}

/** Stores a tool as the API does. */
export async function addTool(
  db: Database,
  tool: Pick<NewTool, 'name' | 'kind' | 'source'> & Partial<NewTool>,
): Promise<void> {
  const { code = null } = tool;
  const code_sha256 = code === null ? {} : { code_sha256: createHash('sha256').update(code).digest('hex') };
  await inTransaction(db, (trx) =>
    storeTool(trx, DEFAULT_PROJECT_ID, {
      ...{ description: 'A tool of a test.', side_effects: 'none', timeout_ms: 120_000 },
      ...{ return_char_limit: 10_000, requires_approval: null, tags: null, metadata: null },
      input_schema: { type: 'object', properties: { what: {} } },
      ...{ source_type: tool.kind === 'http' ? 'http' : 'javascript', source_code: code, code },
      ...tool,
      source: { ...tool.source, ...code_sha256 },
    }),
  );
}
