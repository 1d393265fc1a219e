import {
  cacheFactors,
  continuationProbability,
  decideCacheMarks,
  expectedHitRate,
  expectedRequests,
  hasTools,
  modelTraits,
  NO_MARKS,
  TOKEN_CALIBRATION_DEFAULT,
  turnaroundWithin,
  type CacheFacts,
} from '@nightshift/agent-core';
import { readCachedTokens, readCacheUse, readTurnarounds, type SealedRequest } from '@nightshift/db';
import type { CachedDefinition, MarksOf } from '@nightshift/intake';
import type { FlowDeps } from '../deps.ts';
import { workStatisticsOf } from '../work-statistics.ts';
import type { Calibrations } from './fit-requests.ts';

/** Reads the statistics of a page of requests and returns their cache marks. */
export type CacheMarksOfPage = (page: readonly SealedRequest[]) => Promise<MarksOf>;

/** Time for which a marked prefix is kept after its last use. */
const CACHED_FOR_MS = 3_600_000;
/** No recent answer has used the cache: nothing is looked up. */
const NOTHING_CACHED: ReadonlyMap<number, number> = new Map();

/** Reads measured hit rates and turnarounds, and returns a function that decides cache marks by expected cost. */
export async function openCacheMarks(
  deps: Pick<FlowDeps, 'db' | 'settings' | 'definitions' | 'work'>,
  batch: { readonly id: string; readonly credential: string },
  calibrations: Calibrations,
): Promise<CacheMarksOfPage> {
  const { db, settings } = deps;
  const uses = await readCacheUse(db);
  const isUsed = [...uses.values()].some(
    ({ written_tokens, read_tokens }) => written_tokens + read_tokens > 0,
  );
  const turnarounds = await readTurnarounds(db, batch.credential);
  /** Requests of each definition in this page and earlier ones of the provider batch. */
  const sharers = new Map<string, number>();
  return async (page) => {
    for (const { definition_id: id } of page) sharers.set(id, (sharers.get(id) ?? 0) + 1);
    const ids = page.map(({ definition_id }) => definition_id);
    const definitions = await deps.definitions.get(db, ids);
    const work = await workStatisticsOf(deps, db, definitions.values());
    const [first, last] = [page[0]?.ordinal ?? 0, page.at(-1)?.ordinal ?? -1];
    const cached = isUsed ? await readCachedTokens(db, batch.id, first, last + 1) : NOTHING_CACHED;
    const facts = new Map<CachedDefinition, DefinitionFacts>();
    return (request, made_by, lengths) => {
      let known = facts.get(made_by);
      if (known === undefined) {
        const stats = work.get(request.definition_id)?.statistics ?? null;
        const { model_name } = made_by.toolPolicy;
        const { bytes_per_token } = calibrations.get(model_name) ?? TOKEN_CALIBRATION_DEFAULT;
        known = {
          bytes_per_token,
          fixed: made_by.encoded.system.length + made_by.encoded.tools.length,
          next: new Map(),
          continues: (step) =>
            continuationProbability(stats, step, { has_tools: hasTools(made_by.definition) }),
          cacheable_tokens_min: modelTraits(model_name).cacheable_tokens_min,
          ...cacheFactors(settings.prices, model_name),
          hit_rate: expectedHitRate(uses.get(model_name) ?? null),
          in_time: turnaroundWithin(turnarounds.get(model_name) ?? [], CACHED_FOR_MS),
        };
        facts.set(made_by, known);
      }
      const { fixed, next, continues, bytes_per_token } = known;
      const tokensOf = (characters: number): number => Math.floor(characters / bytes_per_token);
      const prompt_tokens = tokensOf(fixed + lengths.memory + lengths.messages);
      if (prompt_tokens < known.cacheable_tokens_min) return NO_MARKS;
      const { number, steps_max } = request;
      const place = number * 65_536 + steps_max;
      const next_requests = next.get(place) ?? expectedRequests(number, steps_max, continues);
      next.set(place, next_requests);
      const marks = decideCacheMarks({
        ...known,
        static_tokens: made_by.encoded.system === '' ? 0 : tokensOf(fixed),
        memory_tokens: tokensOf(fixed + lengths.memory),
        prompt_tokens,
        cached_tokens: cached.get(request.ordinal) ?? 0,
        next_requests,
        sharers: sharers.get(request.definition_id) ?? 1,
      });
      return hasOwnMarks(request, made_by) ? { static: marks.static, memory: false, end: false } : marks;
    };
  };
}

/** The facts that the requests of a definition share. */
interface DefinitionFacts extends Pick<
  CacheFacts,
  'cacheable_tokens_min' | 'write_factor' | 'read_factor' | 'hit_rate' | 'in_time'
> {
  readonly bytes_per_token: number;
  /** Length of tools and static prompt, in characters. */
  readonly fixed: number;
  readonly continues: (step: number) => number;
  /** Expected further requests, by step number and limit. */
  readonly next: Map<number, number>;
}

/** Whether the user has set marks in messages or settings: a request takes four at most. */
function hasOwnMarks({ messages_json }: SealedRequest, { definition }: CachedDefinition): boolean {
  return 'cache_control' in definition.model_settings.extra || messages_json.includes('"cache_control"');
}
