import {
  invariants,
  PAUSE_CAUSES,
  readCacheUse,
  readFailureCounts,
  readGauges,
  readLastAudit,
  readProviderClocks,
} from '@nightshift/db';
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { App, Context } from '../../context.ts';

/** Serves metrics in Prometheus' text format: this process, the system's state and the last audit. */
export function metrics(app: App, context: Context): void {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'nightshift_api_' });
  const dropped = new Counter({
    name: 'nightshift_api_log_lines_dropped_total',
    help: 'Log lines dropped because they could not be written.',
    registers: [registry],
  });
  const gauge = <Label extends string>(name: string, help: string, labelNames: Label[]): Gauge<Label> =>
    new Gauge({ name: `nightshift_${name}`, help, labelNames, registers: [registry] });

  const failedLines = new Counter({
    name: 'nightshift_failed_lines_total',
    help: 'Attempts of steps that failed, by the type of the error.',
    labelNames: ['type'],
    registers: [registry],
  });
  const outages = new Counter({
    name: 'nightshift_provider_outages_total',
    help: 'Outages of the provider, proven by fresh requests of a model.',
    labelNames: ['model'],
    registers: [registry],
  });

  const batches = gauge('batches', 'Unfinished batches, by state.', ['state']);
  const providerBatches = gauge('provider_batches', 'Unfinished provider batches, by state.', ['state']);
  const runs = gauge('runs_waiting', 'Runs that wait for their next request or for their tool calls.', [
    'for',
  ]);
  const oldest = gauge('oldest_due_seconds', 'Seconds that the oldest due row has waited for a worker.', []);
  const paused = gauge('paused_credentials', 'Credentials that currently send no requests, by reason.', [
    'reason',
  ]);
  const offset = gauge(
    'provider_clock_offset_seconds',
    "The provider's time minus the database's, as last measured.",
    ['credential'],
  );
  const uncertainty = gauge('provider_clock_uncertainty_seconds', 'Uncertainty of the offset of the clock.', [
    'credential',
  ]);
  const age = gauge('provider_clock_age_seconds', 'Seconds since the offset of the clock was measured.', [
    'credential',
  ]);
  const overshoots = gauge('overshoots', 'Answers that cost more than was reserved for them. Target: 0.', []);
  const cutOffs = gauge(
    'cut_off_answers',
    'Answers cut off at a limit under a cap and asked for again in full.',
    [],
  );
  const estimates = gauge('estimated_batches', 'Batches completed in the last 30 days with an estimate.', []);
  const errors = gauge(
    'estimate_error',
    'Share of the cost by which estimates were above it, of batches completed in the last 30 days.',
    ['quantile'],
  );
  const cached = gauge(
    'prompt_tokens',
    'Prompt tokens of a sample of recent answers, by model and price: plain, written to the cache, read from it.',
    ['model', 'price'],
  );
  const hitRate = gauge(
    'cache_hit_rate',
    'Share of the tokens cached by the step before that the provider read, of a sample of recent later steps of runs.',
    ['model'],
  );
  const violations = gauge(
    'invariant_violations',
    'Rows that broke an invariant at the last audit, at most 20.',
    ['id'],
  );
  const auditedAt = gauge('last_audit_timestamp_seconds', 'End of the last audit.', []);

  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
    const [gauges, audit, clocks, failures, uses] = await Promise.all([
      readGauges(context.db),
      readLastAudit(context.db),
      readProviderClocks(context.db),
      readFailureCounts(context.db),
      readCacheUse(context.db),
    ]);
    dropped.reset();
    dropped.inc(context.logStatus().dropped_lines);
    failedLines.reset();
    for (const { error_type: type, lines } of failures.failed_lines) failedLines.inc({ type }, lines);
    outages.reset();
    for (const { model, outages: count } of failures.outages) outages.inc({ model }, count);
    batches.reset();
    for (const { state, count } of gauges.batches) batches.set({ state }, count);
    providerBatches.reset();
    for (const { state, count } of gauges.provider_batches) providerBatches.set({ state }, count);
    runs.set({ for: 'request' }, gauges.ready_runs);
    runs.set({ for: 'tools' }, gauges.acting_runs);
    oldest.set(gauges.oldest_due_seconds);
    paused.reset();
    for (const reason of PAUSE_CAUSES) paused.set({ reason }, 0);
    for (const reason of gauges.pauses) paused.inc({ reason });
    for (const each of [offset, uncertainty, age]) each.reset();
    for (const { name: credential, offset_ms, uncertainty_ms, age_ms } of clocks) {
      offset.set({ credential }, offset_ms / 1000);
      uncertainty.set({ credential }, uncertainty_ms / 1000);
      age.set({ credential }, age_ms / 1000);
    }
    overshoots.set(gauges.overshoots);
    cutOffs.set(gauges.cut_offs);
    estimates.set(gauges.estimates);
    errors.reset();
    for (const [quantile, error] of gauges.estimate_errors) errors.set({ quantile: String(quantile) }, error);
    cached.reset();
    hitRate.reset();
    for (const [model, use] of uses) {
      cached.set({ model, price: 'plain' }, use.plain_tokens);
      cached.set({ model, price: 'written' }, use.written_tokens);
      cached.set({ model, price: 'read' }, use.read_tokens);
      if (use.measured > 0) hitRate.set({ model }, use.hit_rate);
    }
    violations.reset();
    for (const { id } of invariants()) violations.set({ id }, 0);
    for (const { id } of audit?.violations ?? []) violations.inc({ id });
    if (audit !== null) auditedAt.set(audit.finished_at.getTime() / 1000);
    return reply.type(registry.contentType).send(await registry.metrics());
  });
}
