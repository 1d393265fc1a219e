import {
  createNightshift,
  isApiError,
  NightshiftUnreachableError,
  type Check,
  type Checks,
  type NightshiftApiError,
} from '@nightshift/client';
import type { Config } from '../config.ts';
import type { Session } from '../session.ts';
import { checkEnvironment, checkKey, keyOfDataFolder, sourceOf } from './environment.ts';
import { failing, ok, type Finding } from './finding.ts';

export type Schedules = NonNullable<Extract<Check, { readonly name: 'schedules' }>['details']>;

export interface Diagnosis {
  /** An API of Nightshift answers, even if it refuses the key. */
  readonly reachable: boolean;
  readonly findings: readonly Finding[];
  /** What the ticks of schedules will meet; null if the API does not tell. */
  readonly schedules: Schedules | null;
}

/** Asks the API for its checks; where none answers, checks the environment. */
export async function diagnose(session: Session, until: Date | undefined): Promise<Diagnosis> {
  const { config } = session;
  try {
    const answer = await askApi(session, until);
    if (answer === null) return await withoutApi(config, [stranger(config)]);
    const { checks, version } = answer;
    return {
      reachable: true,
      findings: [ok('api', `${addressOf(config)} answers, version ${version}.`), ...checks],
      schedules: checks.find((check) => check.name === 'schedules')?.details ?? null,
    };
  } catch (error) {
    if (error instanceof NightshiftUnreachableError) return withoutApi(config, []);
    if (isApiError(error)) return explain(config, error);
    throw error;
  }
}

/** Longest wait for the answer: the API ends a check after eight seconds. Unit: ms. */
const ANSWER_MS = 20_000;

/** Asks for the checks. Returns null if the answer is not that of an API. */
async function askApi({ config, signal }: Session, until: Date | undefined): Promise<Checks | null> {
  const client = createNightshift({
    url: config.url.value,
    apiKey: config.apiKey?.value ?? '',
    retriesMax: 0,
    fetch: (request) => fetch(request, { signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]) }),
  });
  try {
    const answer: unknown = await client.admin.checks(until === undefined ? {} : { at: until.toISOString() });
    return isChecks(answer) ? answer : null;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof NightshiftUnreachableError) throw error;
    // Another server may answer anything to any path.
    if (isApiError(error) && error.code !== 'unexpected') throw error;
    return null;
  }
}

function isChecks(answer: unknown): answer is Checks {
  return typeof answer === 'object' && answer !== null && 'object' in answer && answer.object === 'checks';
}

function addressOf({ url }: Config): string {
  return `${url.value} (from ${sourceOf(url.source)})`;
}

function stranger(config: Config): Finding {
  return failing(
    'api',
    `Another program than Nightshift's API answers at ${addressOf(config)}.`,
    'Correct NIGHTSHIFT_URL, --url or nightshift config; npm start prints the address of its API.',
  );
}

async function withoutApi(config: Config, first: readonly Finding[]): Promise<Diagnosis> {
  const environment = await checkEnvironment(config);
  const findings = [...first, ...environment];
  const isFound = findings.some(({ status }) => status === 'failing');
  const silent = failing(
    'api',
    `A program listens at ${addressOf(config)}, but gives no answer.`,
    'See the log of the API, and restart it; behind a proxy or with TLS check these too.',
  );
  return { reachable: false, findings: isFound ? findings : [silent, ...findings], schedules: null };
}

/** Explains a refusal of the API. Throws: a refusal of the request itself. */
async function explain(config: Config, error: NightshiftApiError): Promise<Diagnosis> {
  if (error.code === 'unauthorized')
    return refused([ok('api', `${addressOf(config)} answers.`), wrongKey(config)]);
  if (error.code === 'unknown_path')
    return refused([
      failing(
        'api',
        `The API at ${addressOf(config)} is older than this command: it makes no checks.`,
        'Start the API of this release, or use the command of its release.',
      ),
    ]);
  if (error.status < 500) throw error;
  return withoutApi(config, [
    failing(
      'api',
      `${addressOf(config)} answers ${error.status}: ${error.message}`,
      'See the log of the API.',
    ),
  ]);
}

function refused(findings: readonly Finding[]): Diagnosis {
  return { reachable: true, findings, schedules: null };
}

function wrongKey(config: Config): Finding {
  const { apiKey } = config;
  if (apiKey === undefined) return checkKey(config);
  const finding = `The API refuses the key from ${sourceOf(apiKey.source)}.`;
  const ofFolder = keyOfDataFolder(config);
  const advice =
    ofFolder !== undefined && ofFolder !== apiKey.value
      ? 'The data folder of npm start has another key: unset NIGHTSHIFT_API_KEY, --key-file and the key of nightshift config.'
      : 'Set NIGHTSHIFT_API_KEY to the key that the API was started with; without one it is in its .data/api-key.';
  return failing('key', finding, advice);
}
