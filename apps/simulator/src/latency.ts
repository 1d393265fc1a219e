import { drawFrom } from './draws.ts';

/** Duration of a batch from creation to end. Unit: ms of the simulator's clock. */
export type Latency =
  | { readonly kind: 'fixed'; readonly ms: number }
  | { readonly kind: 'uniform'; readonly min_ms: number; readonly max_ms: number }
  | { readonly kind: 'lognormal'; readonly median_ms: number; readonly p90_ms: number };

/** The standard normal quantile of 0.9. */
const Z90 = 1.2815515655446004;

/**
 * Parses `fixed:400`, `uniform:200-2000` or `lognormal:<median>:<p90>`, all in ms.
 * Users of the provider report about `lognormal:420000:3600000`: half of all batches within 7 minutes, 90 % within an hour.
 * Throws: an Error that names the accepted forms.
 */
export function parseLatency(text: string): Latency {
  const fixed = /^fixed:(\d+)$/.exec(text);
  if (fixed) return { kind: 'fixed', ms: Number(fixed[1]) };
  const uniform = /^uniform:(\d+)-(\d+)$/.exec(text);
  if (uniform && Number(uniform[1]) <= Number(uniform[2])) {
    return { kind: 'uniform', min_ms: Number(uniform[1]), max_ms: Number(uniform[2]) };
  }
  const lognormal = /^lognormal:(\d+):(\d+)$/.exec(text);
  if (lognormal && Number(lognormal[1]) > 0 && Number(lognormal[1]) <= Number(lognormal[2])) {
    return { kind: 'lognormal', median_ms: Number(lognormal[1]), p90_ms: Number(lognormal[2]) };
  }
  throw new Error(`latency "${text}" is not fixed:<ms>, uniform:<min>-<max> or lognormal:<median>:<p90>`);
}

/** Draws the latency of one batch from the parts. Unit: ms. */
export function latencyOf(latency: Latency, ...parts: readonly (string | number)[]): number {
  if (latency.kind === 'fixed') return latency.ms;
  if (latency.kind === 'uniform') {
    return Math.round(latency.min_ms + drawFrom('latency', ...parts) * (latency.max_ms - latency.min_ms));
  }
  const u = Math.max(drawFrom('latency.u', ...parts), Number.EPSILON);
  const normal = Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * drawFrom('latency.v', ...parts));
  const sigma = Math.log(latency.p90_ms / latency.median_ms) / Z90;
  return Math.round(latency.median_ms * Math.exp(sigma * normal));
}
