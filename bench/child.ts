/** The process that an engine lives in. Told over IPC when to take the runs in, when to work, and when to account for itself. */
import { ENGINES, isEngineName } from './engines/engines.ts';
import type { EngineContext, EngineFigures, RowCounts } from './engines/engine.ts';

export interface ToChild {
  readonly kind: 'accept' | 'run' | 'account';
}
export type FromChild =
  | { readonly kind: 'ready' | 'accepted' | 'ran' }
  | { readonly kind: 'account'; readonly figures: EngineFigures; readonly rows: RowCounts }
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
  const figures = await engine.figures();
  await tell({ kind: 'account', figures, rows: await engine.count() });
  await engine.close();
  process.exit(0);
} catch (error) {
  await tell({
    kind: 'failed',
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
  });
  process.exit(1);
}
