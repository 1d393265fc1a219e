/**
 * A provider that answers at once from prepared lines. It reads every body to its last byte, as a server
 * must, and keeps the custom_ids in one file per batch, so that several processes share one provider. Its CPU
 * on this thread is counted apart: an engine pays for the network, not for the model.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProviderPort, RemoteBatch } from '../apps/worker/src/provider/port.ts';
import { CUSTOM_ID_CHARS, LINE_BYTES, lineTemplates, type LineTemplate, type Scenario } from './workload.ts';

export interface BenchProvider extends ProviderPort {
  /** Milliseconds of CPU that the provider's work took on the engine's thread. */
  cpuMs(): number;
  /** Creates a batch from a streamed body and returns the provider's id. */
  createFrom(body: AsyncIterable<string | Uint8Array>): Promise<string>;
  /** Creates a batch for an engine that builds no bodies. */
  createBare(customIds: readonly string[]): string;
  /** Yields a result file, 64 KiB at a time. */
  results(providerId: string): AsyncGenerator<Buffer, void, undefined>;
}

const RESULT_CHUNK_BYTES = 64 * 1024;
const CUSTOM_ID_KEY = Buffer.from('"custom_id":"');
const NAME = /^(msgbatch_[a-z0-9_]+)\.(\d+)\.ids$/;

/** Opens the provider whose batches lie in `dir`. `holdOpenMs`: time that a batch stays in progress. */
export function openProvider(options: {
  readonly dir: string;
  readonly scenario: Scenario;
  readonly holdOpenMs?: number;
}): BenchProvider {
  const { dir } = options;
  mkdirSync(dir, { recursive: true });
  const templates = lineTemplates(options.scenario);
  let cpuMs = 0;
  let made = 0;

  /** Runs the provider's own work and counts its CPU. */
  function own<T>(work: () => T): T {
    const before = process.threadCpuUsage();
    try {
      return work();
    } finally {
      const spent = process.threadCpuUsage(before);
      cpuMs += (spent.user + spent.system) / 1000;
    }
  }

  function keep(ids: readonly string[]): string {
    made += 1;
    const id = `msgbatch_${process.pid}_${Date.now().toString(36)}_${made}`;
    const path = join(dir, `${id}.${ids.length}.ids`);
    writeFileSync(`${path}.part`, ids.join(''));
    renameSync(`${path}.part`, path);
    return id;
  }

  const holdOpenMs = options.holdOpenMs ?? 0;
  function remote(id: string, count: number, created: Date): RemoteBatch {
    const ended = Date.now() - created.getTime() >= holdOpenMs;
    return {
      provider_id: id,
      processing_status: ended ? 'ended' : 'in_progress',
      counts: {
        processing: ended ? 0 : count,
        succeeded: ended ? count : 0,
        errored: 0,
        canceled: 0,
        expired: 0,
      },
      request_count: count,
      created_at: created,
      expires_at: new Date(created.getTime() + 24 * 3_600_000),
      ended_at: ended ? created : null,
      archived_at: null,
      has_results: ended,
    };
  }

  function list(): readonly RemoteBatch[] {
    const found: RemoteBatch[] = [];
    for (const name of readdirSync(dir)) {
      const match = NAME.exec(name);
      if (match === null) continue;
      const [, id = '', count = '0'] = match;
      found.push(remote(id, Number(count), statSync(join(dir, name)).mtime));
    }
    return found.sort((a, b) => b.created_at.getTime() - a.created_at.getTime());
  }

  function find(id: string): { readonly path: string; readonly batch: RemoteBatch } | null {
    const name = readdirSync(dir).find((candidate) => candidate.startsWith(`${id}.`) && NAME.test(candidate));
    if (name === undefined) return null;
    const path = join(dir, name);
    return { path, batch: remote(id, Number(NAME.exec(name)?.[2] ?? 0), statSync(path).mtime) };
  }

  async function createFrom(body: AsyncIterable<string | Uint8Array>): Promise<string> {
    const reader = idReader();
    for await (const chunk of body) own(() => reader.read(chunk));
    return own(() => keep(reader.ids));
  }

  async function* results(providerId: string): AsyncGenerator<Buffer, void, undefined> {
    const found = own(() => find(providerId));
    if (found === null) throw new Error(`The provider knows no batch ${providerId}.`);
    const ids = own(() => readFileSync(found.path));
    const perChunk = Math.floor(RESULT_CHUNK_BYTES / LINE_BYTES);
    const count = ids.length / CUSTOM_ID_CHARS;
    for (let from = 0; from < count; from += perChunk) {
      yield own(() => {
        const lines = Math.min(perChunk, count - from);
        const chunk = Buffer.allocUnsafe(lines * LINE_BYTES);
        for (let index = 0; index < lines; index++) {
          const start = (from + index) * CUSTOM_ID_CHARS;
          const template = templateOf(templates, ids, start);
          let at = index * LINE_BYTES;
          at += template.head.copy(chunk, at);
          at += ids.copy(chunk, at, start, start + CUSTOM_ID_CHARS);
          template.tail.copy(chunk, at);
        }
        return chunk;
      });
      // A socket would deliver the next chunk in another turn of the event loop.
      await new Promise(setImmediate);
    }
  }

  const retrieve: ProviderPort['retrieveBatch'] = async (providerId) => {
    const found = own(() => find(providerId));
    return found === null ? { outcome: 'not_found' } : { outcome: 'found', batch: found.batch };
  };

  return {
    provider: 'anthropic',
    clock: {
      read: () => ({ now_ms: Date.now(), uncertainty_ms: 0, age_ms: 0 }),
      refresh: () => Promise.resolve(),
    },
    cpuMs: () => cpuMs,
    createFrom,
    createBare: (ids) => own(() => keep(ids)),
    results,
    async createBatch(body) {
      const id = await createFrom(body.stream());
      const found = find(id);
      return found === null
        ? { outcome: 'unknown', reason: 'its file is gone', status: null }
        : { outcome: 'created', batch: found.batch };
    },
    async listBatches({ createdAfter }) {
      const batches = own(() => list().filter((batch) => batch.created_at >= createdAfter));
      return { batches, complete: true, unavailable: null, now: new Date() };
    },
    retrieveBatch: retrieve,
    cancelBatch: retrieve,
    async streamResults(providerId) {
      return { outcome: 'open', chunks: results(providerId) };
    },
  };
}

/** Finds the template of a step: bits 8 to 23 of the id's last eight hex digits, before `-<attempt>`. */
function templateOf(templates: readonly LineTemplate[], ids: Buffer, start: number): LineTemplate {
  const step = Number.parseInt(ids.toString('latin1', start + 35, start + 43), 16) >>> 8;
  const template = templates[(step & 0xffff) - 1];
  if (template === undefined) throw new Error(`The workload has no step ${step & 0xffff}.`);
  return template;
}

/** Collects the custom_ids of a body that arrives in pieces. */
function idReader(): {
  readonly ids: readonly string[];
  read(chunk: string | Uint8Array): void;
} {
  const ids: string[] = [];
  const overlap = CUSTOM_ID_KEY.length + CUSTOM_ID_CHARS - 1;
  let rest = Buffer.alloc(0);
  return {
    ids,
    read(chunk) {
      const fresh =
        typeof chunk === 'string'
          ? Buffer.from(chunk)
          : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
      const seam = rest.length;
      const bytes = seam === 0 ? fresh : Buffer.concat([rest, fresh]);
      let from = 0;
      for (;;) {
        const at = bytes.indexOf(CUSTOM_ID_KEY, from);
        if (at === -1 || at + CUSTOM_ID_KEY.length + CUSTOM_ID_CHARS > bytes.length) {
          const keepFrom = at === -1 ? Math.max(from, bytes.length - overlap) : at;
          rest = Buffer.from(bytes.subarray(keepFrom));
          return;
        }
        const start = at + CUSTOM_ID_KEY.length;
        ids.push(bytes.toString('latin1', start, start + CUSTOM_ID_CHARS));
        from = start + CUSTOM_ID_CHARS;
      }
    },
  };
}
