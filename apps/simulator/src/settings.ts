import { z } from 'zod';
import { parseLatency } from './latency.ts';
import type { Latency } from './latency.ts';
import { SCRIPTS } from './scripts/registry.ts';

const fraction = z.number().min(0).max(1);
const milliseconds = z.number().nonnegative();

const latency = z.union([
  z.string().transform((text, context): Latency => {
    try {
      return parseLatency(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
      return z.NEVER;
    }
  }),
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('fixed'), ms: milliseconds }),
    z.strictObject({ kind: z.literal('uniform'), min_ms: milliseconds, max_ms: milliseconds }),
    z.strictObject({
      kind: z.literal('lognormal'),
      median_ms: z.number().positive(),
      p90_ms: z.number().positive(),
    }),
  ]),
]);

const pattern = z.string().refine((text) => {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}, 'is not a regular expression');

/**
 * The settings of `POST /config`, which apply at run time. Absent members keep their value.
 * Unit: ms of the simulator's clock.
 */
const settingsSchema = z
  .strictObject({
    /** Time from creation to end: `fixed:<ms>`, `uniform:<min>-<max>`, `lognormal:<median>:<p90>`, or an object. */
    latency,
    /** Fractions of valid requests, drawn by custom id, that end without an answer. */
    outcomes: z
      .strictObject({
        errored: fraction,
        errored_type: z.string().min(1),
        errored_message: z.string(),
        expired: fraction,
      })
      .partial(),
    cancel: z
      .strictObject({
        /** Time from the cancel request to the end of the batch. */
        delay_ms: milliseconds,
        /** Probability that a request under work at the cancel still succeeds. */
        started_succeed: fraction,
        /** Fraction of a batch that is under work at any time. */
        in_work: fraction,
        /** `ignored`: the batch shows `canceling`, but every request runs to its end. */
        behaviour: z.enum(['normal', 'ignored']),
        /** The answer to a cancel of an ended batch. */
        after_end: z.enum(['error', 'unchanged']),
      })
      .partial(),
    /** The `request_counts` before the end. `lagging`: they show `processing` for `counts_lag_ms` after the end. */
    counts: z.enum(['at_end', 'progressive', 'lagging', 'frozen']),
    counts_lag_ms: milliseconds,
    /** Order of result lines in files that are written later. */
    result_order: z.enum(['shuffled', 'reversed', 'submitted']),
    results_gzip: z.boolean(),
    /** Null: no content type at all, as the provider did until 2026. */
    results_content_type: z.string().nullable(),
    expires_after_ms: milliseconds,
    archive_after_ms: milliseconds,
    max_body_bytes: z.number().int().positive(),
    max_requests: z.number().int().positive(),
    limits: z
      .strictObject({
        /** Requests per minute to all batch endpoints; null: no limit. */
        requests_per_minute: z.number().min(1).nullable(),
        /** Maximum message requests in processing; null: no limit. */
        queued_requests: z.number().positive().nullable(),
      })
      .partial(),
    /** Fraction of requests, drawn by custom id, that miss the prompt cache although it holds their prefix. */
    cache_miss: fraction,
    default_script: z.string().refine((name) => SCRIPTS.has(name), 'is not the name of a script'),
    default_script_args: z.record(z.string(), z.string()),
    /** Offset of the provider's time in `Date` headers and batches, and its format. */
    timestamps: z
      .strictObject({ skew_ms: z.number(), format: z.enum(['z', 'offset', 'whole_seconds']) })
      .partial(),
    /** Pattern for the part of a custom id that names the logical request in the ledger: first group, else whole match. */
    logical_key: pattern.nullable(),
    /** API keys with their own workspace; all others share the workspace `default`. */
    workspaces: z.record(z.string(), z.string()),
    /** Null: the Host header of each request. */
    public_url: z.url().nullable(),
    /** Keeps the bodies of ended batches on disk. */
    keep_bodies: z.boolean(),
  })
  .partial();

/** A change of settings. */
export type SettingsChange = z.input<typeof settingsSchema>;

type Complete<T> = { [K in keyof T]-?: Exclude<T[K], undefined> };
type Parsed = Complete<z.output<typeof settingsSchema>>;

export type Settings = {
  [K in keyof Parsed]: K extends 'outcomes' | 'cancel' | 'limits' | 'timestamps'
    ? Complete<Parsed[K]>
    : Parsed[K];
};

const HOUR_MS = 3_600_000;

/** The default settings. */
export const DEFAULT_SETTINGS: Settings = {
  latency: { kind: 'uniform', min_ms: 200, max_ms: 2000 },
  outcomes: { errored: 0, errored_type: 'api_error', errored_message: 'Internal server error', expired: 0 },
  cancel: { delay_ms: 1000, started_succeed: 0.5, in_work: 0.2, behaviour: 'normal', after_end: 'error' },
  counts: 'at_end',
  counts_lag_ms: 60_000,
  result_order: 'shuffled',
  results_gzip: false,
  results_content_type: 'application/x-jsonl',
  expires_after_ms: 24 * HOUR_MS,
  archive_after_ms: 29 * 24 * HOUR_MS,
  max_body_bytes: 256_000_000,
  max_requests: 100_000,
  limits: { requests_per_minute: null, queued_requests: null },
  cache_miss: 0.3,
  default_script: 'obey',
  default_script_args: {},
  timestamps: { skew_ms: 0, format: 'z' },
  logical_key: null,
  workspaces: {},
  public_url: null,
  keep_bodies: false,
};

/**
 * Returns the settings after a change.
 * Throws: ZodError that names the member.
 */
export function changeSettings(settings: Settings, change: unknown): Settings {
  const parsed = settingsSchema.parse(change);
  return {
    ...settings,
    ...(parsed as Partial<Settings>),
    outcomes: { ...settings.outcomes, ...(parsed.outcomes as Partial<Settings['outcomes']> | undefined) },
    cancel: { ...settings.cancel, ...(parsed.cancel as Partial<Settings['cancel']> | undefined) },
    limits: { ...settings.limits, ...(parsed.limits as Partial<Settings['limits']> | undefined) },
    timestamps: {
      ...settings.timestamps,
      ...(parsed.timestamps as Partial<Settings['timestamps']> | undefined),
    },
  };
}
