/** Runs an engine in a process of its own. The parent sends IPC messages: accept, run, account, audit. */
import { ENGINES, isEngineName } from './engines/engines.ts';
import type { EngineContext, EngineFigures, RowCounts } from './engines/engine.ts';

export interface ToChild {
  readonly kind: 'accept' | 'run' | 'account' | 'audit';
}
export type FromChild =
  | { readonly kind: 'ready' | 'accepted' | 'ran' | 'audited' }
  | { readonly kind: 'account'; readonly figures: EngineFigures; readonly rows: RowCounts }
  /** Null for an engine without an audit. */
  | { readonly kind: 'audit-ready'; readonly steps_kept: number | null }
  | { readonly kind: 'failed'; readonly message: string };

const [name = '', contextJson = '{}'] = process.argv.slice(2);
const tell = (message: FromChild): Promise<void> =>
  new Promise((resolve) => {
    process.send?.(message, () => resolve());
  });

process.on('disconnect', () => process.exit(1));
try {
  if (!isEngineName(name)) throw new Error(`There is no engine '${name}'.`);
  const prepare = await ENGINES[name].load();
  const engine = await prepare(JSON.parse(contextJson) as EngineContext);
  const told = (kind: ToChild['kind']): Promise<void> =>
    new Promise((resolve) => {
      const listener = (message: ToChild): void => {
        if (message.kind !== kind) return;
        process.off('message', listener);
        resolve();
      };
      process.on('message', listener);
    });
  let next = told('accept');
  await tell({ kind: 'ready' });
  await next;
  next = told('run');
  await engine.accept();
  await tell({ kind: 'accepted' });
  await next;
  next = told('account');
  await engine.run();
  await tell({ kind: 'ran' });
  await next;
  next = told('audit');
  const figures = await engine.figures();
  await tell({ kind: 'account', figures, rows: await engine.count() });
  const audit = await engine.prepareAudit?.();
  await tell({ kind: 'audit-ready', steps_kept: audit?.steps_kept ?? null });
  await next;
  await audit?.run();
  await tell({ kind: 'audited' });
  await engine.close();
  process.exit(0);
} catch (error) {
  await tell({
    kind: 'failed',
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
  });
  process.exit(1);
}
