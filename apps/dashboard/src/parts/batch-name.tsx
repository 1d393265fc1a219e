import type { Batch } from '@nightshift/client';
import { useBatchName } from '../api/batch-names.ts';

/** Shows the name of a batch, or its id. */
export function BatchName({ batch }: { readonly batch: Batch }) {
  const name = useBatchName(batch);
  return name === batch.id ? <span className="mono">{name}</span> : name;
}
