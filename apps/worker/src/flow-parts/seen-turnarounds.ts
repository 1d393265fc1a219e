import { readTurnarounds, type Database } from '@nightshift/db';
import type { FlowDeps } from './deps.ts';

/** Returns the turnarounds seen of batches with these models; of all models for null. Unit: milliseconds. */
export type SeenTurnarounds = (models: readonly string[] | null) => readonly number[];

/** Reads the turnarounds seen under the worker's credential. Without a policy of looks, none is read. */
export async function readSeenTurnarounds(
  { settings }: Pick<FlowDeps, 'settings'>,
  db: Database,
): Promise<SeenTurnarounds> {
  if (settings.poll.looks === undefined) return () => [];
  const byModel = await readTurnarounds(db, settings.credential);
  return (models) => (models ?? [...byModel.keys()]).flatMap((model) => byModel.get(model) ?? []);
}
